//! Conversations that an agent has open on the other side of a container's wall: it is known from outside, and may be alive from inside.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use parhelia_agent::process::Identity;
use parhelia_tests::{
    Scratch,
    live::{shown, wait},
    scripted::AGENT,
    tmux::Tmux,
    write, write_program,
};
use serde_json::{Value, json};

/// A session whose agent has said something and ended.
struct Work {
    scratch: Scratch,
    conversation: String,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        let agent = scratch.path("bin/claude");
        write_program(&agent, AGENT);
        write(&scratch.path("work/file"), b"content").unwrap();
        let work = scratch.path("work").to_string_lossy().into_owned();
        scratch.expect(0, &["session", "run", "--name", "it", "-w", &work, "--", &agent.to_string_lossy()]);
        let mut work = Work { scratch, conversation: String::new() };
        work.conversation = work.session()["conversations"][0]["id"].as_str().unwrap().to_owned();
        work
    }

    fn objects(&self, kind: &str) -> Vec<Value> {
        let output = self.scratch.run(&["session", "show", "it", "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == kind).collect()
    }

    fn session(&self) -> Value {
        self.objects("session").remove(0)
    }

    /// The file of an agent that says that it has the conversation open.
    fn says(&self, number: i32, start_time: u64) -> PathBuf {
        let path = self.scratch.path(&format!("home/.claude/sessions/{number}.json"));
        let said =
            json!({ "pid": number, "procStart": start_time.to_string(), "sessionId": self.conversation, "status": "idle" });
        write(&path, said.to_string().as_bytes()).unwrap();
        path
    }

    /// Runs a command line of ours in a container.
    fn contained(&self, arguments: &[&str]) -> Output {
        self.container(arguments).output().unwrap()
    }

    fn container(&self, arguments: &[&str]) -> Command {
        let ours = self.scratch.command(arguments);
        let mut command = Command::new("unshare");
        command.args(["--fork", "--pid", "--mount-proc", "--kill-child"]).arg(ours.get_program()).args(ours.get_args());
        command.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        command
    }

    fn refused_inside(&self, arguments: &[&str], what: &str) {
        let output = self.contained(arguments);
        let said = shown(&output);
        assert!(output.status.code() == Some(4) && said.contains(what) && said.contains(&self.conversation), "{said}");
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_that_cannot_be_seen_from_a_container_may_be_alive() {
    let work = Work::new();
    let other = Ended(Command::new("sleep").arg("100000").spawn().unwrap());
    let identity = Identity::of(other.0.id() as i32).unwrap();
    work.says(identity.process, identity.start_time);
    let what = format!("may be open in process {} outside of this container", identity.process);
    for arguments in [&["session", "resume", "it"][..], &["session", "resume", "it", "--from", "it@latest", "--yes"]] {
        work.refused_inside(arguments, &what);
    }
    work.refused_inside(&["checkpoint", "rollback", "it@latest", "--yes"], &what);
    for verb in [&["session", "list"][..], &["session", "show", "it"]] {
        let said = shown(&work.contained(verb));
        assert!(said.contains(&what) && said.contains("nothing is resumed in here without --take-over"), "{said}");
    }
    assert_eq!(work.session()["epoch"], 1);
    // Whoever sees all processes knows.
    let said = work.scratch.expect(4, &["session", "resume", "it"]);
    assert!(said.contains(&format!("is open in process {} (sleep 100000)", identity.process)), "{said}");
    let listed = work.scratch.expect(0, &["session", "list"]);
    assert!(
        listed.contains(&format!("conversation is open in process {}, which is not its agent", identity.process)),
        "{listed}"
    );
    assert_eq!(work.session()["open_in"], identity.process);
    write(&work.scratch.path("work/file"), b"changed").unwrap();
    let back = work.scratch.expect(0, &["checkpoint", "rollback", "it@latest", "--files-only", "--yes"]);
    let next = format!("end what has it open, then parhelia session resume {}", work.session()["id"].as_str().unwrap());
    assert!(back.contains(&next) && back.contains(&format!("process {}", identity.process)), "{back}");
    drop(other);
    assert_eq!(work.session()["open_in"], Value::Null);
    work.scratch.expect(0, &["session", "resume", "it"]);
    let forced = work.contained(&["session", "resume", "it", "--take-over"]);
    assert!(forced.status.success() && shown(&forced).contains(&what), "{}", shown(&forced));
    assert_eq!(work.session()["epoch"], 3);
}

#[test]
fn a_tmux_server_outside_of_a_container_is_not_used_from_inside() {
    let (work, tmux) = (Work::new(), Tmux::new());
    let socket = tmux.socket().to_string_lossy().into_owned();
    tmux.start(&[]);
    let resumed = work.contained(&["session", "resume", "it", "--tmux", "--detach", "--tmux-socket", &socket]);
    let said = shown(&resumed);
    assert!(!resumed.status.success() && said.contains(&format!("the tmux server of {socket} runs outside")), "{said}");
    assert_eq!(work.session()["epoch"], 1);
}

#[test]
fn an_agent_of_a_run_that_is_over_is_not_waited_for_in_a_container() {
    let work = Work::new();
    let run = work.objects("run").remove(0);
    work.says(run["pid"].as_i64().unwrap() as i32, run["start_time"].as_u64().unwrap());
    let resumed = work.contained(&["session", "resume", "it"]);
    assert!(resumed.status.success(), "{}", shown(&resumed));
}

#[test]
fn an_agent_in_a_container_is_known_from_outside_by_the_number_that_it_has_there() {
    let work = Work::new();
    let mut command = Command::new("unshare");
    let container = Ended(command.args(["--fork", "--pid", "--kill-child", "sleep", "100000"]).spawn().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", container.0.id());
    let process: i32 = wait(|| fs::read_to_string(&children).ok()?.trim().parse().ok());
    let kept = work.says(1, Identity::of(process).unwrap().start_time);
    for arguments in [&["session", "resume", "it"][..], &["checkpoint", "rollback", "it@latest", "--yes"]] {
        let said = work.scratch.expect(4, arguments);
        assert!(said.contains(&format!("is open in process {process} (")), "{said}");
    }
    // Another process has had that number there.
    fs::remove_file(kept).unwrap();
    work.says(1, Identity::of(process).unwrap().start_time + 1);
    work.scratch.expect(0, &["session", "resume", "it"]);
}

#[test]
fn a_sessions_own_agent_in_a_container_is_that_from_outside() {
    let work = Work::new();
    write(&work.scratch.path("work/stay"), b"").unwrap();
    let mut resume = work.container(&["session", "resume", "it"]);
    let _container = Ended(resume.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait(|| work.scratch.path("home/.claude/sessions").read_dir().ok()?.next()?.ok());
    wait(|| (work.session()["observed"] == "idle").then_some(()));
    for (code, arguments) in [(0, &["session", "resume", "it"][..]), (4, &["checkpoint", "rollback", "it@latest", "--yes"])] {
        let said = work.scratch.expect(code, arguments);
        assert!(said.contains("alive") && !said.contains("not the session's agent"), "{said}");
    }
    let said = work.scratch.expect(0, &["checkpoint", "rollback", "it@latest", "--yes", "--stop"]);
    assert!(!said.contains("left alone"), "{said}");
    assert_eq!(work.session()["observed"], "dead");
    fs::remove_file(work.scratch.path("work/stay")).unwrap();
    work.scratch.expect(0, &["session", "resume", "it"]);
}

#[test]
fn a_person_in_a_container_has_a_say_while_no_agent_is_at_work() {
    let work = Work::new();
    let keeps = |value: &str| {
        let output = work.container(&["config", "show", "--json"]).env("PARHELIA_KEEP_LAST", value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let option = lines.iter().find(|line| line["key"] == "retention.keep_last");
        option.unwrap_or_else(|| panic!("{output:?}"))["value"].as_u64().unwrap()
    };
    assert_eq!(keeps("2"), 2, "no run is open");
    let plain = work.scratch.create("plain", &work.scratch.path("work"));
    let deleted = work.contained(&["checkpoint", "delete", &plain]);
    assert!(deleted.status.success(), "{}", shown(&deleted));
    // With an agent at work that cannot be seen from in there, it may be the agent's container.
    let kept = work.scratch.create("plain", &work.scratch.path("work"));
    let folder = work.scratch.path("work").to_string_lossy().into_owned();
    let mut run = work.scratch.command(&["session", "run", "--name", "other", "-w", &folder, "--", "sleep", "100000"]);
    let run = Ended(run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait(|| work.scratch.run(&["session", "show", "other"]).status.success().then_some(()));
    assert!(keeps("2") > 2, "an agent may say it");
    assert_eq!(keeps("1000"), 1000, "what is stricter counts");
    let refused = work.contained(&["checkpoint", "delete", &kept]);
    let said = shown(&refused);
    assert!(refused.status.code() == Some(4) && said.contains("do it from outside, or when that run has ended"), "{said}");
    // Whoever sees the agent is no part of it.
    work.scratch.expect(0, &["checkpoint", "delete", &kept]);
    work.scratch.expect(0, &["session", "stop", "other"]);
    drop(run);
    assert_eq!(keeps("2"), 2, "no run is open any more");
}
