//! Sessions in tmux: the real tmux on private sockets, the real binary, and the real agent against an API of ours.

mod agents;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use parhelia_agent::tmux::{State, geometry};
use parhelia_tests::{
    Scratch,
    agent::{Agent, Reply, tool},
    live::{Live, kill, lives, on_a_terminal, shown, wait},
    tmux::Tmux,
    write,
};
use serde_json::{Value, json};

/// A command line of ours for a private server, with a folder for temporary files of its own.
fn ours(scratch: &Scratch, tmux: &Tmux, verb: &str, arguments: &[&str]) -> Command {
    let mut all = vec!["session", verb];
    let socket = tmux.socket().to_string_lossy().into_owned();
    all.extend(["--tmux-socket", &socket]);
    all.extend(arguments);
    let mut command = scratch.command(&all);
    fs::create_dir_all(scratch.path("tmp")).unwrap();
    command.env("TMPDIR", scratch.path("tmp")).env("TERM", "xterm-256color").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A scratch folder with a workspace.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    write(&scratch.path("work/kept.txt"), b"kept").unwrap();
    scratch
}

fn workspace(scratch: &Scratch) -> String {
    scratch.path("work").canonicalize().unwrap().to_string_lossy().into_owned()
}

/// Runs a shell script as a session in tmux.
fn run_script(scratch: &Scratch, tmux: &Tmux, script: &str) -> Output {
    let workspace = workspace(scratch);
    let arguments = ["--tmux", "--detach", "--workspace", &workspace, "--", "sh", "-c", script];
    ours(scratch, tmux, "run", &arguments).env("SECRET_OF_THE_CALLER", "only-the-caller-has-this").output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn sessions(scratch: &Scratch) -> Vec<Value> {
    let found = lines(&scratch.run(&["session", "list", "--json"]));
    found.into_iter().filter(|line| line["type"] == "session").collect()
}

fn id_of(scratch: &Scratch) -> String {
    sessions(scratch)[0]["id"].as_str().unwrap().to_owned()
}

fn newest_run(scratch: &Scratch) -> Value {
    let found = lines(&scratch.run(&["session", "show", &id_of(scratch), "--json"]));
    found.into_iter().rfind(|line| line["type"] == "run").unwrap()
}

/// The parts that two sessions must have in common to look the same.
fn looks(state: &State) -> Vec<Value> {
    let pane = |pane: &parhelia_agent::tmux::Pane| json!([pane.index, pane.folder, pane.active, pane.title]);
    let window = |window: &parhelia_agent::tmux::Window| {
        let panes: Vec<Value> = window.panes.iter().map(pane).collect();
        json!([window.index, window.active, window.zoomed, geometry(&window.layout), panes])
    };
    state.windows.iter().map(window).collect()
}

fn text_of(tmux: &Tmux, session: &str) -> String {
    let captured = tmux.capture(session);
    captured.scrollback.iter().map(|text| String::from_utf8_lossy(&text.bytes).into_owned()).collect()
}

/// True if a text stands on the command line of any process.
fn is_on_a_command_line(text: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(text))
}

#[test]
fn the_callers_environment_reaches_the_pane_of_a_server_with_another() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    tmux.start(&[("OF_THE_SERVER", "1"), ("HOME", "/of-the-server")]);
    let output = run_script(&scratch, &tmux, "env > environment.txt; pwd; exec sleep 100000");
    assert!(output.status.success(), "{}", shown(&output));
    let session = tmux.session();
    assert!(session.starts_with("ph-work-2") && shown(&output).contains(&session), "{}", shown(&output));
    assert!(shown(&output).contains("attach"), "{}", shown(&output));
    let environment = wait(|| {
        let text = fs::read_to_string(scratch.path("work/environment.txt")).ok()?;
        text.contains("PATH=").then_some(text)
    });
    let has = |line: &str| environment.lines().any(|found| found == line);
    assert!(has("SECRET_OF_THE_CALLER=only-the-caller-has-this"), "{environment}");
    assert!(has(&format!("HOME={}", scratch.path("home").display())), "{environment}");
    assert!(!environment.contains("OF_THE_SERVER"), "{environment}");
    assert!(environment.contains(&format!("TMUX={}", tmux.socket().display())), "{environment}");
    assert!(!has("TERM=xterm-256color"), "the terminal is the pane's: {environment}");
    assert!(!is_on_a_command_line("only-the-caller-has-this"));
    let started = tmux.ask(&["list-panes", "-t", &session, "-F", "#{pane_start_command}"]);
    assert!(!started.contains("sleep"), "{started}");
    tmux.wait_for(&session, &workspace(&scratch));
    let run = newest_run(&scratch);
    assert_eq!(run["tmux"]["socket"], json!(tmux.socket()));
    assert_eq!(run["tmux"]["pane"], json!(tmux.ask(&["list-panes", "-t", &session, "-F", "#{pane_id}"])));
    let left: Vec<_> = fs::read_dir(scratch.path("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_fails_is_said_with_what_the_pane_shows_and_leaves_no_session() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    tmux.start(&[]);
    let output = run_script(&scratch, &tmux, "echo out of luck; exit 3");
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    assert!(shown(&output).contains("out of luck"), "{}", shown(&output));
    assert_eq!(tmux.sessions(), [""; 0]);
    let arguments = ["--tmux", "-d", "--workspace", &workspace(&scratch), "--", "/no/such/program"];
    let output = ours(&scratch, &tmux, "run", &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    assert!(shown(&output).contains("/no/such/program"), "{}", shown(&output));
    assert_eq!(tmux.sessions(), [""; 0]);
    let output = run_script(&scratch, &tmux, "true");
    assert!(output.status.success() && shown(&output).contains("to its end"), "{}", shown(&output));
    assert_eq!(tmux.sessions(), [""; 0]);
    let output = ours(&scratch, &tmux, "run", &["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    let left: Vec<_> = fs::read_dir(scratch.path("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// More panes beside the one of a session: one with a program, one with text, a second window.
fn furnish(tmux: &Tmux, session: &str, folder: &Path) {
    let (folder, below) = (folder.to_string_lossy().into_owned(), folder.join("below"));
    fs::create_dir_all(&below).unwrap();
    let below = below.to_string_lossy().into_owned();
    let first = format!("{session}:0");
    tmux.ask(&["resize-window", "-t", &first, "-x", "140", "-y", "45"]);
    tmux.ask(&["split-window", "-d", "-h", "-l", "50", "-t", &first, "-c", &below, "sleep", "424242"]);
    let text = "seq 100; printf '\\033]2;#(touch injected)\\007'; echo words that were there; exec sleep 100000";
    let pane = tmux.ask(&["split-window", "-d", "-v", "-l", "9", "-t", &first, "-c", &folder, "-P", "-F", "#{pane_id}", text]);
    tmux.wait_for(&pane, "words that were there");
    tmux.ask(&["new-window", "-d", "-t", &format!("{session}:4"), "-n", "logs; #x", "-c", &below, "sleep", "100000"]);
}

#[test]
fn windows_panes_and_text_come_back_and_no_other_pane_runs_what_it_ran() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    let output = run_script(&scratch, &tmux, "echo of the program; date +%N > ran.txt; exec sleep 100000");
    assert!(output.status.success(), "{}", shown(&output));
    let (session, id, folder) = (tmux.session(), id_of(&scratch), scratch.path("work").canonicalize().unwrap());
    furnish(&tmux, &session, &folder);
    let before = tmux.capture(&session);
    assert_eq!(before.state.windows[0].panes.len(), 3);
    scratch.expect(0, &["session", "pause", &id]);
    let first = fs::read_to_string(folder.join("ran.txt")).unwrap();
    tmux.kill();
    // What the run still had to say is without tmux.
    wait(|| (newest_run(&scratch)["ended_at"] != Value::Null).then_some(()));
    fs::remove_dir_all(&folder).unwrap();

    let output = ours(&scratch, &tmux, "resume", &["--detach", &id]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert!(shown(&output).contains("was restored"), "{}", shown(&output));
    let again = tmux.session();
    let after = tmux.capture(&again);
    assert_eq!(looks(&after.state), looks(&before.state));
    // Once kept, once said again.
    wait(|| (text_of(&tmux, &again).matches("of the program").count() == 2).then_some(()));
    let text = text_of(&tmux, &again);
    assert!(text.contains("words that were there") && text.contains("\n42\n"), "{text}");
    wait(|| fs::read_to_string(folder.join("ran.txt")).ok().filter(|text| *text != first));
    let running: Vec<_> = after.state.windows.iter().flat_map(|window| &window.panes).map(|pane| pane.argv.join(" ")).collect();
    assert!(!running.iter().any(|line| line.contains("424242")), "{running:?}");
    assert!(!folder.join("injected").exists() && !folder.join("below/injected").exists(), "a title is no command");
    let left: Vec<_> = fs::read_dir(scratch.path("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let run = newest_run(&scratch);
    assert_eq!((run["epoch"].as_u64(), &run["tmux"]["socket"]), (Some(2), &json!(tmux.socket())));
    // A second one has nothing to do.
    let output = ours(&scratch, &tmux, "resume", &["--detach", &id]).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("alive already"), "{}", shown(&output));
    assert!(shown(&output).contains(&format!("attach -t {again}")), "{}", shown(&output));
    assert_eq!(tmux.sessions(), [again]);
}

#[test]
fn checkpoints_by_hand_and_before_a_rollback_hold_what_tmux_shows() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    let output = run_script(&scratch, &tmux, "echo of the program; exec sleep 100000");
    assert!(output.status.success(), "{}", shown(&output));
    tmux.wait_for(&tmux.session(), "of the program");
    let (id, folder) = (id_of(&scratch), workspace(&scratch));
    scratch.expect(0, &["checkpoint", "create", &id, "--workspace", &folder]);
    fs::write(scratch.path("work/kept.txt"), "changed").unwrap();
    scratch.expect(0, &["checkpoint", "rollback", &format!("{id}@latest"), "--files-only", "--yes"]);
    assert_eq!(fs::read_to_string(scratch.path("work/kept.txt")).unwrap(), "kept");
    let listed = lines(&scratch.run(&["checkpoint", "list", "--json"]));
    // The run makes one at its start, unless the one by hand comes before it.
    let is_asked_for = |line: &&Value| line["type"] == "checkpoint" && line["trigger_detail"] != "start";
    let made: Vec<_> = listed.iter().filter(is_asked_for).collect();
    assert_eq!(made.len(), 2, "{made:?}");
    for checkpoint in made {
        let id = checkpoint["id"].as_str().unwrap();
        let manifest = lines(&scratch.run(&["checkpoint", "show", id, "--json"])).remove(0);
        assert_eq!(manifest["parts"]["tmux"]["status"], "captured", "{manifest}");
    }
}

#[test]
fn of_two_resumes_at_once_one_has_a_tmux_session() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    tmux.start(&[]);
    run_script(&scratch, &tmux, "exec sleep 100000");
    let id = id_of(&scratch);
    scratch.expect(0, &["session", "pause", &id]);
    let process = newest_run(&scratch)["pid"].as_i64().unwrap();
    kill(i32::try_from(process).unwrap());
    wait(|| tmux.sessions().is_empty().then_some(()));
    let start = || ours(&scratch, &tmux, "resume", &["-d", &id]).spawn().unwrap();
    let children: Vec<Child> = vec![start(), start()];
    let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let texts: Vec<_> = outputs.iter().map(shown).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("runs in tmux session")).count(), 1, "{texts:?}");
    let told = |text: &&String| text.contains("somebody else has just resumed") || text.contains("is alive already");
    assert_eq!(texts.iter().filter(told).count(), 1, "{texts:?}");
    tmux.session();
}

#[test]
fn without_tmux_it_goes_on_in_this_terminal() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    run_script(&scratch, &tmux, "test -e second && echo here again && exit 0; touch second; exec sleep 100000");
    let id = id_of(&scratch);
    wait(|| scratch.path("work/second").exists().then_some(()));
    scratch.expect(0, &["session", "pause", &id]);
    tmux.kill();
    wait(|| (newest_run(&scratch)["ended_at"] != Value::Null).then_some(()));
    let text = scratch.expect(0, &["session", "resume", "--no-tmux", &id]);
    assert!(text.contains("here again"), "{text}");
    assert!(!tmux.server.is_running().unwrap());
}
