//! What becomes of a session: active, paused, failed, ended for good, recovered; and from which checkpoint it goes on.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use parhelia_session::rollback;
use parhelia_store::{
    Store,
    event::{Actor, NewEvent, kind},
};
use parhelia_tests::{
    Scratch,
    live::{kill, on_a_terminal, shown, wait},
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
        let store = Store::open(&self.scratch.store(), &Default::default()).unwrap();
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
    let paused = work.scratch.expect(0, &["session", "pause", "--leave-agent", "work"]);
    assert!(paused.contains("is paused at checkpoint") && paused.contains("is alive, and was left alone"), "{paused}");
    assert_eq!(work.status(), "paused");
    let newest = work.checkpoints().remove(0);
    assert_eq!((text(&newest, "trigger"), text(&newest, "trigger_detail")), ("periodic", "pause"));
    assert!(work.scratch.expect(0, &["session", "list"]).contains("paused: it is not resumed if it dies"));
    assert!(work.scratch.expect(0, &["session", "pause", "--leave-agent", "work"]).contains("is alive, and was left alone"));
    assert!(work.scratch.expect(0, &["session", "resume", "work"]).contains("is alive already"));
    work.has_started(1);
    work.go();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(work.status(), "paused");
    let before = work.checkpoints().len();
    assert!(work.scratch.expect(0, &["session", "pause", "--leave-agent", "work"]).contains("is paused already"));
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
    work.scratch.expect(0, &["session", "pause", "--leave-agent", "work"]);
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
    work.scratch.expect(4, &["session", "pause", "--leave-agent", &id]);
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
fn recover_says_how_it_is_and_does_what_it_is_told() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let process = wait(|| work.last_run()["pid"].as_i64());
    let checkpoint = work.create("two\n");
    let alive = work.scratch.expect(0, &["session", "recover", "work", "--yes"]);
    assert!(alive.contains(&format!("is alive (process {process})")), "{alive}");
    // From another folder, whose latest is another one.
    let hint = work.scratch.expect(4, &["session", "resume", "work", "--from", "latest", "--yes"]);
    assert!(hint.contains("checkpoint rollback work") && hint.contains("@latest --stop"), "{hint}");
    assert!(work.scratch.expect(4, &["session", "recover"]).contains("no session needs to be recovered"));

    // As after a crash: nobody is left to write down how it ended.
    child.kill().unwrap();
    child.wait().unwrap();
    kill(i32::try_from(process).unwrap());
    wait(|| (!PathBuf::from(format!("/proc/{process}")).exists()).then_some(()));
    assert_eq!(work.status(), "active");
    let asked = work.scratch.expect(2, &["session", "recover"]);
    for part in ["(wanted running): its agent is dead", "there; it is kept as it is", checkpoint.as_str(), "--yes", "--end"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let told = work.objects(&["session", "recover"], "session").remove(0);
    assert_eq!((text(&told, "status"), &told["alive"], text(&told, "from")), ("active", &false.into(), checkpoint.as_str()));
    assert_eq!((&told["workspace_exists"], &told["interrupted_rollback"]), (&true.into(), &Value::Null));
    assert_eq!(work.session()["epoch"], 1, "nothing was done");
    work.scratch.expect(2, &["session", "recover", "--yes", "--end"]);

    work.go();
    fs::remove_dir_all(&work.workspace).unwrap();
    assert!(work.scratch.expect(2, &["session", "recover"]).contains("gone; it is restored"));
    let resumed = work.scratch.expect(0, &["session", "recover", "--yes"]);
    assert!(resumed.contains("the workspace was gone, and was restored"), "{resumed}");
    work.has_started(2);
    assert_eq!((work.file().as_str(), work.status().as_str(), &work.session()["epoch"]), ("two\n", "paused", &2.into()));
    assert!(work.scratch.expect(4, &["session", "recover"]).contains("no session needs to be recovered"));

    let ended = work.scratch.expect(0, &["session", "recover", "work", "--end"]);
    assert!(ended.contains("has ended; its checkpoints stay"), "{ended}");
    work.scratch.expect(0, &["session", "recover", "work", "--yes"]);
    work.has_started(2);
    assert_eq!((work.status().as_str(), work.checkpoints().is_empty()), ("ended", false));
}

#[test]
fn recover_does_not_call_an_agent_dead_that_there_never_was() {
    let work = Work::new();
    work.scratch.create("plain", &work.workspace);
    let told = work.scratch.expect(2, &["session", "recover", "plain"]);
    assert!(told.contains("no agent was started in it") && !told.contains("dead"), "{told}");
}

#[test]
fn a_death_whose_last_checkpoint_is_being_made_is_called_that() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let process = wait(|| work.last_run()["pid"].as_i64());
    let store = Store::open(&work.scratch.store(), &Default::default()).unwrap();
    // Nobody else captures it meanwhile.
    let turn = rollback::held(&store, work.session()["id"].as_str().unwrap(), &()).unwrap();
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
    assert!(refused.status.code() == Some(1) && shown(&refused).contains("it is immutable"), "{}", shown(&refused));
    assert!(PathBuf::from(format!("/proc/{process}")).exists() && work.session()["observed"] == "live");
    work.go();
    assert!(child.wait().unwrap().success());
}

#[test]
fn recover_lets_the_user_choose_a_checkpoint_on_a_terminal() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let process = wait(|| work.last_run()["pid"].as_i64());
    let first = work.create("first\n");
    let second = work.create("second\n");
    child.kill().unwrap();
    child.wait().unwrap();
    kill(i32::try_from(process).unwrap());
    wait(|| (!PathBuf::from(format!("/proc/{process}")).exists()).then_some(()));
    fs::write(work.workspace.join("file"), "third\n").unwrap();
    let typed = |keys: &str| {
        let recover = work.scratch.command(&["session", "recover", "work"]);
        let program = recover.get_program().to_string_lossy().into_owned();
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &format!("'{program}' session recover work"), "/dev/null"]).env_clear();
        terminal.envs(recover.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::piped());
        let mut running = terminal.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    work.go();
    for keys in ["c\n\n", "c\n2\nn\n", "l\n"] {
        let (code, said) = typed(keys);
        assert_eq!((code, work.file().as_str()), (Some(0), "third\n"), "{said}");
    }
    let (code, said) = typed("c\n17\n");
    assert!(code == Some(2) && said.contains("17 is none of the numbers above"), "{said}");
    assert_eq!(work.session()["epoch"], 1, "nothing was done");
    let (code, said) = typed("c\n2\ny\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("1  {second}")) && said.contains(&format!("2  {first}")), "{said}");
    work.has_started(2);
    assert_eq!((work.file().as_str(), &work.session()["epoch"]), ("first\n", &2.into()));
    // Without a terminal a flag says it.
    let resumed = work.scratch.expect(0, &["session", "recover", "work", "--from", &second, "--yes"]);
    assert!(resumed.contains(&format!("put back to checkpoint {second}")), "{resumed}");
    work.has_started(3);
    assert_eq!(work.file(), "second\n");
}

#[test]
fn a_session_goes_on_from_an_earlier_checkpoint() {
    let work = Work::new();
    let seen = work.scratch.path("seen");
    let first = {
        let output = work.run(&format!("cat file >> '{}'", seen.display()));
        assert!(output.status.success(), "{}", shown(&output));
        text(&work.checkpoints()[0], "id").to_owned()
    };
    let resume = ["session", "resume", "work", "--from", first.as_str()];
    for arguments in [&resume[..], &resume] {
        let later = work.create("two\n");
        let refused = work.scratch.expect(2, arguments);
        assert!(refused.contains("--yes"), "{refused}");
        assert_eq!((work.file().as_str(), work.checkpoints()[0]["id"].as_str()), ("two\n", Some(later.as_str())));
        let runs = fs::read_to_string(&seen).unwrap().lines().count();

        let done = work.scratch.expect(0, &[arguments, &["--yes"]].concat());
        assert!(done.contains(&format!("the workspace was put back to checkpoint {first}")), "{done}");
        assert_eq!(work.file(), "one\n");
        assert_eq!(fs::read_to_string(&seen).unwrap(), "one\n".repeat(runs + 1), "the program began with the earlier file");
        let all = work.checkpoints();
        assert_eq!((text(&all[0], "trigger"), text(&all[0], "parent")), ("shutdown", first.as_str()));
        let safety = all.iter().find(|c| text(c, "trigger_detail").starts_with("safety")).unwrap();
        assert_eq!(work.cat(text(safety, "id")), "two\n");
        assert_eq!(text(&work.last_run(), "resumed_from"), first);
    }
    let refused = work.scratch.expect(2, &["checkpoint", "restore", &format!("{first}:file")]);
    assert!(refused.contains("--to DIR"), "{refused}");
    let refused = work.scratch.expect(2, &["checkpoint", "restore", &first]);
    assert!(refused.contains("session resume") && refused.contains(&format!("--from {first}")), "{refused}");
    // Where there is nothing to put back, nobody needs to be asked about that.
    let later = work.create("three\n");
    fs::remove_dir_all(&work.workspace).unwrap();
    work.scratch.expect(0, &["session", "resume", "work", "--from", &later, "--yes"]);
    assert_eq!(work.file(), "three\n");
    assert!(fs::read_to_string(&seen).unwrap().ends_with("three\n"));
}

#[test]
fn what_was_rejected_or_made_for_safety_is_passed_over_and_that_is_said() {
    let work = Work::new();
    work.run("exit 0");
    let first = text(&work.checkpoints()[0], "id").to_owned();
    let (second, third) = (work.create("two\n"), work.create("three\n"));
    let reject = |id: &str| {
        let ann = Actor { user: Some("ann".into()), via: "cli".into() };
        work.append(NewEvent::new(kind::CHECKPOINT_DECIDED, id, ann).with("status", "rejected").with("reason", "not this"));
    };
    let passed_over = |id: &str, why: &str| format!("checkpoint {id} is newer, and was passed over: it {why}");
    reject(&third);
    let begun = work.objects(&["session", "resume", "work", "--yes"], "session").remove(0);
    assert_eq!(text(&begun, "from"), second);
    let notices = begun["notices"].to_string();
    assert!(notices.contains(&passed_over(&third, "was rejected by ann")), "{notices}");
    assert_eq!(work.file(), "three\n", "a live workspace is kept as it is");

    let refused = work.scratch.expect(4, &["session", "resume", "work", "--from", &third, "--yes"]);
    assert!(refused.contains("was rejected by ann") && refused.contains("--from-rejected"), "{refused}");
    work.scratch.expect(0, &["session", "resume", "work", "--from", &third, "--yes", "--from-rejected"]);
    assert_eq!(text(&work.last_run(), "resumed_from"), third);

    work.scratch.expect(0, &["checkpoint", "rollback", &second, "--yes"]);
    let safety = {
        let all = work.checkpoints();
        let newest = all.iter().find(|checkpoint| text(checkpoint, "trigger_detail").starts_with("safety"));
        text(newest.unwrap(), "id").to_owned()
    };
    let id = text(&work.session(), "id").to_owned();
    // As where a rollback has not come to its end.
    work.append(NewEvent::new(kind::SESSION_HEAD, &id, Actor::default()).with("checkpoint", safety.as_str()));
    let parent = text(&work.checkpoints().iter().find(|c| c["id"] == safety.as_str()).unwrap().clone(), "parent").to_owned();
    let recover = work.scratch.expect(2, &["session", "recover", "work"]);
    assert!(
        recover.contains(&format!("Checkpoint {safety} is passed over: it was made before something was overwritten.")),
        "{recover}"
    );
    let resumed = work.scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert!(resumed.contains(&passed_over(&safety, "was made before something was overwritten")), "{resumed}");
    assert_eq!(text(&work.last_run(), "resumed_from"), parent);

    for checkpoint in work.checkpoints() {
        reject(text(&checkpoint, "id"));
    }
    let resumed = work.scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert!(resumed.contains("has no checkpoint to go on from; the workspace is taken as it is"), "{resumed}");
    assert!(resumed.contains(&passed_over(&first, "was rejected by ann")), "{resumed}");
}

#[test]
fn a_finished_command_is_run_again_only_where_somebody_wants_that() {
    let work = Work::new();
    let ran = work.scratch.path("ran");
    assert!(work.run(&format!("echo once >> '{}'", ran.display())).status.success());
    let times = || fs::read_to_string(&ran).unwrap().lines().count();
    let refused = work.scratch.expect(2, &["session", "resume", "work"]);
    assert!(refused.contains("has come to its end") && refused.contains("--yes"), "{refused}");
    assert_eq!(work.session()["epoch"], 1);
    for (answer, runs) in [("n\n", 1), ("y\n", 2)] {
        let mut terminal = on_a_terminal(&work.scratch.command(&["session", "resume", "work"]));
        let mut child = terminal.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(times(), runs, "{answer}");
    }
    work.scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert_eq!(times(), 3);
}
