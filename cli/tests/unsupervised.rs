//! Sessions whose supervisor was killed while what it started lives on, and sessions that were killed with it: what is said of them.

use std::{
    fs,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn session(home: &Home, name: &str) -> Option<Value> {
    let run = home.run(&["session", "show", name, "--json"]);
    (run.code == 0).then(|| run.json().swap_remove(0))
}

/// The process of a session's program, once it lives.
fn program(home: &Home, name: &str) -> Pid {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let lives = session(home, name).is_some_and(|found| found["observed"] == "live");
        let shown = home.run(&["session", "show", name, "--json"]).out;
        let mut lines = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let (true, Some(process)) = (lives, lines.find_map(|line| line["pid"].as_i64())) {
            return Pid::from_raw(process as i32).unwrap();
        }
        assert!(Instant::now() < limit, "session {name} does not begin");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a session of a program that is no agent, and waits until it lives. Returns its supervisor, and its program.
fn start(home: &Home, name: &str) -> (Child, Pid) {
    fs::create_dir_all(home.folder.path().join(name)).unwrap();
    let words = ["session", "run", "-w", name, "--name", name, "--interval", "1", "--", "sleep", "600"];
    let mut command = home.command(&words);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
    let supervisor = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (supervisor, program(home, name))
}

#[test]
fn a_program_that_outlives_its_supervisor_is_said_to_have_no_checkpoints() {
    let home = Home::new();
    let (mut supervisor, program) = start(&home, "it");
    let id = session(&home, "it").unwrap()["id"].as_str().unwrap().to_owned();
    let before = home.run(&["session", "list"]);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let listed = home.run(&["session", "list"]);
    let shown = home.run(&["session", "show", "it"]);
    let found = session(&home, "it").unwrap();
    let recovered = home.run(&["session", "recover", "it"]);
    let any = home.run(&["session", "recover"]);
    let json = home.run(&["session", "recover", "it", "--json"]);
    let made = home.run(&["checkpoint", "create", &id, "--workspace", "it"]);
    kill_process(program, Signal::KILL).unwrap();
    assert!(before.code == 0 && before.err.is_empty() && !before.out.contains("UNSUPERVISED"), "{before:?}");
    let said = format!(
        "session {id}: it has no supervisor, and no checkpoints of it are made any more; `parhelia checkpoint create {id} "
    );
    assert!(listed.code == 0 && listed.out.contains("live, UNSUPERVISED") && listed.err.contains(&said), "{listed:?}");
    assert!(shown.code == 0 && shown.out.contains(&said), "{shown:?}");
    let expected = serde_json::json!({
        "process": program.as_raw_nonzero().get(), "has_hooks": false, "service_interval_seconds": null,
    });
    assert_eq!(found["unsupervised"], expected);
    for (run, code) in [(&recovered, 0), (&any, 4)] {
        assert!(run.code == code && run.err.contains(&said), "{run:?}");
    }
    let first: Value = serde_json::from_str(json.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["unsupervised"], found["unsupervised"]);
    assert_eq!(made.code, 0, "{made:?}");
}

#[test]
fn resuming_all_is_offered_for_what_it_resumes() {
    let home = Home::new();
    let mut killed = Vec::new();
    for name in ["one", "two"] {
        let (mut supervisor, program) = start(&home, name);
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        kill_process(program, Signal::KILL).unwrap();
        killed.push(session(&home, name).unwrap()["id"].as_str().unwrap().to_owned());
    }
    let limit = Instant::now() + Duration::from_secs(60);
    while killed.iter().any(|id| session(&home, id).unwrap()["observed"] != "dead") {
        assert!(Instant::now() < limit, "{killed:?}");
        thread::sleep(Duration::from_millis(20));
    }
    let run = home.run(&["session", "recover"]).expect(2);
    assert!(run.err.contains(&format!("also dead: {}; `parhelia session recover SESSION`", killed[0])), "{run:?}");
    assert!(!run.err.contains("--all"), "{run:?}");
    let all = home.run(&["session", "resume", "--all"]).expect(0);
    assert!(all.err.matches("is left alone").count() == 2, "{all:?}");
}
