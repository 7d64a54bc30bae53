//! Sessions of which little is known: what is said of them is what was seen and heard, and the rest is said to be not known.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use parhelia_ledger::kind;
use parhelia_life::overview::attention::ATTENTION;
use parhelia_store::event::{Actor, NewEvent};
use parhelia_tests::{
    Scratch,
    live::{kill, lives, shown, wait},
    scripted, write, write_program,
};
use serde_json::{Value, json};

const CONVERSATION: &str = "5b9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b55";

/// A store, and a workspace.
struct Work {
    scratch: Scratch,
    supervisor: Option<Child>,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        write(&scratch.path("work/file"), b"as it was").unwrap();
        Work { scratch, supervisor: None }
    }

    /// Gives an event to `parhelia hook` from a process that no agent has started.
    fn hook(&self, name: &str) {
        let fields =
            json!({ "hook_event_name": name, "session_id": CONVERSATION, "cwd": self.scratch.path("work"), "prompt": "do it" });
        fs::write(self.scratch.path("event"), fields.to_string()).unwrap();
        let ours = self.scratch.command(&["hook"]);
        let mut command = Command::new("sh");
        // Its parent is gone before it begins: whoever runs this test may be an agent.
        command.args(["-c", "(sleep 0.2; exec \"$0\" hook < \"$1\") > /dev/null 2>&1 &"]);
        command.arg(ours.get_program()).arg(self.scratch.path("event"));
        command.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert!(command.status().unwrap().success());
    }

    /// A session named `it`, whose program this is, and that lives.
    fn start(&mut self, words: &[&str]) -> i32 {
        let work = self.scratch.path("work").to_string_lossy().into_owned();
        let arguments = [&["session", "run", "--name", "it", "--interval", "0", "--workspace", &work, "--"], words].concat();
        let mut command = self.scratch.command(&arguments);
        self.supervisor = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait(|| self.last("run").filter(|_| self.is_live())?["pid"].as_i64()) as i32
    }

    fn is_live(&self) -> bool {
        self.last("session").is_some_and(|session| ["live", "idle"].contains(&session["observed"].as_str().unwrap()))
    }

    fn kill_supervisor(&mut self) {
        let mut supervisor = self.supervisor.take().unwrap();
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
    }

    /// The last object of a kind that `session show` prints.
    fn last(&self, kind: &str) -> Option<Value> {
        lines(&self.scratch.run(&["session", "show", "it", "--json"]).stdout).into_iter().rfind(|line| line["type"] == kind)
    }

    fn listed(&self) -> Value {
        lines(&self.scratch.run(&["session", "list", "--json"]).stdout).remove(0)
    }

    /// Everything that a command says, whether it succeeds or not.
    fn said(&self, arguments: &[&str]) -> String {
        shown(&self.scratch.run(arguments))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let process = self.last("run").and_then(|run| run["pid"].as_i64());
        process.into_iter().filter(|process| lives(*process as i32)).for_each(|process| kill(process as i32));
        if let Some(mut supervisor) = self.supervisor.take() {
            let _ = supervisor.kill();
            let _ = supervisor.wait();
        }
    }
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(bytes).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn an_agent_of_which_only_its_hooks_have_told_is_not_said_to_be_dead_nor_to_be_resumed() {
    let work = Work::new();
    work.hook("UserPromptSubmit");
    wait(|| {
        lines(&work.scratch.run(&["checkpoint", "list", "--json"]).stdout)
            .iter()
            .any(|line| line["type"] == "checkpoint")
            .then_some(())
    });
    let listed = work.listed();
    let id = listed["id"].as_str().unwrap().to_owned();
    assert_eq!(listed["observed"], "unknown", "{listed}");
    assert!(listed["why"].as_str().unwrap().contains("its process is not known"), "{listed}");
    let folder = work.scratch.path("work").to_string_lossy().into_owned();
    let texts = [&["session", "list"][..], &["session", "show", &id], &["status", "-w", &folder]];
    for arguments in texts {
        let text = work.said(arguments);
        assert!(text.contains("unknown") && !text.contains("dead") && !text.contains("is gone"), "{arguments:?}: {text}");
    }
    let recovered = work.scratch.run(&["session", "recover", &id, "--json"]);
    let found = lines(&recovered.stdout).into_iter().find(|line| line["type"] == "recovery").unwrap();
    assert_eq!(found["workspace_fate"], "refused", "{found}");
    assert!(found["refused"].as_str().unwrap().contains("it is not known how session"), "{found}");
    let text = work.said(&["session", "recover", &id]);
    assert!(text.contains("whether its agent lives is not known") && !text.contains("It goes on from"), "{text}");
    let all = work.scratch.run(&["session", "resume", "--all", "--json"]);
    let text = shown(&all);
    assert!(text.contains("whether its agent lives is not known") && !text.contains("is no agent"), "{text}");
    assert_eq!(lines(&all.stdout).pop().unwrap()["left"], json!([id]), "{text}");
    for arguments in [&["session", "resume", &id][..], &["session", "resume", &id, "--prompt", "go on"]] {
        let text = work.said(arguments);
        assert!(text.contains("it is not known how session") && !text.contains("no agent"), "{arguments:?}: {text}");
    }
    let text = work.said(&["session", "attach", &id]);
    assert!(text.contains("is not known") && !text.contains("it has no live agent"), "{text}");
    let text = work.said(&["session", "stop", &id]);
    assert!(text.contains("is not known") && !text.contains("was not alive"), "{text}");
    let text = work.said(&["session", "end", &id]);
    assert!(text.contains("whether its agent lives is not known"), "{text}");
}

#[test]
fn hooks_of_which_no_event_has_come_are_not_said_to_make_checkpoints() {
    let mut work = Work::new();
    write(&work.scratch.path("work/stay"), b"").unwrap();
    let program = work.scratch.path("bin/claude");
    write_program(&program, scripted::AGENT);
    let agent = work.start(&[&program.to_string_lossy()]);
    work.kill_supervisor();
    let listed = work.listed();
    assert_eq!(
        listed["unsupervised"],
        json!({ "process": agent, "has_hooks": false, "service_interval_seconds": null }),
        "{listed}"
    );
    let text = work.said(&["session", "list"]);
    assert!(text.contains("no checkpoints of it are made any more, as no event of its hooks has come"), "{text}");
    let text = work.said(&["session", "pause", "it"]);
    assert!(text.contains("Its agent is alive") && !text.contains("The next prompt"), "{text}");
    let text = work.said(&["session", "end", "it", "--leave-agent"]);
    assert!(text.contains("from here on no checkpoint is made of it.") && !text.contains("hooks"), "{text}");
}

#[test]
fn a_setting_that_turns_hooks_off_is_named_where_no_event_has_come() {
    let mut work = Work::new();
    write(&work.scratch.path("work/stay"), b"").unwrap();
    write(&work.scratch.path("home/.claude/settings.json"), b"{\"disableAllHooks\": true}").unwrap();
    let program = work.scratch.path("bin/claude");
    write_program(&program, scripted::AGENT);
    work.start(&[&program.to_string_lossy()]);
    work.kill_supervisor();
    let text = work.said(&["session", "list"]);
    assert!(text.contains("no event of its hooks has come (disableAllHooks in "), "{text}");
}

#[test]
fn a_session_that_dies_unseen_ends_for_the_cause_of_its_death() {
    let mut work = Work::new();
    let program = work.start(&["sleep", "1000"]);
    work.kill_supervisor();
    kill(program);
    wait(|| (work.last("session")?["observed"] == "dead").then_some(()));
    work.scratch.expect(0, &["session", "end", "it"]);
    let (session, run) = (work.last("session").unwrap(), work.last("run").unwrap());
    assert_eq!((&session["status"], &session["wanted"]), (&json!("ended"), &json!("ended")), "{session}");
    assert_eq!(run["exit_reason"], "its process is gone, and nothing says why", "{run}");
    assert!(run["ended_at"].is_string(), "{run}");
}

#[test]
fn a_verdict_that_nobody_has_taken_back_does_not_outlive_what_the_agent_does() {
    let mut work = Work::new();
    write(&work.scratch.path("work/stay"), b"").unwrap();
    let program = work.scratch.path("bin/claude");
    write_program(&program, scripted::AGENT);
    work.start(&[&program.to_string_lossy()]);
    wait(|| (work.listed()["observed"] == "idle").then_some(()));
    let listed = work.listed();
    // As a service notes it that is stopped before there is an answer.
    let noted = json!({ "state": "waiting", "why": "permission", "run": listed["run"], "since": "2026-01-01T00:00:00Z" });
    let event = NewEvent::new(kind::SESSION_ATTENTION, listed["id"].as_str().unwrap(), Actor::program("service"));
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    store.append_events(&[event.with(ATTENTION, noted)], &()).unwrap();
    let listed = work.listed();
    assert_eq!((&listed["observed"], &listed["attention"]), (&json!("idle"), &Value::Null), "{listed}");
}

#[test]
fn a_place_that_cannot_be_told_without_proc_is_said_to_be_not_known() {
    let mut work = Work::new();
    work.start(&["sleep", "1000"]);
    let blind = |arguments: &[&str]| {
        let ours = work.scratch.command(arguments);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", "mount -t tmpfs none /proc/sys/kernel/random && exec \"$0\" \"$@\""])
            .arg(ours.get_program());
        command.args(ours.get_args()).env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap()
    };
    let listed = lines(&blind(&["session", "list", "--json"]).stdout).remove(0);
    assert_eq!(listed["observed"], "unknown", "{listed}");
    assert!(listed["why"].as_str().unwrap().contains("/proc cannot be read"), "{listed}");
    for arguments in
        [&["session", "list"][..], &["session", "show", "it"], &["session", "recover", "it"], &["session", "resume", "it"]]
    {
        let text = shown(&blind(arguments));
        let is_told_wrongly =
            ["elsewhere", "in a container, or another machine of that name"].iter().any(|word| text.contains(word));
        assert!(text.contains("/proc cannot be") && !is_told_wrongly, "{arguments:?}: {text}");
    }
}
