//! Nothing makes a state good that a person has not seen or has rejected, and nobody decides who may not; nothing in the audit misleads.

use std::fs;

use parhelia_tests::Scratch;
use serde_json::Value;

use super::{FAILS, acts, checkpoints, id, lines, session, status};

/// Writes a file into the session's folder, and makes a checkpoint for a reason. Returns its id.
fn written(s: &Scratch, name: &str, trigger: &str) -> String {
    fs::write(s.path("work").join(name), format!("{name}\n")).unwrap();
    made(s, trigger)
}

fn made(s: &Scratch, trigger: &str) -> String {
    let work = s.path("work");
    s.expect(0, &["create", "s", "-w", work.to_str().unwrap(), "--trigger", trigger, "-q"]);
    id(checkpoints(s).last().unwrap()).to_owned()
}

/// An agent's session whose first checkpoint is good, and that first one.
fn begun(s: &Scratch) -> String {
    session(s, &[], "exit 0");
    made(s, "periodic")
}

fn configure(s: &Scratch, text: &str) {
    fs::create_dir_all(s.path("home/.config/parhelia")).unwrap();
    fs::write(s.path("home/.config/parhelia/parhelia.toml"), text).unwrap();
}

fn rule(s: &Scratch, id: &str) -> String {
    lines(s, &["show", id])[0]["approval"]["rule"].as_str().unwrap_or_default().to_owned()
}

/// The checkpoint that a resume would bring back if the workspace was lost, and the exit code of saying so.
fn brought_back(s: &Scratch) -> (String, Option<i32>) {
    fs::rename(s.path("work"), s.path("away")).unwrap();
    let said = s.run(&["session", "recover", "s", "--json"]);
    fs::rename(s.path("away"), s.path("work")).unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    let found = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["type"] == "recovery");
    (found.unwrap()["from"].as_str().unwrap_or("none").to_owned(), said.status.code())
}

#[test]
fn a_rejection_concerns_the_same_content_and_all_that_builds_on_it() {
    let s = Scratch::new();
    let good = begun(&s);
    // A periodic checkpoint has the change before the one that a person looks at.
    let same = written(&s, "evil", "periodic");
    let looked_at = made(&s, "complete");
    let newer = written(&s, "newer", "periodic");
    assert_eq!((status(&s, &same).as_str(), status(&s, &newer).as_str()), ("auto_approved", "auto_approved"));
    let rejected = s.summary(&["session", "reject", &looked_at, "--reason", "evil"]);
    assert_eq!((&rejected["previous_approved"], &rejected["builds_on_it"]), (&good.as_str().into(), &1.into()), "{rejected}");
    assert_eq!(brought_back(&s).0, good, "neither the same content nor what builds on it");
    let later = written(&s, "later", "periodic");
    assert_eq!(rule(&s, &later), format!("builds on {looked_at}, which was rejected"));
    // A person's word about a later one is what counts from there.
    s.expect(0, &["session", "approve", &later]);
    assert_eq!(brought_back(&s).0, later);
    let after = written(&s, "after", "periodic");
    assert_eq!(status(&s, &after), "auto_approved");
}

#[test]
fn a_state_from_before_the_change_is_good_though_the_change_was_undone() {
    let s = Scratch::new();
    let good = begun(&s);
    written(&s, "evil", "periodic");
    fs::remove_file(s.path("work/evil")).unwrap();
    // The files are as they were; something else was wrong.
    let undone = made(&s, "complete");
    let rejected = s.summary(&["session", "reject", &undone]);
    assert_ne!(rejected["previous_approved"], Value::Null, "{rejected}");
    s.expect(0, &["session", "reject", rejected["previous_approved"].as_str().unwrap()]);
    assert_eq!(brought_back(&s).0, good);
}

#[test]
fn a_new_session_does_not_make_rejected_content_good() {
    let s = Scratch::new();
    begun(&s);
    let evil = written(&s, "evil", "complete");
    s.expect(0, &["session", "reject", &evil]);
    let work = s.path("work");
    s.run(&["session", "run", "--name", "other", "-w", work.to_str().unwrap(), "--", "true"]);
    let first = lines(&s, &["list", "other"]).pop().unwrap();
    assert_eq!(first["approval"]["rule"], format!("has the content of {evil}, which was rejected"), "{first}");
}

#[test]
fn a_safety_checkpoint_makes_nothing_good() {
    let s = Scratch::new();
    configure(&s, "[approval.escalation]\npaths = [\"**/migrations/**\"]\n");
    let good = begun(&s);
    fs::create_dir_all(s.path("work/db/migrations")).unwrap();
    let migration = written(&s, "db/migrations/1.sql", "periodic");
    assert_eq!(status(&s, &migration), "pending");
    s.expect(0, &["rollback", &good, "--yes"]);
    s.expect(0, &["undo", "s", "--yes"]);
    // ... and hides nothing that waits.
    assert_eq!(lines(&s, &["session", "list"])[0]["review"], "pending");
    let after = written(&s, "after", "periodic");
    assert_eq!(rule(&s, &after), "path db/migrations/1.sql matches **/migrations/**");

    // Rejected, it does not come back by the same way.
    s.expect(0, &["session", "reject", &migration]);
    s.expect(0, &["rollback", &migration, "--yes"]);
    s.expect(0, &["rollback", &good, "--yes"]);
    s.expect(0, &["undo", "s", "--yes"]);
    let refused = s.expect(4, &["session", "resume", "s", "--yes"]);
    assert!(refused.contains("rejected"), "{refused}");
    assert_eq!(brought_back(&s).0, good);
}

#[test]
fn deletion_and_a_link_get_round_no_limit() {
    let s = Scratch::new();
    configure(&s, "[approval.escalation]\npaths = [\"db/migrations/**\"]\n");
    let good = begun(&s);
    fs::create_dir_all(s.path("work/db/migrations/.git")).unwrap();
    let migration = written(&s, "db/migrations/.git/1.sql", "periodic");
    assert_eq!(status(&s, &migration), "pending", "a folder that is called .git is none of git");
    let refused = s.expect(4, &["delete", &migration]);
    assert!(refused.contains("waiting for a review"), "{refused}");
    // What was good before is gone, and what it was compared with.
    let before: Vec<String> = checkpoints(&s).iter().map(|one| id(one).to_owned()).take_while(|id| *id != migration).collect();
    let all: Vec<&str> = ["delete", "--protected"].into_iter().chain(before.iter().map(String::as_str)).collect();
    assert!(before.contains(&good));
    s.expect(0, &all);
    let next = written(&s, "next", "periodic");
    assert_eq!(rule(&s, &next), "the last state that counted as good was deleted");
    s.expect(0, &["session", "approve", &next]);

    fs::remove_dir_all(s.path("work/db/migrations")).unwrap();
    std::os::unix::fs::symlink("elsewhere", s.path("work/db/migrations")).unwrap();
    let linked = made(&s, "periodic");
    assert!(rule(&s, &linked).contains("matches db/migrations/**"), "{}", rule(&s, &linked));
}

#[test]
fn secrets_that_were_found_ask_until_somebody_has_looked_whatever_the_first_rule_was() {
    let s = Scratch::new();
    configure(&s, "[secrets]\non_finding = \"review\"\n");
    begun(&s);
    fs::write(s.path("work/key"), ["gh", "p_", "q7Rk2ZpX9vLmT4wB8nYc3HsD6gJfA1eU5oKx\n"].concat()).unwrap();
    let first = made(&s, "complete");
    assert_eq!(rule(&s, &first), "trigger complete");
    let next = written(&s, "next", "periodic");
    assert_eq!(rule(&s, &next), "secrets found: 1");
    let review = s.expect(0, &["session", "review", "s"]);
    assert!(review.contains("key:1 (github-token)"), "{review}");
    s.expect(0, &["session", "approve", &next]);
    assert_eq!(status(&s, &written(&s, "more", "periodic")), "auto_approved");
}

#[test]
fn an_agent_does_not_decide_about_another_sessions_work_either() {
    let s = Scratch::new();
    let work = s.path("work");
    let script = "parhelia -q create other -w . --trigger complete >id; parhelia session approve other@latest; echo $? >code";
    let path = format!("{}:{}", parhelia_tests::binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    fs::create_dir_all(&work).unwrap();
    let mut command = s.command(&["session", "run", "--name", "s", "-w", work.to_str().unwrap(), "--", "sh", "-c", script]);
    assert!(command.env("PATH", path).status().unwrap().success());
    assert_eq!(fs::read_to_string(work.join("code")).unwrap().trim(), "4");
    let refused = &acts(&s, "checkpoint.approve_refused")[0];
    assert_eq!(
        (refused["via"].as_str(), refused["rule"].as_str().unwrap().contains("an agent")),
        (Some("agent"), true),
        "{refused}"
    );
    let deleted = s.run(&["-q", "delete", "--protected", "other@latest"]);
    assert!(deleted.status.success());
    assert_eq!(acts(&s, "checkpoint.delete")[0]["via"], "cli");
}

#[test]
fn what_somebody_says_about_the_latest_is_about_no_strangers() {
    let s = Scratch::new();
    let last = begun(&s);
    let elsewhere = s.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for arguments in
        [&["session", "approve"][..], &["session", "reject", "latest"], &["tag", "latest", "t"], &["annotate", "latest", "x"]]
    {
        let output = s.command(arguments).current_dir(&elsewhere).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(4) && text.contains("@latest if that is meant"), "{arguments:?}: {text}");
    }
    assert_eq!(status(&s, &last), "auto_approved");
    s.expect(2, &["annotate", "s@latest", "--jsno"]);
    s.expect(0, &["annotate", "s@latest", "--", "--jsno"]);
}

#[test]
fn a_default_policy_that_is_not_there_stops_nothing_and_approves_nothing() {
    let s = Scratch::new();
    begun(&s);
    configure(&s, "[approval]\ndefault_policy = \"typo\"\n");
    let next = written(&s, "next", "periodic");
    assert!(rule(&s, &next).contains("there is no policy 'typo'"), "{}", rule(&s, &next));
    assert!(s.expect(0, &["list", "s"]).contains("pending"));
    assert_eq!(lines(&s, &["list", "s", "--approval", "pending"]).len(), 1);
    assert!(s.expect(0, &["session", "list"]).contains("pending"));
}

#[test]
fn the_audit_says_what_it_could_not_check_and_what_was_lost() {
    let s = Scratch::new();
    let last = begun(&s);
    let missing = s.command(&["audit", "verify"]).env("PARHELIA_ALLOWED_SIGNERS", s.path("missing")).output().unwrap();
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("missing"));
    let journal = fs::read_dir(s.store().join("journal")).unwrap().flatten().map(|entry| entry.path());
    let log = journal.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    let before = fs::metadata(&log).unwrap().len();
    s.expect(0, &["session", "approve", &last]);
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(before).unwrap();
    assert!(s.expect(12, &["audit", "verify"]).contains("has lost its last 1 record"));
    written(&s, "after", "periodic");
    let verified = s.expect(0, &["audit", "verify"]);
    assert!(verified.contains("The journal had lost"), "{verified}");
    assert!(!acts(&s, "journal.cut").is_empty());
}

#[test]
fn nothing_in_the_audit_steers_a_terminal() {
    let s = Scratch::new();
    let last = begun(&s);
    let store = parhelia_ledger::open(&s.store(), &parhelia_store::OpenOptions::default()).unwrap();
    let actor = parhelia_store::event::Actor {
        user: Some("\u{1b}[2J=x\u{9b}\u{202e}".into()),
        ..parhelia_store::event::Actor::program("cli")
    };
    let forged = parhelia_store::event::NewEvent::new("checkpoint.decided", last, actor).with("status", "approved");
    store.append_events(&[forged.with("reason", "a\rb\u{7}")], &()).unwrap();
    for arguments in
        [&["audit", "export"][..], &["audit", "export", "--format", "csv"], &["audit", "log", "--json"], &["audit", "log"]]
    {
        let text = s.expect(0, arguments);
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{arguments:?}: {text:?}");
        assert!(text.contains("2J=x"), "{text}");
    }
}

#[test]
fn finished_work_comes_back_though_nobody_has_looked_at_it() {
    let s = Scratch::new();
    begun(&s);
    let done = written(&s, "done", "complete");
    written(&s, "failed", "error");
    assert_eq!((status(&s, &done).as_str(), brought_back(&s).0), ("pending", done));
    // What a limit found on the way is looked at first.
    let good = written(&s, "small", "periodic");
    configure(&s, "[approval.escalation]\npaths = [\"secret\"]\n");
    let touched = written(&s, "secret", "periodic");
    written(&s, "finished", "complete");
    assert_eq!((status(&s, &touched).as_str(), brought_back(&s).0), ("pending", good));
}

#[test]
fn what_waits_for_a_person_stays_listed_behind_later_checkpoints_until_somebody_decides() {
    let s = Scratch::new();
    let waits = id(session(&s, &[], FAILS).last().unwrap()).to_owned();
    let review = || {
        let listed = lines(&s, &["session", "list"]);
        (listed[0]["review"].clone(), listed[0]["needs"].clone())
    };
    assert_eq!(review(), ("pending".into(), "review".into()));
    // The same files, and other ones.
    let same = s.create("s", &s.path("work"));
    assert_eq!((status(&s, &same), review()), ("auto_approved".into(), ("pending".into(), "review".into())));
    fs::write(s.path("work/more"), "more\n").unwrap();
    s.create("s", &s.path("work"));
    assert_eq!(review().0, "pending");
    assert!(s.expect(0, &["session", "show", "s"]).contains("Review"), "it is shown as well");
    s.expect(0, &["session", "approve", &waits]);
    assert_eq!(review(), (Value::Null, Value::Null));
}
