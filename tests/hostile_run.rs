//! An agent that wants out of what its user has set: every variable, option and verb, tried from inside its run. History, decisions, other
//! sessions and the user's own files are what they were, and the user is told.
//!
//! New options and verbs enter by themselves: options come from their table, verbs and flags from the program's own man pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use parhelia_host::config::OPTIONS;
use parhelia_tests::{Scratch, write, write_program};
use serde_json::Value;

/// The user's own options: everything waits for a person.
const OWN: &str = "[approval]\ndefault_policy = \"strict\"\n[secrets]\non_finding = \"review\"\n[retention]\nkeep_last = 50\n";

/// What an agent would rather have.
const LAX: &str = "[approval]\ndefault_policy = \"lax\"\nself_approval = true\n\
                   [approval.policies.lax]\nauto_approve = [\"periodic\", \"detach\", \"error\", \"complete\", \"shutdown\", \"manual\"]\n\
                   [secrets]\nscan = false\n[retention]\nmax_store_bytes = 1\nkeep_last = 1\n[summary]\ncommand = [\"sh\", \"-c\", \"touch @pwned\"]\n";

/// A store with the work of somebody else, and an agent's workspace.
struct Victim {
    scratch: Scratch,
    work: PathBuf,
    before: Facts,
}

/// What must stay as it is.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    /// Checkpoints of the other session, and what was decided and said about them.
    theirs: Vec<(String, String)>,
    /// Other sessions: their state, what is wanted of them, where they are and what they go on from.
    sessions: Vec<String>,
    /// The user's own files.
    files: BTreeMap<PathBuf, String>,
}

impl Victim {
    fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.path("work");
        write(&scratch.path("home/.config/parhelia/parhelia.toml"), OWN.as_bytes()).unwrap();
        write(&scratch.path("home/precious"), b"precious").unwrap();
        write(&work.join("lax.toml"), LAX.replace("@pwned", &scratch.path("pwned").to_string_lossy()).as_bytes()).unwrap();
        write(&work.join("x/parhelia/parhelia.toml"), LAX.replace("@pwned", &scratch.path("pwned").to_string_lossy()).as_bytes())
            .unwrap();
        for state in 0..4u8 {
            write(&scratch.path("theirs/file"), &parhelia_tests::noise(200_000, state.into())).unwrap();
            scratch.create("theirs", &scratch.path("theirs"));
        }
        scratch.expect(0, &["checkpoint", "tag", "theirs@latest", "keep"]);
        // An agent that somebody has ended, and will resume.
        write_program(&scratch.path("bin/claude"), &format!("#!/bin/sh\necho \"$@\" >> '{}'\n", scratch.path("ran").display()));
        fs::create_dir_all(scratch.path("dead")).unwrap();
        let (folder, claude) = (scratch.path("dead"), scratch.path("bin/claude"));
        let (folder, claude) = (folder.to_string_lossy(), claude.to_string_lossy());
        scratch.run(&["session", "run", "--name", "dead", "-w", &folder, "--", &claude, "--model", "opus"]);
        let before = facts(&scratch);
        assert_eq!(before.theirs.len(), 4);
        Victim { scratch, work, before }
    }

    /// Has an agent do something.
    fn run(&self, script: &str) -> String {
        write_program(&self.work.join("agent"), &format!("#!/bin/bash\n{script}\n"));
        let work = self.work.to_string_lossy().into_owned();
        let output = self.scratch.run(&["session", "run", "--name", "agents", "--workspace", &work, "--", "./agent"]);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    fn assert_unharmed(&self, what: &str) {
        assert_eq!(facts(&self.scratch), self.before, "{what}");
        assert!(!self.scratch.path("pwned").exists(), "{what}: a command of the agent's configuration ran");
    }

    /// The approval of each of the agent's checkpoints.
    fn approvals(&self) -> Vec<String> {
        let mine = |line: &Value| line["session"].as_str().is_some_and(|session| session != "theirs");
        lines(&self.scratch, &["checkpoint", "list", "--limit", "1000", "--json"])
            .into_iter()
            .filter(|line| line["type"] == "checkpoint" && mine(line))
            .map(|line| line["approval"]["status"].as_str().unwrap_or("none").to_owned())
            .collect()
    }

    /// The id of the conversation of the session that somebody will resume.
    fn conversation(&self) -> String {
        lines(&self.scratch, &["session", "show", "dead", "--json"])[0]["conversations"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Has a person resume the session that is dead, and asserts that its own command runs.
    fn assert_resumes_own(&self) {
        let before = fs::read_to_string(self.scratch.path("ran")).unwrap_or_default();
        let output = self.scratch.run(&["session", "resume", "dead", "--prompt", "go on"]);
        let ran = fs::read_to_string(self.scratch.path("ran")).unwrap();
        let new = ran.strip_prefix(&before).unwrap();
        let resumed = new.lines().find(|line| line.contains(&format!("--resume {}", self.conversation())));
        assert!(resumed.is_some_and(|line| line.contains("--model opus")), "{new}{output:?}");
        assert!(!self.scratch.path("pwned").exists(), "another command ran");
    }

    fn acts(&self, action: &str) -> Vec<Value> {
        lines(&self.scratch, &["audit", "log", "--all", "--json", "--action", action])
    }
}

fn lines(scratch: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let output = scratch.run(arguments);
    String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn facts(scratch: &Scratch) -> Facts {
    let theirs =
        lines(scratch, &["checkpoint", "list", "theirs", "--json"]).into_iter().filter(|line| line["type"] == "checkpoint");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut files = BTreeMap::new();
    for name in ["home/.config/parhelia/parhelia.toml", "home/precious", "theirs/file"] {
        files.insert(PathBuf::from(name), blake3::hash(&fs::read(scratch.path(name)).unwrap_or_default()).to_string());
    }
    let said = |line: &Value| ["approval", "tags", "annotations", "links"].map(|name| line[name].to_string()).join(" ");
    let state = |name: &str| {
        let shown = &lines(scratch, &["session", "show", name, "--json"])[0];
        let fields = ["id", "name", "status", "wanted", "head", "policy", "workspace", "checkpoints"];
        let conversations =
            shown["conversations"].as_array().map(|all| all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>());
        format!("{} {conversations:?}", fields.map(|name| shown[name].to_string()).join(" "))
    };
    let sessions = ["theirs", "dead"].map(state).into();
    Facts { theirs: theirs.map(|line| (text(&line["id"]), said(&line))).collect(), sessions, files }
}

#[test]
fn no_variable_of_an_option_makes_it_laxer() {
    let victim = Victim::new();
    // Each is tried with what would remove most, see least and let through most.
    let mut script = String::from("n=0; new() { n=$((n+1)); echo $n > f; }\n");
    for name in OPTIONS.iter().flat_map(|option| option.variables).filter(|name| **name != "PARHELIA_STORE") {
        for value in ["0", "1", "false", "newest", "$PWD/lax.toml"] {
            script.push_str(&format!("new; {name}={value} parhelia checkpoint create -q >/dev/null 2>>said\n"));
        }
    }
    script.push_str("new; PARHELIA_CONFIG=$PWD/lax.toml parhelia checkpoint create -q 2>>said\n");
    script.push_str("new; parhelia --config lax.toml checkpoint create -q 2>>said\n");
    script.push_str("new; XDG_CONFIG_HOME=$PWD/x parhelia checkpoint create -q --trigger complete 2>>said\n");
    script.push_str("new; HOME=$PWD parhelia checkpoint create -q --trigger-detail safety 2>>said\n");
    let path = format!("export PATH={}:$PATH\n", parhelia_tests::binary().parent().unwrap().display());
    victim.run(&format!("{path}{script}"));
    victim.assert_unharmed("variables");
    let approvals = victim.approvals();
    assert!(approvals.len() > 20, "{}", approvals.len());
    assert!(approvals.iter().all(|status| status == "pending"), "{approvals:?}");
    let said = fs::read_to_string(victim.work.join("said")).unwrap();
    for name in ["PARHELIA_MAX_STORE_SIZE", "XDG_CONFIG_HOME", "lax.toml", "HOME"] {
        assert!(said.contains(name), "{name} is not said: {said}");
    }
    let ignored = victim.acts("setting.ignore");
    assert!(
        ignored.iter().any(|act| act["rule"].as_str().unwrap_or_default().contains("PARHELIA_MAX_STORE_SIZE")),
        "{ignored:?}"
    );
}

#[test]
fn a_store_that_a_variable_names_takes_nothing_from_the_users_own() {
    let victim = Victim::new();
    let path = format!("export PATH={}:$PATH\n", parhelia_tests::binary().parent().unwrap().display());
    let count = |victim: &Victim| victim.approvals().len();
    victim.run(&format!("{path}echo 1 > f; mkdir .s; PARHELIA_STORE=$PWD/.s parhelia checkpoint create -q -m here 2>said"));
    assert!(count(&victim) >= 2, "it is in the store of the run");
    let said = fs::read_to_string(victim.work.join("said")).unwrap();
    assert!(said.contains("PARHELIA_STORE"), "{said}");
    assert!(fs::read_dir(victim.work.join(".s")).unwrap().next().is_none());
}

#[test]
fn no_verb_decides_or_removes_what_is_anothers() {
    let victim = Victim::new();
    let pages = victim.scratch.path("pages");
    victim.scratch.expect(0, &["man", &pages.to_string_lossy()]);
    let verbs = verbs(&pages);
    assert!(verbs.len() > 60, "{}", verbs.len());
    let path = format!("export PATH={}:$PATH\n", parhelia_tests::binary().parent().unwrap().display());
    for (verb, flags) in &verbs {
        // These wait for somebody.
        if ["serve", "heartbeat", "hook", "mcp", "mcp-proxy", "session attach", "session run", "mount", "man"]
            .contains(&verb.as_str())
        {
            continue;
        }
        let mut script = path.clone();
        for flag in std::iter::once("").chain(flags.iter().map(String::as_str)) {
            let sessions = ["theirs@latest", "theirs", "dead"];
            let of_verb = if verb.starts_with("session") || verb.ends_with("create") { &sessions[..] } else { &sessions[..2] };
            for target in of_verb {
                script.push_str(&format!("timeout 20 parhelia {verb} {flag} {target} --json </dev/null >/dev/null 2>&1\n"));
            }
        }
        // A run for each: some end the agent.
        victim.run(&script);
        assert_eq!(facts(&victim.scratch), victim.before, "{verb}");
    }
    victim.assert_unharmed("verbs");
    let decisions = [victim.acts("checkpoint.approve"), victim.acts("checkpoint.reject")].concat();
    let is_made = |act: &&Value| ["checkpoint.approve", "checkpoint.reject"].iter().any(|made| act["action"] == *made);
    let decided: Vec<_> = decisions.iter().filter(is_made).collect();
    assert!(decided.is_empty() && !decisions.is_empty(), "{decided:?}");
    let refused: BTreeSet<String> = victim.acts("session.act_refused").iter().map(|act| act["rule"].to_string()).collect();
    let verbs = ["session end", "session stop", "session pause", "session resume", "session move", "checkpoint create"];
    for verb in verbs {
        assert!(refused.iter().any(|why| why.contains(verb)), "{verb}: {refused:?}");
    }
    victim.assert_resumes_own();
}

/// Moves against what is not the agent's, with the settings that it would rather have.
const MOVES: &str = r#"
first=$(parhelia list theirs --json | sed -n 's/^{"type":"checkpoint","id":"\([^"]*\)".*/\1/p' | tail -1)
echo 1 > f; X PARHELIA_MAX_STORE_SIZE=1 parhelia create -q
echo 2 > f; X PARHELIA_KEEP_LAST=1 PARHELIA_RETENTION=true parhelia --config lax.toml create -q
echo 3 > f; X XDG_CONFIG_HOME=$PWD/x parhelia create -q
echo 4 > f; X HOME=$PWD parhelia create -q
X parhelia delete $first
X parhelia delete --protected theirs@latest
X parhelia untag theirs@latest keep
X parhelia tag theirs@latest mine
X parhelia annotate theirs@latest words
X parhelia link theirs@latest https://github.com/owner/repo/issues/1
X parhelia session prune --keep-last 1
X parhelia session prune --keep-last 1 --config lax.toml
X parhelia session end dead
X parhelia session pause dead
X parhelia session stop dead
X parhelia session move dead $PWD
X parhelia session prompt dead hello
X parhelia session run --name dead -- true
X parhelia hooks uninstall
X parhelia create theirs -w $PWD
X parhelia create theirs -w ../theirs --transcript lax.toml
X parhelia create $dead -w ../dead --transcript lax.toml
X parhelia create $dead -w ../dead --stream-json lax.toml
X parhelia rollback theirs@latest~2 --yes
X parhelia session approve theirs@latest
X parhelia session approve dead@latest
X parhelia --config lax.toml session approve dead@latest
"#;

/// The moves, each by a command that the words of its environment follow.
fn moves(victim: &Victim, by: &str) -> String {
    let path = parhelia_tests::binary().parent().unwrap().display().to_string();
    let dead = lines(&victim.scratch, &["session", "show", "dead", "--json"])[0]["id"].as_str().unwrap().to_owned();
    format!("export PATH={path}:$PATH dead={dead}\nX() {{ {by} env \"$@\" </dev/null >/dev/null 2>>said; }}\n{MOVES}")
}

#[test]
fn a_process_namespace_without_the_marker_is_no_way_out() {
    let victim = Victim::new();
    let inside = "env -u PARHELIA_RUN_ID unshare --fork --pid --mount-proc --kill-child";
    victim.run(&moves(&victim, inside));
    victim.assert_unharmed("in a namespace");
    let said = fs::read_to_string(victim.work.join("said")).unwrap();
    for what in ["PARHELIA_MAX_STORE_SIZE", "XDG_CONFIG_HOME", "lax.toml", "HOME does not count", "cannot be seen from in here"] {
        assert!(said.contains(what), "{what} is not said: {said}");
    }
    assert!(!victim.acts("session.act_refused").is_empty() && !victim.acts("checkpoint.delete_refused").is_empty());
    victim.assert_resumes_own();
}

/// Moves that are refused also for the agent's own session, each by a command that the words of its environment follow.
const OF_PERSONS: &str = r#"
X parhelia session move agents ../theirs --other-folder
X parhelia rollback agents@latest --yes
X parhelia outbox drop
X parhelia init --accept-older
X parhelia memory save gotchas.keys mine --replace --project shared
X parhelia session end agents --leave-agent
own=$(parhelia list agents --json | sed -n 's/^{"type":"checkpoint","id":"\([^"]*\)".*/\1/p' | head -1)
X parhelia session approve $own
"#;

#[test]
fn what_is_a_persons_alone_is_no_agents_for_its_own_session_either() {
    for by in ["", "env -u PARHELIA_RUN_ID unshare --fork --pid --mount-proc --kill-child"] {
        let victim = Victim::new();
        victim.scratch.expect(0, &["memory", "save", "gotchas.keys", "a person's", "--project", "shared"]);
        victim.run(&moves(&victim, by).replace(MOVES, &format!("parhelia create -q\n{OF_PERSONS}")));
        victim.assert_unharmed(by);
        let known = victim.scratch.expect(0, &["memory", "list", "--project", "shared"]);
        assert!(known.contains("a person's") && !known.contains("mine"), "{by}: {known}");
        let refused: Vec<String> = victim.acts("session.act_refused").iter().map(|act| act["rule"].to_string()).collect();
        for what in ["session move --other-folder", "outbox drop", "init --accept-older", "memory save --replace", "session end"]
        {
            assert!(refused.iter().any(|why| why.contains(what)), "{by}: {what}: {refused:?}");
        }
        assert!(!victim.approvals().iter().any(|status| status == "approved"), "{by}: {:?}", victim.approvals());
    }
}

#[test]
fn an_mcp_server_below_an_agent_is_its_own_sessions_wherever_it_goes() {
    let victim = Victim::new();
    let of_dead = lines(&victim.scratch, &["session", "show", "dead", "--json"]);
    let run = of_dead.iter().find(|line| line["type"] == "run").unwrap()["id"].as_str().unwrap();
    let call = |id: u8, tool: &str, arguments: &str| {
        let call = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        format!("echo '{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{call}}}'; sleep 2\n")
    };
    let hello = r#"echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
"#;
    let calls = [
        hello.to_owned(),
        call(2, "create_checkpoint", r#"{"message":"forged"}"#),
        call(3, "read_file", r#"{"checkpoint":"theirs@latest","path":"file"}"#),
        call(4, "list_checkpoints", r#"{"session":"theirs"}"#),
    ];
    let path = parhelia_tests::binary().parent().unwrap().display().to_string();
    for (folder, marker) in [("theirs", String::new()), ("dead", format!("PARHELIA_RUN_ID={run} "))] {
        let script = format!(
            "export PATH={path}:$PATH\nhere=$PWD\ncd ../{folder}\n( {} ) | {marker}parhelia mcp > $here/answers 2>&1",
            calls.concat()
        );
        victim.run(&script);
        victim.assert_unharmed(folder);
        let answers = fs::read_to_string(victim.work.join("answers")).unwrap();
        let answer = |id: u8| answers.lines().find(|line| line.contains(&format!("\"id\":{id}"))).unwrap_or_default().to_owned();
        assert!(answer(2).contains("forged"), "it makes one of its own session: {answers}");
        for id in [3, 4] {
            assert!(answer(id).contains("mcp.read_others"), "{answers}");
        }
    }
}

#[test]
fn an_event_from_a_namespace_speaks_for_no_other_live_session() {
    let victim = Victim::new();
    let folder = victim.scratch.path("live").to_string_lossy().into_owned();
    fs::create_dir_all(&folder).unwrap();
    let mut live = victim.scratch.command(&["session", "run", "--name", "live", "-w", &folder, "--", "sleep", "60"]);
    let mut live = live.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let shown = || lines(&victim.scratch, &["session", "show", "live", "--json"]).into_iter().next();
    let run = parhelia_tests::live::wait(|| {
        let runs = lines(&victim.scratch, &["session", "show", "live", "--json"]);
        runs.into_iter().find(|line| line["type"] == "run" && line["pid"].is_number())
    });
    let identity = serde_json::json!({
        "process": run["pid"], "start_time": run["start_time"], "boot_id": run["boot_id"], "pid_namespace": fs::read_link("/proc/self/ns/pid").unwrap(),
    });
    for sender in [
        serde_json::json!({"marker": run["id"], "line": [identity], "agent": null, "argv": []}),
        serde_json::json!({"marker": run["id"], "line": [], "agent": null, "argv": []}),
        Value::Null,
    ] {
        let event = serde_json::json!({
            "hook_event_name": "UserPromptSubmit", "session_id": "forged", "cwd": folder, "prompt": "forged words",
            "permission_mode": "plan", "parhelia_sender": sender,
        });
        write(&victim.work.join("event"), event.to_string().as_bytes()).unwrap();
        let path = parhelia_tests::binary().parent().unwrap().display().to_string();
        let marker = run["id"].as_str().unwrap();
        let script = format!(
            "export PATH={path}:$PATH\nfor how in '--work' ''; do env PARHELIA_RUN_ID={marker} unshare --fork --pid --mount-proc --kill-child \
             sh -c \"parhelia hook $how < event; sleep 1\"; done"
        );
        victim.run(&script);
        let now = shown().unwrap();
        assert!(!now.to_string().contains("forged"), "{sender}: {now}");
    }
    let _ = live.kill();
    let _ = live.wait();
}

#[test]
fn an_agent_that_kills_its_supervisor_is_an_agent_all_the_same() {
    let victim = Victim::new();
    let script = format!("kill -9 $PPID\nsleep 0.2\n{}\ntouch over", moves(&victim, "env -u PARHELIA_RUN_ID"));
    victim.run(&script);
    parhelia_tests::live::wait(|| victim.work.join("over").exists().then_some(()));
    victim.assert_unharmed("without a supervisor");
    let said = fs::read_to_string(victim.work.join("said")).unwrap();
    for what in ["PARHELIA_MAX_STORE_SIZE", "XDG_CONFIG_HOME", "lax.toml", "HOME does not count"] {
        assert!(said.contains(what), "{what} is not said: {said}");
    }
    victim.assert_resumes_own();
}

#[test]
fn a_resume_runs_what_the_launch_ran_whoever_took_the_session_up_since() {
    let victim = Victim::new();
    // Whatever calls itself an agent can send its events.
    let evil = victim.scratch.path("evil/claude");
    let folder = victim.scratch.path("dead").to_string_lossy().into_owned();
    let event = serde_json::json!({
        "hook_event_name": "SessionStart", "session_id": victim.conversation(), "cwd": folder, "source": "resume",
        "transcript_path": format!("{}/x/.claude/projects/p/{}.jsonl", victim.work.display(), victim.conversation()),
    });
    write_program(&evil, &format!("#!/bin/sh\ntouch '{}'\n", victim.scratch.path("pwned").display()));
    write(&victim.scratch.path("evil/event"), event.to_string().as_bytes()).unwrap();
    let ours = parhelia_tests::binary().display().to_string();
    let script = format!("'{ours}' hook < '{}'; :", victim.scratch.path("evil/event").display());
    write(&victim.scratch.path("evil/script"), script.as_bytes()).unwrap();
    let hook = victim.scratch.command::<&str>(&[]);
    let mut by_hand = std::process::Command::new("bash");
    by_hand.env_clear().envs(hook.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(&folder);
    let line = format!("exec -a '{}' bash '{}'", evil.display(), victim.scratch.path("evil/script").display());
    assert!(by_hand.args(["-c", &line]).status().unwrap().success());
    let shown = victim.scratch.run(&["session", "show", "dead", "--json"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\"epoch\":2") && shown.contains("evil"), "it was taken up: {shown}");
    victim.assert_resumes_own();
}

#[test]
fn the_marker_of_an_open_run_is_an_agents_and_that_of_an_ended_one_a_persons() {
    let victim = Victim::new();
    let script = "touch started; for i in $(seq 600); do [ -e started ] && [ ! -e over ] && sleep 0.1; done";
    write_program(&victim.work.join("agent"), &format!("#!/bin/bash\n{script}\n"));
    let work = victim.work.to_string_lossy().into_owned();
    let mut run = victim.scratch.command(&["session", "run", "--name", "agents", "--workspace", &work, "--", "./agent"]);
    let mut agent = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    parhelia_tests::live::wait(|| victim.work.join("started").exists().then_some(()));
    let marker = lines(&victim.scratch, &["session", "show", "agents", "--json"])[0]["runs"][0].as_str().unwrap().to_owned();
    // As a server of tmux starts it: no process of the agent's is above it.
    let marked = |arguments: &[&str], more: &[(&str, &str)]| {
        let mut command = victim.scratch.command(arguments);
        let output =
            command.env("PARHELIA_RUN_ID", &marker).envs(more.iter().copied()).current_dir(&victim.work).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    };
    let (lax, elsewhere) = (victim.work.join("lax.toml"), victim.work.join("x"));
    let refused: [&[&str]; 6] = [
        &["session", "approve", "dead@latest"],
        &["session", "reject", "theirs@latest"],
        &["delete", "--protected", "theirs@latest"],
        &["session", "end", "dead"],
        &["session", "prune", "--keep-last", "1"],
        &["untag", "theirs@latest", "keep"],
    ];
    for arguments in refused {
        let (code, said) = marked(arguments, &[]);
        assert_eq!(code, Some(4), "{arguments:?}: {said}");
        assert_eq!(said.matches("a person").count(), 1, "{said}");
    }
    let loosened: [(&str, &Path); 3] = [("PARHELIA_CONFIG", &lax), ("XDG_CONFIG_HOME", &elsewhere), ("HOME", &victim.work)];
    for (name, value) in loosened {
        let (code, said) = marked(&["session", "approve", "agents@latest"], &[(name, &value.to_string_lossy())]);
        assert!(code == Some(4) && said.contains("does not count"), "{name}: {said}");
        let (_, said) = marked(&["config", "show"], &[(name, &value.to_string_lossy())]);
        assert!(said.contains("strict") && !said.contains("\"lax\""), "{name}: {said}");
    }
    victim.assert_unharmed("by the marker alone");
    write(&victim.work.join("over"), b"").unwrap();
    agent.wait().unwrap();
    let (code, said) = marked(&["session", "approve", "agents@latest"], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(victim.acts("checkpoint.approve").iter().any(|act| act["actor"]["via"] == "cli" || act["via"] == "cli"));
}

/// Every verb and those of its flags that decide, remove or switch off, by the man pages.
fn verbs(pages: &Path) -> Vec<(String, Vec<String>)> {
    const FLAGS: [&str; 9] =
        ["--protected", "--change", "--yes", "--no-safety", "--new", "--take-over", "--other-folder", "--all", "--repair"];
    let mut found = Vec::new();
    for entry in fs::read_dir(pages).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().replace("\\-", "-");
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // `.SH SYNOPSIS` has the verb as it is typed.
        let synopsis = text.lines().skip_while(|line| !line.starts_with(".SH SYNOPSIS")).nth(1).unwrap_or_default().to_owned();
        let typed: String = synopsis.replace("\\fB", "").replace("\\fR", "");
        let words: Vec<&str> =
            typed.split_whitespace().skip(1).take_while(|word| !word.starts_with(['[', '<', '-', '\\'])).collect();
        if words.is_empty() {
            assert!(name == "parhelia" || typed.is_empty(), "{name}: {synopsis}");
            continue;
        }
        let flags = FLAGS.iter().filter(|flag| text.contains(*flag)).map(|flag| (*flag).to_owned()).collect();
        found.push((words.join(" "), flags));
    }
    found
}
