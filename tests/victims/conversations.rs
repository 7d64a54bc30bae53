//! Conversations that an agent still has open.

use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::event::{Actor, NewEvent};

use super::*;

#[test]
fn a_conversation_that_somebody_has_open_is_not_gone_on_with() {
    let work = Work::new();
    let (folder, agent) = (work.folder("work"), work.agent());
    let output = work.output(&["session", "run", "--name", "it", "-w", &folder, "--", &agent]);
    assert!(output.status.success(), "{}", shown(&output));
    let transcript = work.session("it")["conversations"][0]["transcript"].as_str().unwrap().to_owned();
    let id = work.session("it")["conversations"][0]["id"].as_str().unwrap().to_owned();
    let before = fs::read(&transcript).unwrap();
    // Whoever goes on with it by hand, in another folder.
    let append = fs::File::options().append(true).open(&transcript).unwrap();
    let mut other = Command::new("sleep").arg("100000").current_dir("/").stdout(Stdio::from(append)).spawn().unwrap();
    for arguments in [
        &["session", "resume", "it"][..],
        &["session", "resume", "it", "--tmux", "--detach", "--tmux-socket", &work.socket()],
        &["session", "recover", "it", "--yes"],
        &["checkpoint", "rollback", "it@latest", "--yes"],
        // One without a conversation, of before the agent was started.
        &["checkpoint", "rollback", "it@latest~1", "--yes"],
    ] {
        let refused = work.scratch.expect(4, arguments);
        assert!(refused.contains(&format!("process {} (sleep 100000) in /", other.id())), "{arguments:?}: {refused}");
        assert!(refused.contains(&id), "{refused}");
    }
    let planned = work.scratch.expect(0, &["checkpoint", "rollback", "it@latest~1", "-n"]);
    assert!(
        planned.contains(&format!("process {} (sleep 100000) in /, which is not the session's agent", other.id())),
        "{planned}"
    );
    let told = work.scratch.expect(4, &["session", "recover", "it"]);
    assert!(told.contains("cannot be resumed as it is") && told.contains("(sleep 100000) in /"), "{told}");
    // Active again, as of an agent that was killed.
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    let session = store.view().session_named("it").unwrap().id;
    let active = NewEvent::new(kind::SESSION_STATUS, &session, Actor::default()).with("status", "active");
    store.append_events(&[active], &()).unwrap();
    let paused = work.scratch.expect(0, &["session", "pause", "it"]);
    assert!(paused.contains("(sleep 100000) in /, which is not the session's agent"), "{paused}");
    assert_eq!((fs::read(&transcript).unwrap(), work.is("it").2), (before, 1));
    other.kill().unwrap();
    other.wait().unwrap();
    // It is in another session as well.
    let second = work.folder("second");
    let output = work.output(&["session", "run", "--name", "second", "-w", &second, "--", &agent, "--session-id", &id]);
    assert!(shown(&output).contains("is also session"), "{}", shown(&output));
    let resumed = work.output(&["session", "resume", "it"]);
    assert!(resumed.status.success() && shown(&resumed).contains("is also session"), "{}", shown(&resumed));
}

/// An agent that ends when it is told why, which is what it tells its hook.
const LEAVING: &str = r#"#!/bin/bash
case "$1" in --version) echo 2.1.0; exit;; esac
while test $# -gt 0; do case $1 in --session-id) id=$2;; esac; shift; done
until test -e '@go'; do sleep 0.05; done
printf '{"hook_event_name":"SessionEnd","session_id":"%s","cwd":"%s","reason":"%s"}' "$id" "$PWD" "$(cat '@go')" | '@parhelia' hook
"#;

#[test]
fn an_agent_that_outlives_its_supervisor_tells_of_its_own_end() {
    for (reason, wanted) in [("prompt_input_exit", "paused"), ("logout", "paused"), ("other", "running")] {
        let work = Work::new();
        let (folder, go) = (work.folder("work"), work.scratch.path("go"));
        let program = work.command(&[]).get_program().to_string_lossy().into_owned();
        let script = LEAVING.replace("@go", &go.to_string_lossy()).replace("@parhelia", &program);
        write_program(&work.scratch.path("bin/claude"), &script);
        let arguments = ["session", "run", "--name", "it", "-w", &folder, "--", &work.agent()];
        let mut child = work.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let run =
            || parhelia_ledger::open(&work.scratch.store(), &Default::default()).ok()?.view().runs().ok()?.into_values().next();
        wait(|| run().filter(|run| run.pid.is_some()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(work.is("it"), found("running", "live", 1));
        fs::write(work.folder("work") + "/last", "what it did last").unwrap();
        fs::write(work.scratch.path("why"), reason).unwrap();
        fs::rename(work.scratch.path("why"), &go).unwrap();
        let over = wait(|| run().filter(|run| run.ended_at.is_some()));
        assert_eq!(over.exit_reason, Some(format!("session end: {reason}")));
        work.wait_for("it", "dead");
        assert_eq!(work.is("it"), found(wanted, "dead", 1), "{reason}");
        work.scratch.expect(0, &["checkpoint", "cat", "it@latest:last"]);
        let code = if wanted == "paused" { 4 } else { 2 };
        let recover = work.scratch.expect(code, &["session", "recover"]);
        assert_eq!(recover.contains("no session needs to be recovered"), wanted == "paused", "{recover}");
    }
}

/// The conversation and the process of an agent that says that it is idle.
fn idle(work: &Work, name: &str) -> (String, i32) {
    work.wait_for(name, "idle");
    let folder = work.scratch.path("home/.claude/sessions");
    let session = work.session(name);
    let conversation = session["conversations"][0]["id"].as_str().unwrap().to_owned();
    let files = || fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| fs::read(entry.path()).unwrap_or_default());
    let process = wait(|| {
        let said = files().filter_map(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        said.filter(|said| said["sessionId"] == conversation.as_str()).find_map(|said| said["pid"].as_i64())
    });
    (conversation, process as i32)
}

#[test]
fn a_conversation_that_is_open_is_begun_nowhere_else_and_its_agent_is_nobodys_to_end() {
    let work = Work::new();
    work.tmux.start(&[]);
    work.start("one", "hello");
    let (conversation, process) = idle(&work, "one");
    let folder = work.folder("one");
    let made = work.scratch.expect(0, &["checkpoint", "create", "one", "-w", &folder, "--json"]);
    let checkpoint: Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
    let checkpoint = checkpoint["id"].as_str().unwrap();
    let agent = work.agent();
    let second = ["session", "run", "--name", "two", "-w", &folder, "--", &agent, "--resume", &conversation];
    let refused = work.scratch.expect(4, &second);
    assert!(refused.contains("whose agent is alive"), "{refused}");
    assert_eq!(work.sessions().len(), 1);

    // A session that was ended, whose agent was left alone.
    work.scratch.expect(0, &["session", "end", "one", "--leave-agent"]);
    let refused = work.scratch.expect(4, &["checkpoint", "rollback", checkpoint, "--yes"]);
    assert!(refused.contains("is alive"), "{refused}");
    assert!(lives(process));
}
