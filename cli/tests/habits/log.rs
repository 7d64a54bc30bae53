//! `status`, and lists and logs that are cut.

use std::fs;

use parhelia_store::{
    OpenOptions,
    event::{Actor, NewEvent},
};

use super::{last, run_in, work};
use crate::common::*;

#[test]
fn status_is_of_this_folder() {
    let (home, id) = work();
    let run = run_in(&home, "work", &["status"]).expect(0);
    assert!(
        run.out.contains(&format!("Last checkpoint of {}", home.folder.path().canonicalize().unwrap().join("work").display()))
    );
    assert!(run.out.contains(&id) && run.out.contains("Nothing has changed since."), "{run:?}");
    assert!(!run.out.contains("Session "), "no agent works there: {run:?}");
    fs::write(home.folder.path().join("work/b"), "").unwrap();
    let run = run_in(&home, "work", &["status"]).expect(0);
    assert!(run.out.contains("Changed since: 1 added\n  A b\n"), "{run:?}");
    fs::create_dir(home.folder.path().join("elsewhere")).unwrap();
    let run = run_in(&home, "elsewhere", &["status"]).expect(0);
    assert!(run.out.contains("has no checkpoint yet; `parhelia checkpoint create` makes one"), "{run:?}");
    let run = run_in(&home, "work", &["status", "--json"]).expect(0);
    let summary = last(&run);
    assert_eq!((summary["checkpoint"]["id"].as_str(), summary["added"].as_u64()), (Some(&*id), Some(1)));
    home.run(&["session", "run", "-w", "work", "--name", "agents", "--", "true"]).expect(0);
    let run = run_in(&home, "work", &["status"]).expect(0);
    assert!(run.out.starts_with("Session work-"), "{run:?}");
}

#[test]
fn status_without_a_store_says_how_to_begin() {
    let home = Home::new();
    let run = Run::of(home.command(&["status"]).env_remove("PARHELIA_STORE").output().unwrap()).expect(0);
    assert!(run.out.contains("has no checkpoint yet"), "{run:?}");
    assert!(!home.folder.path().join(".local").exists());
}

#[test]
fn lists_and_the_log_are_cut_by_number_and_by_time() {
    let (home, id) = work();
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    assert_eq!(last(&home.run(&["list", "--since", "1h", "--json"]).expect(0))["checkpoints"], 2);
    assert_eq!(last(&home.run(&["list", "--since", "2999-01-01", "--json"]).expect(0))["checkpoints"], 0);
    assert!(
        home.run(&["list", "--since", "2999-01-01"]).expect(0).out.starts_with("No checkpoints since 2999-01-01 00:00:00 in ")
    );
    let run = home.run(&["list", "--since", "whenever"]).expect(2);
    assert!(run.err.contains("give a time such as"), "{run:?}");
    let run = home.run(&["log", "-n", "1", "--kind", "checkpoint.created"]).expect(0);
    assert!(run.out.lines().count() == 1 && run.out.contains("second") && !run.out.contains(&id), "{run:?}");
    assert_eq!(home.run(&["log", "--since", "2999-01-01"]).expect(0).out, "");
    assert_eq!(last(&home.run(&["session", "list", "-n", "0", "--json"]).expect(0))["sessions"], 0);
}

#[test]
fn the_last_few_of_a_log_are_those_of_all_wherever_the_journal_was_split() {
    let (home, id) = work();
    let tag = |text: &str| home.run(&["tag", &id, text]).expect(0);
    let untag = |text: &str| home.run(&["untag", &id, text]).expect(0);
    tag("a");
    untag("a");
    // A segment ends behind eight MiB.
    let event = NewEvent::new("test.large", "x", Actor::default()).with("text", "x".repeat(9 << 20));
    parhelia_ledger::open(&home.store(), &OpenOptions::default()).unwrap().append_events(&[event], &()).unwrap();
    tag("b");
    untag("b");
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    assert!(fs::read_dir(home.store().join("journal")).unwrap().count() >= 3, "two segments and a hint");
    let lines = |args: &[&str]| {
        let mut lines = home.run(&[args, &["--json"]].concat()).expect(0).json();
        lines.pop();
        lines
    };
    let session = lines(&["list"])[0]["session"].as_str().unwrap().to_owned();
    for filter in [&[][..], &["--kind", "checkpoint."], &["--session", &session], &["--since", "1h"], &["--after", "3"]] {
        for verb in [&["log"][..], &["audit", "log"]] {
            if verb.len() > 1 && filter.iter().any(|word| ["--kind", "--after"].contains(word)) {
                continue;
            }
            let all = lines(&[verb, filter].concat());
            assert!(all.len() > 1, "{verb:?} {filter:?}");
            for n in 0..=all.len() + 1 {
                let shown = lines(&[verb, filter, &["-n", &n.to_string()]].concat());
                assert_eq!(shown, all[all.len().saturating_sub(n)..], "{verb:?} {filter:?} -n {n}");
            }
        }
    }
}

#[test]
fn the_log_is_followed_until_ctrl_c() {
    use std::{
        io::{BufRead, BufReader},
        process::Stdio,
    };
    let (home, id) = work();
    let mut follow =
        home.command(&["log", "--follow", "-n", "1", "--kind", "checkpoint.created"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(&id));
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    assert!(lines.next().unwrap().unwrap().contains("second"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&follow), rustix::process::Signal::INT).unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(0));
}
