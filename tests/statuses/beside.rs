//! Sessions beside live ones, and checkpoints that fail: what is said, and until when.

use super::*;

fn run(work: &Work, name: &str, folder: &std::path::Path) -> String {
    work.scratch.expect(0, &["session", "run", "--name", name, "--workspace", &folder.to_string_lossy(), "--", "true"])
}

#[test]
fn who_begins_beside_a_live_agent_is_told_of_it_and_who_begins_after_it_is_not() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    wait(|| (work.status() == "active").then_some(()));
    let id = text(&work.session(), "id").to_owned();
    let elsewhere = work.scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let (files, name) = ("both change the same files", "the name alone is ambiguous");

    let said = run(&work, "other", &work.workspace);
    assert!(said.contains(&format!("session {id} is alive in")) && said.contains(files) && !said.contains(name), "{said}");
    let said = run(&work, "other", &elsewhere);
    assert!(!said.contains(files) && !said.contains(name), "{said}");
    let said = run(&work, "work", &elsewhere);
    assert!(said.contains(&format!("session {id} has the name work as well")) && said.contains(name), "{said}");
    assert!(!said.contains(files), "{said}");

    work.go();
    assert!(child.wait().unwrap().success());
    let said = run(&work, "work", &work.workspace);
    assert!(!said.contains(files) && !said.contains(name), "{said}");
}

#[test]
fn a_pause_whose_checkpoint_fails_says_so_until_one_is_made() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    wait(|| (work.status() == "active").then_some(()));
    let aside = work.scratch.path("aside");
    fs::rename(&work.workspace, &aside).unwrap();
    let refused = work.scratch.run(&["session", "pause", "work"]);
    assert!(!refused.status.success(), "{}", shown(&refused));
    let failing = work.session()["failing"].clone();
    assert!(failing["why"].is_string(), "{failing}; {}", shown(&refused));
    assert_eq!(text(&work.session(), "needs"), "failing");
    fs::rename(&aside, &work.workspace).unwrap();
    let paused = work.scratch.expect(0, &["session", "pause", "work"]);
    assert!(work.session()["failing"].is_null() && work.status() == "paused", "{paused}");
    work.go();
    assert!(child.wait().unwrap().success());
}
