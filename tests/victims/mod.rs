//! Sessions that die with a tmux server, a machine or a container: they are found, and go on; those that ended or were set aside stay so.

mod conversations;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use parhelia_host::{intent::held, run::launcher_of};
use parhelia_ledger::{Lease, LedgerView as _};
use parhelia_tests::{
    Scratch,
    filesystems::{Mountpoint, system, text},
    live::{kill, lives, shown, wait},
    scripted::AGENT,
    tmux::Tmux,
    write, write_program,
};
use serde_json::Value;

struct Work {
    scratch: Scratch,
    tmux: Tmux,
}

impl Work {
    fn new() -> Self {
        let work = Work { scratch: Scratch::new(), tmux: Tmux::new() };
        write_program(&work.scratch.path("bin/claude"), AGENT);
        work
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(arguments);
        command.env("TERM", "xterm-256color").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn agent(&self) -> String {
        self.scratch.path("bin/claude").to_string_lossy().into_owned()
    }

    fn folder(&self, name: &str) -> String {
        fs::create_dir_all(self.scratch.path(name)).unwrap();
        self.scratch.path(name).canonicalize().unwrap().to_string_lossy().into_owned()
    }

    fn socket(&self) -> String {
        self.tmux.socket().to_string_lossy().into_owned()
    }

    /// Starts an agent that lives in tmux.
    fn start(&self, name: &str, prompt: &str) {
        let (folder, agent, socket) = (self.folder(name), self.agent(), self.socket());
        write(&Path::new(&folder).join("stay"), b"").unwrap();
        let arguments =
            ["session", "run", "--name", name, "--tmux", "--tmux-socket", &socket, "--detach", "-w", &folder, "--", &agent];
        let output = self.command(&arguments).env("PROMPT", prompt).output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
    }

    fn sessions(&self) -> Vec<Value> {
        let output = self.output(&["session", "list", "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == "session").collect()
    }

    fn session(&self, name: &str) -> Value {
        self.sessions().into_iter().find(|session| session["name"] == name).unwrap()
    }

    /// The wanted status of a session, the observed one, and its epoch.
    fn is(&self, name: &str) -> (String, String, u64) {
        let session = self.session(name);
        let text = |field: &str| session[field].as_str().unwrap_or_default().to_owned();
        (text("wanted"), text("observed"), session["epoch"].as_u64().unwrap())
    }

    fn wait_for(&self, name: &str, observed: &str) {
        wait(|| (self.is(name).1 == observed).then_some(()));
    }
}

fn found(wanted: &str, observed: &str, epoch: u64) -> (String, String, u64) {
    (wanted.to_owned(), observed.to_owned(), epoch)
}

#[test]
fn what_a_tmux_server_took_along_is_found_and_resumed_and_nothing_else() {
    let work = Work::new();
    work.tmux.start(&[]);
    let victims = ["one", "two", "three"];
    for name in victims {
        work.start(name, "fix \\u001b[31mthe\\n  bug");
        work.wait_for(name, "idle");
    }
    work.start("aside", "later");
    // An agent that has done its work, and a program that was ended.
    let (folder, agent) = (work.folder("done"), work.agent());
    let output = work.output(&["session", "run", "--name", "done", "-w", &folder, "--", &agent]);
    assert!(output.status.success(), "{}", shown(&output));
    work.scratch.expect(0, &["session", "pause", "aside"]);
    for name in victims {
        work.scratch.expect(0, &["checkpoint", "create", name, "-w", &work.folder(name)]);
    }
    let listed = work.scratch.expect(0, &["session", "list"]);
    assert!(listed.contains("idle") && listed.contains("fix ") && !listed.contains('\u{1b}'), "{listed}");
    assert!(listed.contains("WORKSPACE"), "{listed}");
    assert!(work.session("one")["last_prompt"].as_str().unwrap().ends_with("the bug"), "{}", work.session("one"));

    work.tmux.kill();
    for name in victims.iter().chain(&["aside"]) {
        work.wait_for(name, "dead");
    }
    for name in victims {
        assert_eq!(work.is(name), found("running", "dead", 1));
        assert!(work.session(name)["why"].is_string());
    }
    assert_eq!(work.is("aside"), found("paused", "dead", 1));
    assert_eq!(work.is("done"), found("paused", "dead", 1));
    // Said behind the last checkpoint.
    let transcript = work.session("two")["conversations"][0]["transcript"].as_str().unwrap().to_owned();
    let said = fs::read_to_string(&transcript).unwrap();
    let prompt = said.lines().find(|line| line.contains("the\\n  bug")).unwrap();
    let more = format!("{}\n", prompt.replace("the\\n  bug", "another thing"));
    fs::write(&transcript, said + &more).unwrap();
    assert!(work.session("two")["last_prompt"].as_str().unwrap().ends_with("another thing"), "{}", work.session("two"));
    let listed = work.scratch.expect(0, &["session", "list"]);
    assert_eq!(listed.matches(" dead ").count(), 3, "{listed}");
    let told = work.scratch.expect(2, &["session", "recover"]);
    assert!(told.contains("is dead") && told.contains("also dead") && told.contains("resume --all"), "{told}");

    let output = work.output(&["session", "resume", "--all", "--tmux-socket", &work.socket()]);
    assert!(output.status.success() && shown(&output).contains("Resumed 3 of 3 sessions"), "{}", shown(&output));
    for name in victims {
        work.wait_for(name, "idle");
        assert_eq!(work.is(name), found("running", "idle", 2));
    }
    assert_eq!((work.is("aside"), work.is("done")), (found("paused", "dead", 1), found("paused", "dead", 1)));
    assert_eq!(work.tmux.sessions().len(), 3);
    assert!(work.scratch.expect(0, &["session", "resume", "--all"]).contains("No session needs to be resumed"));
}

#[test]
fn one_that_dies_before_anything_was_saved_comes_back_in_tmux() {
    let work = Work::new();
    work.tmux.start(&[]);
    work.start("early", "hello");
    // The supervisor's first checkpoint has the windows already.
    wait(|| (work.session("early")["checkpoints"].as_u64() > Some(0)).then_some(()));
    let (supervisor, agent) = {
        let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
        let run = store.view().runs().unwrap().into_values().next().unwrap();
        (run.extra["launcher"]["process"].as_i64().unwrap() as i32, run.pid.unwrap() as i32)
    };
    kill(supervisor);
    let _ = Command::new("kill").args(["-9", &agent.to_string()]).status();
    work.wait_for("early", "dead");
    assert!(work.session("early")["why"].as_str().unwrap().contains("process is gone"), "{}", work.session("early"));
    let output = work.output(&["session", "resume", "early", "--detach", "--tmux-socket", &work.socket()]);
    assert!(output.status.success() && shown(&output).contains("runs in tmux session"), "{}", shown(&output));
    work.wait_for("early", "idle");
}

#[test]
fn a_tmux_server_that_is_gone_is_said_to_be_also_where_another_has_its_socket() {
    let work = Work::new();
    work.tmux.start(&[]);
    work.start("one", "hello");
    work.wait_for("one", "idle");
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    let run = store.view().runs().unwrap().into_values().next().unwrap();
    // The agent first: it may end when its launcher does.
    for process in [run.pid.unwrap() as i32, launcher_of(&run).unwrap().process] {
        kill(process);
    }
    work.wait_for("one", "dead");
    assert_eq!(work.session("one")["why"], "its process is gone, and nothing says why");
    work.tmux.kill();
    assert_eq!(work.session("one")["why"], "its process and its tmux server are gone");
    work.tmux.start(&[]);
    assert_eq!(work.session("one")["why"], "its process and its tmux server are gone");
}

#[test]
fn what_is_no_agent_or_answers_one_prompt_is_not_started_again_unasked() {
    let work = Work::new();
    let (folder, starts) = (work.folder("work"), work.scratch.path("starts"));
    let script = format!("echo start >> '{}'; exit 3", starts.display());
    let output = work.output(&["session", "run", "--name", "program", "-w", &folder, "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
    assert_eq!(work.is("program"), found("running", "dead", 1));
    let text = work.scratch.expect(0, &["session", "resume", "--all"]);
    assert!(text.contains("is no agent") && text.contains("No session needs to be resumed"), "{text}");
    assert_eq!(fs::read_to_string(&starts).unwrap(), "start\n");
    let refused = work.scratch.expect(2, &["session", "resume", "program", "--detach"]);
    assert!(refused.contains("--detach needs --tmux"), "{refused}");
    work.scratch.expect(0, &["session", "pause", "program"]);
    assert_eq!(work.is("program"), found("paused", "dead", 1));
}

#[test]
fn checkpoints_that_keep_failing_are_seen() {
    let work = Work::new();
    let (folder, go) = (work.folder("work"), work.scratch.path("go"));
    write(&Path::new(&folder).join("file"), b"1").unwrap();
    let script = format!("until test -e '{}'; do sleep 0.05; done", go.display());
    let arguments = ["session", "run", "--name", "it", "--interval", "1", "-w", &folder, "--", "sh", "-c", &script];
    let mut child = work.command(&arguments).spawn().unwrap();
    wait(|| (work.sessions().first()?["observed"] == "live").then_some(()));
    let away = PathBuf::from(format!("{folder}-away"));
    fs::rename(&folder, &away).unwrap();
    let failing = wait(|| Some(work.session("it")["failing"].clone()).filter(|failing| failing["count"].as_u64() > Some(1)));
    assert!(failing["reason"].is_string() && failing["since"].is_string(), "{failing}");
    let listed = work.scratch.expect(0, &["session", "list"]);
    assert!(listed.contains("FAILING") && listed.contains("failed since"), "{listed}");
    assert!(work.scratch.expect(0, &["session", "show", "it"]).contains("Failing"));
    fs::rename(&away, &folder).unwrap();
    write(&Path::new(&folder).join("file"), b"2").unwrap();
    wait(|| work.session("it")["failing"].is_null().then_some(()));
    fs::write(&go, "").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn that_nothing_can_be_saved_any_more_is_seen_where_it_cannot_be_recorded() {
    let work = Work::new();
    let (folder, go) = (work.folder("work"), work.scratch.path("go"));
    let script = format!("until test -e '{}'; do sleep 0.05; done", go.display());
    let mut child = work.command(&["session", "run", "--name", "it", "-w", &folder, "--", "sh", "-c", &script]).spawn().unwrap();
    wait(|| (work.sessions().first()?["observed"] == "live").then_some(()));
    assert_eq!(work.session("it")["store_is_read_only"], false);
    let store = text(&work.scratch.store());
    system("mount", &["--bind", &store, &store]);
    let bound = Mountpoint::of(&work.scratch.store());
    system("mount", &["-o", "remount,bind,ro", &store]);
    let listed = work.scratch.expect(0, &["session", "list"]);
    assert!(listed.contains("live, FAILING") && listed.contains(": the store's filesystem is read-only"), "{listed}");
    assert!(work.scratch.expect(0, &["session", "show", "it"]).contains("no checkpoint of it can be made"));
    assert_eq!(work.session("it")["store_is_read_only"], true);
    drop(bound);
    fs::write(&go, "").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!work.scratch.expect(0, &["session", "list"]).contains("FAILING"));
}

/// A command line of ours in a container: its own process numbers, and this machine's name.
fn contained(work: &Work, arguments: &[&str]) -> Command {
    let ours = work.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["--fork", "--pid", "--mount-proc", "--kill-child"]).arg(ours.get_program()).args(ours.get_args());
    command.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_run_in_a_container_of_the_same_name_is_not_taken_for_dead() {
    let work = Work::new();
    let (inside, outside) = (work.folder("inside"), work.folder("outside"));
    let run = |name, folder| ["session", "run", "--name", name, "-w", folder, "--", "sleep", "100000"];
    let mut container = contained(&work, &run("inside", &inside)).spawn().unwrap();
    let mut here = work.command(&run("outside", &outside)).spawn().unwrap();
    let runs = || parhelia_ledger::open(&work.scratch.store(), &Default::default()).ok()?.view().runs().ok();
    wait(|| Some(runs()?.values().filter(|run| run.pid.is_some() && run.lease.is_some()).count()).filter(|count| *count == 2));
    // From out here it is seen to live.
    assert_eq!((work.is("inside").1, work.is("outside").1), ("live".into(), "live".into()));
    let alive = work.scratch.expect(0, &["session", "resume", "inside"]);
    assert!(alive.contains("is alive already"), "{alive}");
    let refused = contained(&work, &["session", "resume", "outside"]).output().unwrap();
    assert!(refused.status.code() == Some(4) && shown(&refused).contains("taken for alive"), "{}", shown(&refused));
    container.kill().unwrap();
    container.wait().unwrap();
    // That it is gone cannot be seen from here; its lease runs out.
    work.wait_for("inside", "elsewhere");
    work.scratch.expect(4, &["session", "resume", "inside"]);
    let id = work.session("inside")["id"].as_str().unwrap().to_owned();
    let go_on = format!("parhelia session resume {id} --take-over");
    let all = work.scratch.expect(0, &["session", "resume", "--all"]);
    for part in [&*go_on, "another machine or container may have it", " until 2", "No session was resumed."] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let summary = work.scratch.summary(&["session", "resume", "--all"]);
    assert_eq!((&summary["elsewhere"][0]["id"], summary["elsewhere"].as_array().unwrap().len()), (&Value::from(id), 1));
    for name in [&["session", "recover"][..], &["session", "recover", "inside"]] {
        let said = shown(&work.output(name));
        assert!(said.contains(&go_on), "{said}");
    }
    // Whoever says that it is over is not told to say so.
    let forced = work.scratch.expect(0, &["session", "resume", "--all", "--take-over"]);
    assert!(forced.contains("is no agent") && !forced.contains("may have it"), "{forced}");
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    let run = store.view().runs().unwrap().into_values().find(|run| run.cwd.as_deref() == Some(&*inside)).unwrap();
    parhelia_ledger::renew_lease(&store, &run.id, run.epoch, &Lease::default()).unwrap();
    assert_eq!(work.is("inside").1, "dead");
    let process = runs().unwrap().into_values().find(|run| run.cwd.as_deref() == Some(&*outside)).unwrap().pid.unwrap();
    kill(process as i32);
    here.wait().unwrap();
    assert_eq!(work.is("outside").1, "dead");
}

#[test]
fn an_agent_that_is_killed_leaves_a_terminal_in_which_one_can_type() {
    let work = Work::new();
    let folder = work.folder("work");
    let ours = work.command(&[]);
    let script = format!(
        "'{}' session run -w '{folder}' -- sh -c 'stty raw -echo; kill -9 $$'; echo; stty -a",
        ours.get_program().display()
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &script, "/dev/null"]).env_clear();
    terminal.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    let output = terminal.output().unwrap();
    let text = shown(&output);
    assert!(text.contains("was ended by signal 9"), "{text}");
    let settings: Vec<&str> = text.split_whitespace().collect();
    assert!(settings.contains(&"icanon") && settings.contains(&"echo"), "{text}");
}

#[test]
fn so_does_one_that_is_started_in_the_place_of_another() {
    let work = Work::new();
    let (folder, agent, begun) = (work.folder("work"), work.scratch.path("claude"), work.scratch.path("begun"));
    // It knows no conversation, and is killed in its second one.
    let program = format!(
        "#!/bin/sh\ncase \"$*\" in\n*--version*) echo '2.1.197 (Claude Code)'; exit;;\n*--resume*) echo 'No conversation found with session ID: x' >&2; exit 1;;\nesac\n\
         [ -e '{begun}' ] && stty raw -echo && kill -9 $$\ntouch '{begun}'\n",
        begun = begun.display()
    );
    write_program(&agent, &program);
    let ours = work.command(&[]);
    let (program, agent) = (ours.get_program().display(), agent.display());
    let script =
        format!("'{program}' session run --name it -w '{folder}' -- '{agent}'; '{program}' session resume it; echo; stty -a");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &script, "/dev/null"]).env_clear();
    terminal.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    let text = shown(&terminal.output().unwrap());
    assert!(text.contains("a new conversation begins") && text.contains("was ended by signal 9"), "{text}");
    assert!(!text.contains('░'), "a bar without anything to show: {text}");
    let settings: Vec<&str> = text.split_whitespace().collect();
    assert!(settings.contains(&"icanon") && settings.contains(&"echo"), "{text}");
}

#[test]
fn an_agent_behind_a_shell_is_said_not_to_be_seen() {
    let work = Work::new();
    let (folder, agent) = (work.folder("work"), work.agent());
    let said = |command: &[&str]| {
        let output = work.output(&[&["session", "run", "-w", &folder, "--"], command].concat());
        assert!(output.status.success(), "{}", shown(&output));
        shown(&output).contains("the agent is started by another program")
    };
    assert!(said(&["sh", "-c", &format!("{agent} --session-id 7b0e0f3c-5d0c-4a52-9c0e-0d6a4a1f0c99")]));
    assert!(!said(&["timeout", "60", &agent]));
    let conversations: usize = work.sessions().iter().map(|session| session["conversations"].as_array().unwrap().len()).sum();
    assert_eq!(conversations, 1, "that of the one behind `timeout`");
}

#[test]
fn a_signal_does_not_wait_for_a_checkpoint() {
    let work = Work::new();
    let (folder, asked, said) = (work.folder("work"), work.scratch.path("asked"), work.scratch.path("said"));
    let script = format!("trap 'touch {}; exit 0' TERM; while :; do sleep 0.05; done", asked.display());
    let arguments = ["session", "run", "--name", "it", "--interval", "1", "-w", &folder, "--", "sh", "-c", &script];
    let mut command = work.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    let store = wait(|| parhelia_ledger::open(&work.scratch.store(), &Default::default()).ok());
    let session = wait(|| store.refresh().ok()?.sessions().ok()?.pop());
    // Whoever has the turn keeps each checkpoint waiting for ten seconds.
    let turn = held(&store, &session.id, &()).unwrap();
    let failed = || fs::read_to_string(&said).unwrap().matches("no checkpoint was made").count();
    wait(|| (failed() == 1).then_some(()));
    // By now the next one waits: it is begun a second later.
    std::thread::sleep(Duration::from_millis(1_500));
    let supervisor = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::TERM).unwrap();
    wait(|| asked.exists().then_some(()));
    assert_eq!(failed(), 1, "the signal came before the checkpoint gave up");
    drop(turn);
    child.wait().unwrap();
    assert_eq!(work.is("it"), found("running", "dead", 1));
}
