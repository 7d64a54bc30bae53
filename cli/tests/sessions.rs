//! Sessions: their checkpoints with a conversation, the log, retention.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use crate::common::*;
use parhelia_ledger::{kind, selector::find};
use parhelia_store::{
    OpenOptions,
    event::{Actor, NewEvent},
    id::Ulid,
    tree::{Kind, Node},
};
use serde_json::{Value, json};

const AGENT_SESSION: &str = "0a1b2c3d-0000-4000-8000-000000000001";

/// A workspace, and a conversation in the agent's configuration folder.
pub struct Agent {
    pub home: Home,
    pub transcript: PathBuf,
}

impl Agent {
    pub fn new() -> Self {
        let home = Home::new();
        fs::create_dir_all(home.folder.path().join("work")).unwrap();
        fs::write(home.folder.path().join("work/a.txt"), "one\n").unwrap();
        let project = home.folder.path().join(".claude/projects/-work");
        fs::create_dir_all(&project).unwrap();
        Agent { transcript: project.join(format!("{AGENT_SESSION}.jsonl")), home }
    }

    fn say(&self, record: &Value) {
        let mut file = File::options().create(true).append(true).open(&self.transcript).unwrap();
        writeln!(file, "{record}").unwrap();
    }

    fn turn(&self, n: u32) {
        let at = "2026-01-01T00:00:00Z";
        let user = json!({ "role": "user", "content": format!("request {n}") });
        self.say(
            &json!({ "type": "user", "uuid": format!("u{n}"), "sessionId": AGENT_SESSION, "timestamp": at, "message": user }),
        );
        let content = json!([{ "type": "text", "text": format!("reply {n}") }]);
        let usage = json!({ "input_tokens": 100, "output_tokens": 20 });
        let message = json!({ "role": "assistant", "id": format!("m{n}"), "stop_reason": "end_turn", "usage": usage,
                              "content": content, "model": "x" });
        self.say(&json!({ "type": "assistant", "uuid": format!("a{n}"), "sessionId": AGENT_SESSION, "timestamp": at,
                          "message": message }));
    }

    pub fn create(&self, more: &[&str]) -> Run {
        self.home.run(&[&["checkpoint", "create", "fix", "-w", "work"], more].concat())
    }

    fn run(&self, args: &[&str]) -> Run {
        self.home.run(args).expect(0)
    }
}

fn work(home: &Home) -> PathBuf {
    home.folder.path().join("work")
}

fn summary(run: &Run) -> Value {
    run.json().pop().unwrap()
}

#[test]
fn a_checkpoint_has_files_and_conversation_of_one_moment() {
    let agent = Agent::new();
    agent.turn(1);
    let made = agent.create(&["--agent-session", AGENT_SESSION]).expect(0).out;
    assert!(made.starts_with("Checkpoint 0") && made.contains("/work created (session fix)."), "{made}");
    fs::write(work(&agent.home).join("a.txt"), "one\ntwo\n").unwrap();
    agent.turn(2);
    agent.turn(3);
    // The conversation is known by now.
    let second = agent.create(&["--json"]).expect(0);
    assert_eq!(summary(&second)["parts"]["conversation"]["status"], "captured");
    let manifest = agent.run(&["checkpoint", "show", "--json"]).json().remove(0);
    follows_schema(&manifest);
    assert_eq!(
        (&manifest["conversation"]["turn_count"], &manifest["conversation"]["last_message_id"]),
        (&json!(3), &json!("m3"))
    );
    assert_eq!((&manifest["verification"]["ok"], &manifest["consistency"]), (&json!(true), &json!("turn_boundary")));

    let report = agent.run(&["checkpoint", "diff", "fix@latest~1", "fix@latest"]).out;
    for part in ["Conversation:\n  Turns: 1 → 3 (+2)\n  Tokens: 120 → 360 (+240)\n  Cost: – → –\n", "  M a.txt  +1     -0\n"]
    {
        assert!(report.contains(part), "{part:?} in {report}");
    }
    let said = agent.run(&["checkpoint", "diff", "fix@latest~1", "fix@latest", "--conversation"]).out;
    assert!(said.contains("request 2") && said.contains("reply 3") && !said.contains("request 1"), "{said}");
    assert!(said.ends_with("2 turns added.\n"), "{said}");
    let session = agent.run(&["session", "show", "fix", "--json"]).json().remove(0);
    assert_eq!((&session["conversations"][0]["id"], &session["totals"]["checkpoints"]), (&json!(AGENT_SESSION), &json!(2)));
}

#[test]
fn a_session_is_named_by_its_id_or_its_name() {
    let home = Home::new();
    fs::create_dir_all(work(&home)).unwrap();
    fs::write(work(&home).join("a.txt"), "one\n").unwrap();
    let started = ["session", "run", "--name", "fix", "-w", "work", "--interval", "0", "--json", "--", "true"];
    home.run(&started).expect(0);
    home.run(&["checkpoint", "create", "fix", "-w", "work"]).expect(0);
    let session = home.run(&["session", "show", "fix", "--json"]).expect(0).json().remove(0);
    let id = session["id"].as_str().unwrap();
    assert_ne!(id, "fix");
    let latest = summary(&home.run(&["checkpoint", "show", "latest", "--json"]).expect(0))["id"].clone();
    for name in ["fix", id] {
        let listed = home.run(&["checkpoint", "list", name, "--json"]).expect(0);
        assert_eq!(listed.json()[0]["id"], latest);
        let found = home.run(&["checkpoint", "find", "a.txt", name, "--json"]).expect(0);
        assert_eq!(found.json()[0]["checkpoints"][0], latest);
        let shown = home.run(&["checkpoint", "show", &format!("{name}@latest"), "--json"]).expect(0);
        assert_eq!(summary(&shown)["id"], latest);
    }
    for args in [&["list", "nobody"][..], &["find", "a.txt", "nobody"], &["show", "nobody@latest"]] {
        let run = home.run(&[&["checkpoint"], args].concat()).expect(10);
        assert!(run.err.contains("no session 'nobody'"), "{run:?}");
    }
    // Of two that are called so, none is meant.
    home.run(&started).expect(0);
    for args in [&["list", "fix"][..], &["find", "a.txt", "fix"], &["show", "fix@latest"]] {
        assert!(home.run(&[&["checkpoint"], args].concat()).expect(10).err.contains(id));
    }
    assert_eq!(summary(&home.run(&["checkpoint", "show", &format!("{id}@latest"), "--json"]).expect(0))["id"], latest);
}

#[test]
fn a_conversation_that_is_gone_makes_the_checkpoint_incomplete() {
    let agent = Agent::new();
    agent.turn(1);
    agent.create(&["--transcript", agent.transcript.to_str().unwrap()]).expect(0);
    fs::remove_file(&agent.transcript).unwrap();
    let run = agent.create(&["--json"]).expect(3);
    assert!(run.err.contains("incomplete: conversation:"), "{run:?}");
    assert_eq!(summary(&run)["parts"]["conversation"]["status"], "failed");
    follows_schema(&agent.run(&["checkpoint", "show", "--json"]).json().remove(0));
    let listed = agent.run(&["checkpoint", "list", "--detailed"]).out;
    assert!(listed.lines().nth(1).unwrap().contains("incomplete"), "{listed}");
    agent.create(&["--no-conversation"]).expect(0);
    agent.create(&["--agent-session", "../../etc"]).expect(2);
}

#[test]
fn a_headless_agents_output_is_a_conversation() {
    let agent = Agent::new();
    let lines = [
        json!({ "type": "system", "subtype": "init", "session_id": AGENT_SESSION, "model": "x" }),
        json!({ "type": "assistant", "session_id": AGENT_SESSION, "message": { "id": "m1", "role": "assistant", "content": [] } }),
        json!({ "type": "result", "subtype": "success", "session_id": AGENT_SESSION, "total_cost_usd": 0.25, "num_turns": 1 }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let log = agent.home.folder.path().join("log");
    fs::write(&log, &text).unwrap();
    agent.create(&["--stream-json", "log"]).expect(0);
    let mut command = agent.home.command(&["checkpoint", "create", "fix", "-w", "work", "--stream-json", "-"]);
    let out = command.stdin(File::open(&log).unwrap()).output().unwrap();
    Run::of(out).expect(0);
    for checkpoint in agent.run(&["checkpoint", "list", "--json"]).json().iter().filter(|line| line["type"] == "checkpoint") {
        assert_eq!(checkpoint["usage"]["cost_estimate_usd"], 0.25, "{checkpoint}");
    }
    // It is no transcript: nobody takes it for one later.
    let session = agent.run(&["session", "show", "fix", "--json"]).out;
    assert!(session.contains(AGENT_SESSION) && !session.contains("stream.tmp") && !session.contains("/log"), "{session}");
    let bare = agent.create(&[]).expect(3);
    assert!(bare.err.contains("--stream-json"), "{}", bare.err);
    fs::write(work(&agent.home).join("a.txt"), "two\n").unwrap();
    let said = agent.run(&["checkpoint", "rollback", "fix@latest~2", "--yes"]);
    assert!(!said.out.contains("The conversation is at") && said.err.contains("files alone go back"), "{said:?}");
    assert_eq!(fs::read_to_string(work(&agent.home).join("a.txt")).unwrap(), "one\n");
    assert_eq!(fs::read_dir(agent.transcript.parent().unwrap()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(agent.home.folder.path().join(".claude/projects")).unwrap().count(), 1);
    let left = fs::read_dir(agent.home.store().join("cache")).unwrap();
    assert!(left.flatten().all(|entry| !entry.file_name().to_string_lossy().contains("stream")));
}

#[test]
fn what_a_conversation_got_later_is_kept_aside_by_a_rollback_and_brought_back_by_undo() {
    let mut agent = Agent::new();
    let config = agent.home.folder.path().join(".claude");
    agent.transcript = parhelia_agent::kinds::KINDS[0].place(&config, &work(&agent.home), AGENT_SESSION);
    let project = agent.transcript.parent().unwrap().to_owned();
    let side = |name: &str| project.join(AGENT_SESSION).join("tool-results").join(name);
    fs::create_dir_all(side("")).unwrap();
    agent.turn(1);
    let before = fs::read(&agent.transcript).unwrap();
    fs::write(side("changed"), "as it was").unwrap();
    fs::write(side("removed"), "as it was").unwrap();
    agent.create(&["--agent-session", AGENT_SESSION]).expect(0);
    agent.turn(2);
    let after = fs::read(&agent.transcript).unwrap();
    fs::write(side("changed"), "as it is now").unwrap();
    fs::remove_file(side("removed")).unwrap();
    fs::write(side("later"), "of the second turn").unwrap();
    let said = agent.run(&["checkpoint", "rollback", "fix@latest", "--yes"]).out;
    let read = |name: &str| fs::read_to_string(side(name)).unwrap();
    assert_eq!(fs::read(&agent.transcript).unwrap(), before);
    assert_eq!((read("changed").as_str(), read("removed").as_str(), side("later").exists()), ("as it was", "as it was", false));
    let kept = said.lines().find_map(|line| line.strip_prefix("Kept aside of the conversation: ")).unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "of the second turn", "{said}");
    agent.run(&["checkpoint", "undo", "fix", "--yes"]);
    assert_eq!(fs::read(&agent.transcript).unwrap(), after);
    assert_eq!((read("changed").as_str(), read("later").as_str()), ("as it is now", "of the second turn"));
    assert!(!side("removed").exists());
}

#[test]
fn listings_say_what_was_verified() {
    let agent = Agent::new();
    agent.create(&[]).expect(0);
    let verified = |line: usize| agent.run(&["checkpoint", "list"]).out.lines().nth(line).unwrap().to_owned();
    // Nothing was read back, which is no check mark.
    assert!(verified(1).contains("in index") && !verified(1).contains("✓"), "{}", verified(1));
    agent.run(&["checkpoint", "verify", "--read", "0"]);
    assert!(verified(1).contains("in index"), "{}", verified(1));
    agent.run(&["checkpoint", "verify", "--deep"]);
    assert!(verified(1).contains("✓ deep"));
    agent.create(&["--deep"]).expect(0);
    assert!(verified(1).contains("✓ deep"));
    // What a new one shares with its parent was not looked at again.
    agent.create(&[]).expect(0);
    assert!(verified(1).contains("new in index"), "{}", verified(1));
    assert!(agent.run(&["checkpoint", "show"]).out.contains("that its parent does not have"));
    assert_eq!(agent.run(&["checkpoint", "show", "--json"]).json()[0]["verification"]["level"], "new");
    // A small one is read whole.
    let said = agent.run(&["checkpoint", "verify"]).out;
    assert!(said.contains("every byte was read") && verified(1).contains("✓ deep"), "{said}");
    // Of a larger one, the report says what was read and what was not.
    fs::write(work(&agent.home).join("large"), vec![7; 3 << 20]).unwrap();
    agent.create(&[]).expect(0);
    let read = agent.run(&["checkpoint", "verify", "--read", "1M", "--json"]).json().pop().unwrap();
    let (level, unread) = (read["level"].as_str().unwrap(), read["unread_bytes"].as_u64().unwrap());
    assert!(["part", "index"].contains(&level) && unread >= 3 << 20, "{read}");
    let said = agent.run(&["checkpoint", "verify", "--read", "1M"]).out;
    assert!(said.contains("only looked up") && !said.contains("is whole"), "{said}");
    // Damage, where the second checkpoint has nothing of its own but trees.
    let packs = fs::read_dir(agent.home.store().join("packs")).unwrap();
    let mut packs: Vec<PathBuf> = packs.map(|entry| entry.unwrap().path()).collect();
    packs.sort();
    fs::remove_file(&packs[0]).unwrap();
    agent.home.run(&["checkpoint", "verify"]).expect(12);
    assert!(verified(1).contains("✗"), "{}", verified(1));
}

#[test]
fn the_log_tells_what_happened_also_to_what_is_gone() {
    let agent = Agent::new();
    agent.create(&["-m", "first"]).expect(0);
    let id = summary(&agent.create(&["--json"]).expect(0))["id"].as_str().unwrap().to_owned();
    agent.home.run(&["checkpoint", "create", "other", "-w", "work"]).expect(0);
    agent.run(&["checkpoint", "delete", &id, "--reason", "a mistake"]);
    let entries = agent.run(&["log", "--session", "fix", "--json"]).json();
    let kinds: Vec<&str> = entries.iter().filter_map(|entry| entry["kind"].as_str()).collect();
    // The second has nothing new to be scanned.
    let first = ["session.created", "checkpoint.created", "checkpoint.verified", "checkpoint.scanned"];
    assert_eq!(kinds, [&first[..], &["checkpoint.created", "checkpoint.verified", "checkpoint.deleted"]].concat());
    let deleted = &entries[entries.len() - 2];
    assert_eq!((&deleted["subject"], &deleted["data"]["reason"]), (&json!(id), &json!("a mistake")));
    assert!(deleted["previous"].as_str().unwrap().len() == 64 && deleted["actor"]["via"] == "cli", "{deleted}");
    // From a cursor on, also where the checkpoint was made before it.
    let before = (deleted["sequence"].as_u64().unwrap() - 1).to_string();
    let since = agent.run(&["log", "--session", "fix", "--after", &before, "--json"]).json();
    assert_eq!(since.iter().filter_map(|entry| entry["subject"].as_str()).collect::<Vec<_>>(), [id.as_str()]);
    let text = agent.run(&["log", "--kind", "checkpoint.created"]).out;
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("manual: first"), "{text}");
    agent.home.run(&["log", "--session", "nobody"]).expect(10);
    assert_eq!(summary(&agent.run(&["check", "--json"]))["events"], 8);
}

/// A checkpoint as another one, but for its parts and what of `state` is kept.
fn alter(home: &Home, of: &str, keep: impl Fn(&Node) -> bool) {
    let store = parhelia_ledger::open(&home.store(), &OpenOptions::default()).unwrap();
    let mut record = find(&store.view(), of).unwrap().record;
    let mut builder = Builder::new(home);
    let nodes = store.folder(record.root).unwrap();
    let kept: Vec<Node> = nodes
        .into_iter()
        .filter_map(|mut node| {
            if node.name == b"state" {
                let below = store.folder(node.as_folder()?.0).unwrap().into_iter().filter(|node| keep(node)).collect::<Vec<_>>();
                let (tree, totals) = builder.encode(&below);
                node.kind = Kind::Folder { tree, totals };
            }
            Some(node)
        })
        .collect();
    record.root = builder.encode(&kept).0;
    record.id = Ulid::generate();
    builder.append(serde_json::to_string(&record).unwrap());
}

#[test]
fn a_checkpoint_without_a_part_is_incomplete() {
    let agent = Agent::new();
    agent.turn(1);
    agent.create(&["--agent-session", AGENT_SESSION]).expect(0);
    let whole = agent.home.run(&["checkpoint", "verify", "--json"]).expect(0);
    let id = summary(&whole)["id"].as_str().unwrap().to_owned();
    assert_eq!((&summary(&whole)["complete"], &summary(&whole)["incomplete"]), (&json!(true), &json!([])));
    for (gone, part) in [
        (&["conversation"][..], "conversation"),
        (&["conversation.json"], "conversation"),
        (&["session_state.json"], "session_state"),
        (&["environment.json"], "environment"),
    ] {
        alter(&agent.home, &id, |node| !gone.iter().any(|name| node.name == name.as_bytes()));
        for deep in [&[][..], &["--deep"]] {
            let run = agent.home.run(&[&["checkpoint", "verify", "--json"], deep].concat()).expect(3);
            let found = summary(&run);
            assert_eq!((&found["ok"], &found["complete"]), (&json!(true), &json!(false)));
            assert_eq!(found["incomplete"][0]["part"], part, "{found}");
            assert!(run.err.contains(&format!("incomplete: {part}: ")), "{run:?}");
        }
        assert!(agent.home.run(&["checkpoint", "verify"]).expect(3).out.contains("is incomplete"));
        let listed = agent.run(&["checkpoint", "list"]).out;
        assert_eq!(listed.lines().nth(1).unwrap().matches("incomplete").count(), 2, "{listed}");
        assert_eq!(agent.run(&["checkpoint", "list", "--json"]).json()[0]["complete"], false);
        assert!(agent.run(&["checkpoint", "show"]).out.contains(&format!("it is incomplete: {part}")));
        follows_schema(&agent.run(&["checkpoint", "show", "--json"]).json().remove(0));
    }
    // One whose part failed when it was made, and says so.
    fs::remove_file(&agent.transcript).unwrap();
    agent.create(&[]).expect(3);
    let run = agent.home.run(&["checkpoint", "verify", "--json"]).expect(3);
    assert_eq!(summary(&run)["incomplete"][0]["part"], "conversation");
}

#[test]
fn every_manifest_follows_the_schema() {
    let agent = Agent::new();
    let id = summary(&agent.create(&["--json", "-m", "plain"]).expect(0))["id"].as_str().unwrap().to_owned();
    follows_schema(&agent.run(&["checkpoint", "show", &id, "--json"]).json().remove(0));
    // With everything that can be said of a checkpoint.
    let store = parhelia_ledger::open(&agent.home.store(), &OpenOptions::default()).unwrap();
    let say = |kind: &str, data: Value| {
        let actor = Actor::program("test");
        let event = NewEvent { data: data.as_object().unwrap().clone(), ..NewEvent::new(kind, id.as_str(), actor) };
        store.append_events(&[event], &()).unwrap();
    };
    say(kind::CHECKPOINT_TAGGED, json!({ "tag": "milestone/v1.0" }));
    say(kind::CHECKPOINT_ANNOTATED, json!({ "text": "works" }));
    say(kind::CHECKPOINT_LINKED, json!({ "tracker": "github", "id": "o/r#1", "url": "https://github.com/o/r/issues/1" }));
    say(kind::CHECKPOINT_DECIDED, json!({ "status": "auto_approved", "policy": "auto" }));
    let manifest = agent.run(&["checkpoint", "show", &id, "--json"]).json().remove(0);
    follows_schema(&manifest);
    assert_eq!((&manifest["tags"], &manifest["approval"]["status"]), (&json!(["milestone/v1.0"]), &json!("auto_approved")));
    let wrong = std::panic::catch_unwind(|| follows_schema(&json!({ "version": "1.3" })));
    assert!(wrong.is_err());
}

#[test]
fn a_session_stays_in_its_workspace() {
    let agent = Agent::new();
    agent.create(&[]).expect(0);
    fs::create_dir(agent.home.folder.path().join("elsewhere")).unwrap();
    let refused = agent.home.run(&["checkpoint", "create", "fix", "-w", "elsewhere"]).expect(4);
    assert!(refused.err.contains("session fix works in") && refused.err.contains("elsewhere"), "{refused:?}");
    let listed = agent.run(&["session", "list"]).out;
    assert!(listed.contains("fix") && !listed.contains("elsewhere"), "{listed}");
}

#[test]
fn prune_says_what_goes_and_what_stays() {
    let agent = Agent::new();
    for i in 0..4 {
        fs::write(work(&agent.home).join("a.txt"), format!("{i}\n")).unwrap();
        agent.create(&[]).expect(0);
    }
    let young = agent.run(&["session", "prune", "-l", "1", "-n"]).out;
    assert!(young.contains("too young to be thinned") && young.ends_with("Would remove 0, keep 4.\n"), "{young}");
    let config = agent.home.folder.path().join(".config/parhelia");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("parhelia.toml"), "[retention]\nkeep_last = 2\nall_hours = 0\nmax_age_hours = 0\n").unwrap();
    let guarded = agent.run(&["session", "prune", "-n"]).out;
    assert!(guarded.ends_with("Would remove 0, keep 4.\n"), "no rule of the configuration removes anything: {guarded}");
    let planned = agent.run(&["session", "prune", "fix", "-l", "1", "-n"]).out;
    assert!(planned.contains("no rule keeps it") && planned.contains("the one before the latest of its session"), "{planned}");
    assert!(planned.ends_with("Would remove 2, keep 2.\n"), "{planned}");
    let weekly = agent.run(&["session", "prune", "fix", "-l", "0", "-w", "3", "-n"]).out;
    assert!(weekly.ends_with("Would remove 2, keep 2.\n"), "{weekly}");
    let done = summary(&agent.run(&["session", "prune", "--keep-last", "1", "--json"]));
    assert_eq!((&done["removed"], &done["kept"], &done["protected"]), (&json!(2), &json!(2), &json!(2)));
    assert_eq!(summary(&agent.run(&["checkpoint", "list", "--json"]))["checkpoints"], 2);
    agent.create(&[]).expect(0);
    let dry = ["session", "prune", "--max-store-bytes", "10", "--dry-run"];
    let planned = agent.run(&dry).out;
    assert!(planned.contains("the store was larger than it may be") && planned.contains("(an estimate)"), "{planned}");
    assert!(
        planned.contains("over the limit would stay; kept against it: 1 the latest of its session, 1 the one before the latest"),
        "{planned}"
    );
    let foretold = summary(&agent.run(&[&dry[..], &["--json"]].concat()));
    assert_eq!((&foretold["removed"], &foretold["kept"], &foretold["max_store_bytes"]), (&json!(1), &json!(2), &json!(10)));
    let bytes = |name: &str| foretold[name].as_u64().unwrap();
    assert!(bytes("excess_bytes") > 0 && bytes("store_bytes") - bytes("freed_bytes") == bytes("excess_bytes") + 10);
    assert_eq!(summary(&agent.run(&["checkpoint", "list", "--json"]))["checkpoints"], 3);
    let limited = agent.home.run(&["session", "prune", "--max-store-bytes", "10"]).expect(0);
    assert!(limited.err.contains("over its limit"), "{limited:?}");
}

#[test]
fn files_that_are_too_large_to_be_shown_are_spoken_of() {
    let agent = Agent::new();
    agent.turn(1);
    let call =
        json!([{ "type": "tool_use", "id": "t", "name": "Read", "input": { "file_path": work(&agent.home).join("a.txt") } }]);
    let message = json!({ "role": "assistant", "id": "m9", "stop_reason": "tool_use", "content": call, "model": "x" });
    agent.say(&json!({ "type": "assistant", "uuid": "a9", "sessionId": AGENT_SESSION, "message": message }));
    let result = json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "one" }] });
    agent.say(&json!({ "type": "user", "uuid": "u9", "sessionId": AGENT_SESSION, "message": result }));
    let warning = "1 file is too large to be shown to a resumed agent (context.max_file_bytes is 1)";
    assert!(!agent.create(&["--agent-session", AGENT_SESSION]).expect(0).err.contains("too large"));
    fs::write(work(&agent.home).join("parhelia.toml"), "[context]\nmax_file_bytes = 1\n").unwrap();
    let told = agent.create(&[]).expect(0);
    assert!(told.err.contains(warning), "{told:?}");
    assert!(!agent.create(&["--quiet"]).expect(0).err.contains(warning));
}

#[test]
fn retention_follows_the_configuration() {
    let agent = Agent::new();
    let config = agent.home.folder.path().join(".config/parhelia");
    fs::create_dir_all(&config).unwrap();
    let set = |text: &str| fs::write(config.join("parhelia.toml"), text).unwrap();
    let off = "[retention]\nkeep_last = 0\nmax_age_hours = 0\nall_hours = 0\nhourly_hours = 0\n";
    set(off);
    let removed = |run: &Run| summary(run)["removed"].as_u64().unwrap();
    for _ in 0..3 {
        assert_eq!(removed(&agent.create(&["--json"]).expect(0)), 0, "0 switches a rule off");
    }
    set(&format!("{off}keep_daily = 1\n"));
    // The newest, which is the newest of the day, and its parent stay.
    let done = agent.create(&["--json"]).expect(0);
    assert_eq!(removed(&done), 2);
    let lines = done.json();
    let gone: Vec<&Value> = lines.iter().filter(|line| line["type"] == "retention").collect();
    assert_eq!(gone.len(), 2);
    assert!(gone.iter().all(|line| line["action"] == "removed" && line["reason"] == "no_rule" && line["session"] == "fix"));
    let told = agent.create(&[]).expect(0).out;
    let listed = agent.run(&["checkpoint", "list", "--json"]).json();
    assert!(told.contains("Retention removed 1 older checkpoint") && told.contains("no rule keeps it"), "{told}");
    assert_eq!(listed.len(), 3, "two, and the summary");
    set(&format!("{off}keep_daily = 1\nautomatic = false\n"));
    assert_eq!(removed(&agent.create(&["--json"]).expect(0)), 0);
    set("[retention]\nmax_age = 0\n");
    let refused = agent.create(&[]).expect(2);
    assert!(refused.err.contains("max_age"), "{refused:?}");
    assert!(Path::new(&agent.home.store()).exists());
}

/// Three MiB that compress to nothing less.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(3 << 17).flatten().collect()
}

#[test]
fn a_checkpoint_that_stores_much_is_told_of_whoever_makes_it() {
    let agent = Agent::new();
    fs::write(work(&agent.home).join("data"), noise(1)).unwrap();
    let told = |limit: &str, args: &[&str]| {
        let output = agent.home.command(args).env("PARHELIA_WARN_BYTES", limit).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said.contains("MiB that the store did not have")
    };
    // The first one of a session, before its program starts.
    assert!(told("1000000", &["session", "run", "--name", "ran", "-w", "work", "--", "true"]));
    fs::create_dir(agent.home.folder.path().join("plain")).unwrap();
    fs::write(agent.home.folder.path().join("plain/data"), fs::read(work(&agent.home).join("data")).unwrap()).unwrap();
    assert!(!told("1000000", &["checkpoint", "create", "again", "-w", "plain"]), "the store has it");
    fs::write(agent.home.folder.path().join("plain/data"), noise(2)).unwrap();
    assert!(told("1000000", &["checkpoint", "create", "again", "-w", "plain"]), "a plain folder, which no agent works in");
    fs::write(agent.home.folder.path().join("plain/other"), "little").unwrap();
    assert!(!told("1000000", &["checkpoint", "create", "again", "-w", "plain"]));
}
