//! Statuses of a session: active, paused, failed, ended for good, recovered; and the checkpoint that it goes on from.

mod beside;
mod going_on;

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use parhelia_host::intent;
use parhelia_ledger::kind;
use parhelia_store::event::{Actor, NewEvent};
use parhelia_tests::{
    Scratch,
    live::{kill, lives, on_a_terminal, shown, wait},
    write,
};
use rustix::{
    fs::{IFlags, ioctl_getflags, ioctl_setflags},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

/// A workspace, and a session named `work` in it whose program is a shell's script.
struct Work {
    scratch: Scratch,
    workspace: PathBuf,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        write(&workspace.join("file"), b"one\n").unwrap();
        Work { scratch, workspace }
    }

    fn run(&self, script: &str) -> Output {
        self.start(script).wait_with_output().unwrap()
    }

    fn start(&self, script: &str) -> Child {
        let workspace = self.workspace.to_string_lossy();
        self.spawn(&["session", "run", "--name", "work", "--workspace", &workspace, "--", "sh", "-c", script])
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.scratch.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A script that notes each start beside the workspace, and ends when there is a file `go`.
    fn gate(&self) -> String {
        let [starts, go] = ["starts", "go"].map(|name| self.scratch.path(name));
        format!(
            "echo start >> '{}'; for i in $(seq 4000); do test -e '{}' && exit 0; sleep 0.05; done",
            starts.display(),
            go.display()
        )
    }

    /// Waits until the script was started so often.
    fn has_started(&self, times: usize) {
        let starts = || fs::read_to_string(self.scratch.path("starts")).unwrap_or_default().lines().count();
        wait(|| (starts() == times).then_some(()));
    }

    fn go(&self) {
        fs::write(self.scratch.path("go"), "").unwrap();
    }

    fn objects(&self, arguments: &[&str], wanted: &str) -> Vec<Value> {
        let output = self.scratch.run(&[arguments, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == wanted).collect()
    }

    fn session(&self) -> Value {
        self.objects(&["session", "show", "work"], "session").remove(0)
    }

    fn status(&self) -> String {
        self.session()["status"].as_str().unwrap().to_owned()
    }

    /// The last run.
    fn last_run(&self) -> Value {
        self.objects(&["session", "show", "work"], "run").pop().unwrap()
    }

    /// Newest first.
    fn checkpoints(&self) -> Vec<Value> {
        self.objects(&["checkpoint", "list"], "checkpoint")
    }

    /// Makes a checkpoint, with `text` in the file, and returns its id.
    fn create(&self, text: &str) -> String {
        fs::write(self.workspace.join("file"), text).unwrap();
        let made = self.scratch.summary(&["checkpoint", "create", "work", "--workspace", &self.workspace.to_string_lossy()]);
        made["id"].as_str().unwrap().to_owned()
    }

    fn file(&self) -> String {
        fs::read_to_string(self.workspace.join("file")).unwrap()
    }

    fn cat(&self, checkpoint: &str) -> String {
        self.scratch.expect(0, &["checkpoint", "cat", &format!("{checkpoint}:file")])
    }

    fn append(&self, event: NewEvent) {
        let store = parhelia_ledger::open(&self.scratch.store(), &Default::default()).unwrap();
        store.append_events(&[event], &()).unwrap();
    }
}

fn ask_to_end(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}

#[test]
fn a_session_is_paused_and_resumed_and_active_again() {
    let work = Work::new();
    let child = work.start(&work.gate());
    work.has_started(1);
    wait(|| (work.status() == "active").then_some(()));
    parhelia_tests::write(&work.workspace.join("changed"), b"since the start").unwrap();
    let paused = work.scratch.expect(0, &["session", "pause", "work"]);
    assert!(paused.contains("is paused at checkpoint") && paused.contains("is alive, and was left alone"), "{paused}");
    assert_eq!(work.status(), "paused");
    let newest = work.checkpoints().remove(0);
    assert_eq!((text(&newest, "trigger"), text(&newest, "trigger_detail")), ("periodic", "pause"));
    assert!(work.scratch.expect(0, &["session", "list"]).contains("paused: it is not resumed if it dies"));
    assert!(work.scratch.expect(0, &["session", "pause", "work"]).contains("is alive, and was left alone"));
    assert!(work.scratch.expect(0, &["session", "resume", "work"]).contains("is alive already"));
    work.has_started(1);
    work.go();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(work.status(), "paused");
    let before = work.checkpoints().len();
    assert!(work.scratch.expect(0, &["session", "pause", "work"]).contains("is paused already"));
    assert_eq!(work.checkpoints().len(), before);

    fs::remove_file(work.scratch.path("go")).unwrap();
    let child = work.spawn(&["session", "resume", "work", "--yes"]);
    work.has_started(2);
    let session = work.session();
    assert_eq!((text(&session, "status"), &session["epoch"]), ("active", &2.into()));
    assert_eq!(session["runs"].as_array().unwrap().len(), 2);
    work.go();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!((work.status().as_str(), text(&work.checkpoints()[0], "trigger")), ("paused", "shutdown"));
}

#[test]
fn a_program_that_fails_leaves_an_error_and_can_be_resumed() {
    let work = Work::new();
    let again = work.scratch.path("again");
    let cases = [("exit 3", 3, "ended with exit code 3"), ("kill -9 $$", 137, "was ended by signal 9")];
    let script = format!("test -e '{}' && exit 0; echo two > file; exec sh \"$0\"", again.display());
    let failing = work.scratch.path("failing");
    for (how, code, reason) in cases {
        fs::write(&failing, how).unwrap();
        let output = match work.checkpoints().is_empty() {
            true => {
                let workspace = work.workspace.to_string_lossy();
                let failing = failing.to_string_lossy();
                let arguments = ["session", "run", "--name", "work", "-w", &workspace, "--", "sh", "-c", &script, &failing];
                work.scratch.run(&arguments)
            }
            false => work.scratch.run(&["session", "resume", "work"]),
        };
        assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
        assert!(shown(&output).contains(reason) && shown(&output).contains("parhelia session resume"), "{}", shown(&output));
        let session = work.session();
        assert_eq!((text(&session, "status"), text(&session, "status_reason")), ("error", reason));
        assert_eq!(text(&work.last_run(), "exit_reason"), reason);
        let newest = work.checkpoints().remove(0);
        assert_eq!((text(&newest, "trigger"), text(&newest, "trigger_detail")), ("error", reason));
        assert_eq!(work.cat(text(&newest, "id")), "two\n");
    }
    assert_eq!(text(&work.session(), "wanted"), "running", "nobody has asked it to be done");
    work.scratch.expect(0, &["session", "pause", "work"]);
    assert_eq!((text(&work.session(), "status"), text(&work.session(), "wanted")), ("paused", "paused"));
    fs::write(&again, "").unwrap();
    work.scratch.expect(0, &["session", "resume", "work"]);
    assert_eq!(work.status(), "paused");
}

#[test]
fn the_end_of_a_session_is_for_good_and_its_checkpoints_stay() {
    let work = Work::new();
    let child = work.start(&work.gate());
    work.has_started(1);
    wait(|| (work.status() == "active").then_some(()));
    let first = work.create("two\n");
    let refused = work.scratch.expect(4, &["session", "end", "work"]);
    assert!(refused.contains("is alive") && refused.contains("--leave-agent"), "{refused}");
    assert_eq!(work.status(), "active");
    fs::write(work.workspace.join("file"), "three\n").unwrap();
    let ended = work.scratch.expect(0, &["session", "end", "work", "--leave-agent"]);
    assert!(ended.contains("its checkpoints stay") && ended.contains("from here on no checkpoint is made of it"), "{ended}");
    assert_eq!(work.status(), "ended");
    let kept = work.checkpoints();
    assert_eq!((text(&kept[0], "trigger_detail"), work.cat(text(&kept[0], "id"))), ("end", "three\n".to_owned()), "{ended}");
    assert!(ended.contains(text(&kept[0], "id")), "{ended}");
    let (session, told) = (work.session(), work.scratch.expect(0, &["session", "recover", "work"]));
    assert_eq!((text(&session, "observed"), text(&session, "why")), ("live", "the session was ended"));
    assert!(told.contains("is alive (process") && told.contains("It has ended, for good"), "{told}");
    assert!(!told.contains("checkpoint to go on from") && !told.contains("goes on from"), "{told}");
    // The program was left alone; that it ends later changes nothing.
    work.go();
    let output = child.wait_with_output().unwrap();
    let left = shown(&output);
    assert!(left.contains("had ended before, so that no last checkpoint was made") && !left.contains("session resume"), "{left}");
    assert_eq!((work.status().as_str(), work.checkpoints().len()), ("ended", kept.len()));
    assert!(kept.iter().any(|checkpoint| checkpoint["id"] == first.as_str()), "{kept:?}");

    let id = text(&work.session(), "id").to_owned();
    for arguments in [
        &["session", "resume", id.as_str()][..],
        &["session", "resume", &id, "--from", &first, "--yes"],
        &["session", "resume", &id, "--take-over"],
    ] {
        let refused = work.scratch.expect(4, arguments);
        assert!(refused.contains("has ended, which is for good"), "{arguments:?}: {refused}");
    }
    work.scratch.expect(4, &["session", "pause", &id]);
    work.has_started(1);
    assert_eq!((work.status().as_str(), work.checkpoints().len()), ("ended", kept.len()));
    assert!(work.objects(&["session", "list", "--open"], "session").is_empty());
    let to = work.scratch.path("restored");
    work.scratch.restore(&first, &to);
    assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "two\n");
    // The name is still its own, until another session has it.
    let workspace = work.workspace.to_string_lossy().into_owned();
    fs::write(work.workspace.join("file"), "after the end\n").unwrap();
    let said = work.scratch.expect(0, &["checkpoint", "create", "work", "--workspace", &workspace]);
    assert!(said.contains("has ended: the checkpoint is kept"), "{said}");
    assert_eq!(text(&work.checkpoints()[0], "session"), id);
    work.run("exit 0");
    assert_ne!(text(&work.objects(&["session", "list", "--open"], "session")[0], "id"), id);
}

#[test]
fn who_is_asked_to_end_makes_a_last_checkpoint() {
    for signal in [Signal::TERM, Signal::HUP] {
        let work = Work::new();
        let saves = format!("trap 'echo saved > file; exit 0' TERM; {}", work.gate());
        let child = work.start(&saves);
        work.has_started(1);
        wait(|| (work.status() == "active").then_some(()));
        ask_to_end(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        let newest = work.checkpoints().remove(0);
        let reason = "asked to end; ended with exit code 0";
        assert_eq!((text(&newest, "trigger"), text(&newest, "trigger_detail")), ("shutdown", reason));
        assert_eq!(work.cat(text(&newest, "id")), "saved\n", "the program's own end comes before the checkpoint");
        assert_eq!((work.status().as_str(), text(&work.last_run(), "exit_reason")), ("paused", reason));
    }
    let work = Work::new();
    let child = work.start(&format!("echo start >> '{}'; exec sleep 300", work.scratch.path("starts").display()));
    work.has_started(1);
    wait(|| (work.status() == "active" && work.last_run()["pid"].is_number()).then_some(()));
    ask_to_end(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", shown(&output));
    let newest = work.checkpoints().remove(0);
    let reason = "asked to end; was ended by signal 15";
    assert_eq!((text(&newest, "trigger"), text(&newest, "trigger_detail")), ("shutdown", reason));
    assert_eq!(work.status(), "paused");
}

#[test]
fn a_checkpoint_is_made_before_an_agent_is_asked_to_end() {
    let work = Work::new();
    // It does away with its work as it ends.
    let script = format!("trap 'rm file; exit 0' TERM; echo late > file; {}", work.gate());
    let child = work.start(&script);
    work.has_started(1);
    wait(|| (work.status() == "active" && work.last_run()["pid"].is_number()).then_some(()));
    ask_to_end(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let made = work.checkpoints();
    assert_eq!((text(&made[0], "trigger"), text(&made[1], "trigger")), ("shutdown", "shutdown"), "{made:?}");
    assert_eq!(text(&made[1], "trigger_detail"), "asked to end");
    assert_eq!(work.cat(text(&made[1], "id")), "late\n");
    work.scratch.expect(10, &["checkpoint", "cat", &format!("{}:file", text(&made[0], "id"))]);
}

#[test]
fn a_death_whose_last_checkpoint_is_being_made_is_called_that() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let process = wait(|| work.last_run()["pid"].as_i64());
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    // Nobody else captures it meanwhile.
    let turn = intent::held(&store, work.session()["id"].as_str().unwrap(), &()).unwrap();
    kill(i32::try_from(process).unwrap());
    wait(|| (work.session()["observed"] == "dead").then_some(()));
    assert_eq!(work.session()["why"], "its process is gone, and its last checkpoint is being made");
    drop(turn);
    child.wait().unwrap();
    assert!(text(&work.session(), "why").contains("signal"), "{}", work.session()["why"]);
}

#[test]
fn a_rollback_that_cannot_be_done_ends_no_agent() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let target = work.create("two\n");
    let process = wait(|| work.last_run()["pid"].as_i64());
    write(&work.workspace.join("file"), b"three\n").unwrap();
    let flagged = |is_set: bool| {
        let file = fs::File::open(work.workspace.join("file")).unwrap();
        let mut flags = ioctl_getflags(&file).unwrap();
        flags.set(IFlags::IMMUTABLE, is_set);
        ioctl_setflags(&file, flags).unwrap();
    };
    flagged(true);
    let refused = work.scratch.run(&["checkpoint", "rollback", &target, "--stop", "--yes"]);
    flagged(false);
    assert!(refused.status.code() == Some(4) && shown(&refused).contains("it is immutable"), "{}", shown(&refused));
    assert!(lives(i32::try_from(process).unwrap()) && work.session()["observed"] == "live");
    work.go();
    assert!(child.wait().unwrap().success());
}
