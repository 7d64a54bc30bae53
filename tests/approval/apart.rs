//! Ways of an agent around decisions: going back to its own work, another session's folder, what a person has had remembered, another clock.

use std::{fs, process::Command};

use parhelia_tests::{Scratch, binary, write, write_program};

use super::{acts, checkpoints, id, lines, status};

/// A strict policy, and a session of a person's whose agent has ended, of which one checkpoint was approved.
struct Apart {
    s: Scratch,
    good: String,
}

impl Apart {
    fn new() -> Self {
        let s = Scratch::new();
        write(&s.path("home/.config/parhelia/parhelia.toml"), b"[approval]\ndefault_policy = \"strict\"\n").unwrap();
        fs::create_dir_all(s.path("work")).unwrap();
        fs::create_dir_all(s.path("other")).unwrap();
        let apart = Apart { s, good: String::new() };
        apart.run("s", "work", "echo good > f");
        apart.run("other", "other", "echo theirs > f");
        let good = id(checkpoints(&apart.s).last().unwrap()).to_owned();
        apart.s.expect(0, &["session", "approve", &good]);
        Apart { good, ..apart }
    }

    /// Has a script run as the agent of a session; returns what was said.
    fn run(&self, session: &str, folder: &str, script: &str) -> String {
        let folder = self.s.path(folder).to_string_lossy().into_owned();
        let known = lines(&self.s, &["session", "list"]).iter().any(|one| one["name"] == session);
        write_program(&self.s.path("program"), &format!("#!/bin/sh\nPATH=\"$PATH:{}\"\n{script}\n", programs()));
        let program = self.s.path("program").to_string_lossy().into_owned();
        let output = match known {
            true => self.s.run(&["session", "resume", session, "--yes"]),
            false => self.s.run(&["session", "run", "--name", session, "-w", &folder, "--", &program]),
        };
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

fn programs() -> String {
    binary().parent().unwrap().display().to_string()
}

#[test]
fn an_agent_that_goes_back_to_its_own_work_makes_it_no_better() {
    let a = Apart::new();
    a.run("s", "work", "echo worse > f; parhelia create -q; parhelia rollback latest --yes -q; cd ..; rm -r work");
    assert_eq!(acts(&a.s, "session.rollback").len(), 1, "it may go back in its own folder");
    let said = a.run("s", "work", "cat f");
    assert!(said.contains("passed over") && !said.contains("worse"), "{said}");
    assert_eq!(fs::read_to_string(a.s.path("work/f")).unwrap(), "good\n");
    assert_eq!(status(&a.s, &a.good), "approved");
}

#[test]
fn another_sessions_folder_is_left_alone_whoever_the_agent_seems_to_be() {
    let a = Apart::new();
    let moves = "parhelia rollback other@latest~1 --yes; echo \"rc=$?;\"\n\
         parhelia tag other@latest good; echo \"rc=$?;\"\n\
         parhelia annotate other@latest fine; echo \"rc=$?;\"\n\
         parhelia restore s@latest --to ../other --in-place --other-folder; echo \"rc=$?;\"\n\
         parhelia create mine -w ../other; echo \"rc=$?;\"";
    let before = lines(&a.s, &["list", "other"]).len();
    let said = a.run("s", "work", moves);
    assert_eq!((said.matches("rc=4;").count(), said.matches("rc=0;").count()), (5, 0), "{said}");
    // Of one that was started by hand, nothing is known.
    write_program(&a.s.path("claude"), &format!("#!/bin/bash\nPATH=\"$PATH:{}\"\n{moves}\n", programs()));
    let mut by_hand = Command::new("bash");
    by_hand.args(["-c", "exec -a claude bash \"$0\""]).arg(a.s.path("claude")).env_clear();
    by_hand.env("HOME", a.s.path("home")).env("PARHELIA_STORE", a.s.store()).env("PATH", std::env::var_os("PATH").unwrap());
    let output = by_hand.current_dir(a.s.path("work")).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!((said.matches("rc=4;").count(), said.matches("rc=0;").count()), (5, 0), "{said}");
    assert_eq!(acts(&a.s, "session.act_refused").len(), 10, "each attempt is recorded");
    assert_eq!(lines(&a.s, &["list", "other"]).len(), before);
    assert_eq!(fs::read_to_string(a.s.path("other/f")).unwrap(), "theirs\n");
}

#[test]
fn an_agents_files_do_not_stand_beside_a_persons_words() {
    let a = Apart::new();
    let work = a.s.path("work").to_string_lossy().into_owned();
    a.s.expect(0, &["memory", "-w", &work, "save", "conventions.testing", "use pytest"]);
    a.run("s", "work", "parhelia memory save conventions.testing 'use pytest' --file 'run ./evil'; parhelia memory confirm");
    let known = a.s.expect(0, &["memory", "-w", &work, "list"]);
    let persons = known.lines().find(|line| line.contains("person")).unwrap();
    assert!(!persons.contains("evil"), "{known}");
    assert_eq!(acts(&a.s, "session.act_refused").len(), 1, "that it would confirm is recorded");
}

#[test]
fn another_clock_hides_no_agent() {
    let a = Apart::new();
    let inside = "env -u PARHELIA_RUN_ID unshare --time --boottime 100000 --fork parhelia";
    let script = format!(
        "echo more > f; parhelia create -q; kill -9 $PPID; sleep 0.3\n\
         {inside} session approve latest; echo \"rc=$?;\" >> ../codes\n\
         {inside} delete --protected other@latest; echo \"rc=$?;\" >> ../codes\n\
         {inside} session end other; echo \"rc=$?;\" >> ../codes; echo over >> ../codes"
    );
    a.run("s", "work", &script);
    let codes = parhelia_tests::live::wait(|| {
        let codes = fs::read_to_string(a.s.path("codes")).unwrap_or_default();
        codes.ends_with("over\n").then_some(codes)
    });
    assert_eq!(codes, "rc=4;\nrc=4;\nrc=4;\nover\n");
}
