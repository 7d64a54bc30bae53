//! Surroundings of a rollback: a larger repository, other processes, work of our own that waits.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use parhelia_agent::process::{Process, found, stop};
use parhelia_host::{
    intent::held,
    run::{Begin, Current, begin, end, roots_of},
};
use parhelia_ledger::{By, End, Goal, LedgerView as _, Status};
use parhelia_store::event::Actor;
use parhelia_tests::{Scratch, live::wait, tmux::Tmux, write};
use serde_json::json;

use super::work::{Work, git, opened, safeties};

#[test]
fn in_a_larger_repository_no_stash_entry_is_made_and_that_is_said() {
    let scratch = Scratch::new();
    let around = scratch.path("around");
    fs::create_dir_all(&around).unwrap();
    git(&around, &["init", "-q", "-b", "main"]);
    let work = Work::at(scratch, around.join("inner/work"), false);
    git(&around, &["add", "-A"]);
    git(&around, &["commit", "-q", "-m", "all"]);
    work.spoil();
    let text = work.rollback(&[]);
    assert!(text.contains("no stash entry was made") && text.contains("inside the repository"), "{text}");
    assert_eq!(git(&around, &["stash", "list"]), "");
    assert_eq!(safeties(&work).len(), 1);
}

#[test]
fn untracked_files_are_said_not_to_be_stashed() {
    let work = Work::new(true);
    work.spoil();
    let text = work.rollback(&[]);
    assert!(
        text.contains("Stashed changes of tracked files") && text.contains("Untracked files are in the safety checkpoint"),
        "{text}"
    );
    let stashed = git(&work.workspace, &["stash", "show", "--name-only", "--include-untracked", "stash@{0}"]);
    assert!(stashed.contains("src/m1/f1.rs") && !stashed.contains("new/deep/file"), "{stashed}");
}

#[test]
fn processes_in_the_workspace_that_are_not_the_sessions_are_named() {
    let work = Work::new(false);
    work.spoil();
    let mut editor = Command::new("sleep").arg("100000").current_dir(&work.workspace).spawn().unwrap();
    let text = work.rollback(&[]);
    assert!(text.contains(&format!("process {} (sleep 100000)", editor.id())) && text.contains("was left alone"), "{text}");
    assert!(editor.try_wait().unwrap().is_none());
    editor.kill().unwrap();
    editor.wait().unwrap();
}

#[test]
fn a_supervisor_and_a_tmux_server_in_the_workspace_are_no_strangers_but_what_is_in_a_pane_is() {
    let work = Work::new(false);
    let workspace = work.workspace.canonicalize().unwrap();
    let tmux = Tmux::new();
    let mut server = tmux.server.command();
    let status = server.args(["new-session", "-d", "-s", "other", "sleep", "100000"]).current_dir(&workspace).status();
    assert!(status.expect("tmux is needed by this test").success());
    let number = |what: &str| tmux.ask(&["display-message", "-p", "-t", "other:", what]);
    let (server, pane) = (number("#{pid}"), number("#{pane_pid}"));
    let second = ["session", "run", "--name", "second", "--workspace", &workspace.to_string_lossy(), "--", "sleep", "100001"];
    let mut supervisor = work.scratch.command(&second).current_dir(&workspace).stderr(Stdio::null()).spawn().unwrap();
    wait(|| {
        let output = work.scratch.run(&["session", "show", "second", "--json"]);
        String::from_utf8_lossy(&output.stdout).contains("\"observed\":\"live\"").then_some(())
    });
    let said = work.scratch.expect(0, &["session", "resume", &work.session, "--yes"]);
    assert!(said.contains(&format!("process {pane} (sleep 100000)")), "{said}");
    for own in [supervisor.id().to_string(), server] {
        assert!(!said.contains(&format!("process {own} ")), "{said}");
    }
    let pid = rustix::process::Pid::from_raw(supervisor.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    supervisor.wait().unwrap();
}

#[test]
fn work_of_a_hook_that_waits_for_us_is_not_waited_for_and_goes_by_itself() {
    let work = Work::new(false);
    let store = opened(&work);
    let workspace = work.workspace.canonicalize().unwrap();
    // The launch had the same user's folders as the hook.
    let home = work.scratch.path("home");
    fs::create_dir_all(&home).unwrap();
    let home = ("HOME".to_owned(), home.to_string_lossy().into_owned());
    let wanted = Begin {
        session: work.session.clone(),
        workspace: workspace.clone(),
        folder: workspace.clone(),
        settings: Some([home].into()),
        ..Begin::default()
    };
    let current: Current = begin(&store, &wanted).unwrap();
    let turn = held(&store, &work.session, &()).unwrap();
    fs::write(work.workspace.join("src/m1/f1.rs"), "changed").unwrap();
    let event = json!({ "hook_event_name": "Stop", "session_id": "5b9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b33", "cwd": workspace });
    let mut hook = work.scratch.command(&["hook"]);
    let mut hook = hook.env("PARHELIA_RUN_ID", &current.run).stdin(Stdio::piped()).spawn().unwrap();
    hook.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    hook.wait().unwrap();
    let run = store.refresh().unwrap().run(&current.run).unwrap().unwrap();
    let works = || -> Vec<i32> {
        let found = found(&run.id, &roots_of(&run), &workspace).unwrap();
        found.iter().filter(|found| Process::is_hook_work(found)).map(|found| found.identity.process).collect()
    };
    let waiting = wait(|| works().first().copied());
    let stopped = stop(&run.id, &roots_of(&run), &workspace, Duration::from_secs(60)).unwrap();
    assert!(stopped.ended.is_empty() && stopped.others.iter().all(|other| other.identity.process != waiting), "{stopped:?}");
    assert_eq!(works(), [waiting], "it was left alone");
    let count = store.refresh().unwrap().checkpoints().unwrap().len();
    let stopped = (End::asked(By::Rollback), By::Rollback.reason());
    end(&store, &current, stopped, (Status::Paused, Some(Goal::Paused)), Actor::default()).unwrap();
    drop(turn);
    wait(|| works().is_empty().then_some(()));
    let log = fs::read_to_string(work.scratch.path("home/.local/state/parhelia/hook.log")).unwrap();
    assert!(log.contains("the run was stopped for a rollback"), "{log}");
    assert_eq!(store.refresh().unwrap().checkpoints().unwrap().len(), count, "{log}");
}

#[test]
fn a_new_session_hides_no_other_one_behind_its_id() {
    let scratch = Scratch::new();
    for name in ["one/file", "two/file"] {
        write(&scratch.path(name), b"file").unwrap();
    }
    let [one, two] = ["one", "two"].map(|name| scratch.path(name).to_string_lossy().into_owned());
    scratch.expect(0, &["session", "run", "--name", "api", "-w", &one, "--", "true"]);
    let refused = scratch.expect(4, &["checkpoint", "create", "api", "-w", &two]);
    assert!(refused.contains("'api' is the name of session one-") && refused.contains("/one"), "{refused}");
    scratch.expect(0, &["checkpoint", "create", "api", "-w", &one]);
    assert!(scratch.expect(0, &["session", "show", "api"]).contains("one-"));
}
