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
    let (files, name) = ("both change the same files", "the name alone may mean either");

    let said = run(&work, "other", &work.workspace);
    assert!(said.contains(&format!("session {id} is alive in")) && said.contains(files) && !said.contains(name), "{said}");
    let said = run(&work, "other", &elsewhere);
    assert!(!said.contains(files) && !said.contains(name), "{said}");
    let said = run(&work, "work", &elsewhere);
    assert!(said.contains(&format!("session {id} has the name work as well")) && said.contains(name), "{said}");
    assert!(!said.contains(files), "{said}");

    let all = work.scratch.expect(0, &["session", "list", "--json"]);
    let other = all.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let is_here = |one: &serde_json::Value| one["name"] == "other" && one["workspace"] == work.session()["workspace"];
    let other = other.filter(is_here).map(|one| text(&one, "id").to_owned()).next().unwrap();
    let said = work.scratch.expect(0, &["session", "resume", "--yes", &other]);
    assert!(said.contains(&format!("session {id} is alive in")) && said.contains(files), "{said}");

    // That it was ended does not end its agent.
    work.scratch.expect(0, &["session", "end", &id, "--leave-agent"]);
    let said = run(&work, "other", &work.workspace);
    assert!(said.contains(&format!("session {id} is alive in")) && said.contains(files), "{said}");

    work.go();
    child.wait().unwrap();
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
    assert_eq!(work.session()["workspace_exists"], false);
    let listed = work.scratch.expect(0, &["session", "list"]);
    assert!(listed.contains("FOLDER GONE"), "{listed}");
    let failing = work.session()["failing"].clone();
    assert!(failing["reason"].is_string(), "{failing}; {}", shown(&refused));
    assert_eq!(text(&work.session(), "needs"), "failing");
    fs::rename(&aside, &work.workspace).unwrap();
    let paused = work.scratch.expect(0, &["session", "pause", "work"]);
    assert!(work.session()["failing"].is_null() && work.status() == "paused", "{paused}");
    assert_eq!(work.session()["workspace_exists"], true);
    work.go();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_pause_that_waits_in_vain_for_its_turn_says_so_as_well() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    wait(|| (work.status() == "active").then_some(()));
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    let turn = intent::held(&store, work.session()["id"].as_str().unwrap(), &()).unwrap();
    let refused = work.scratch.run(&["session", "pause", "work", "--lock-timeout", "1"]);
    assert_eq!(refused.status.code(), Some(11), "{}", shown(&refused));
    assert!(work.session()["failing"]["reason"].is_string(), "{}", work.session());
    drop(turn);
    work.go();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_checkpoint_ends_a_streak_of_failures_whatever_the_clock_says() {
    let work = Work::new();
    work.run("exit 0");
    let (id, head) = (text(&work.session(), "id").to_owned(), text(&work.checkpoints()[0], "id").to_owned());
    for since in ["2001-01-01T00:00:00Z", "2099-01-01T00:00:00Z"] {
        let failing = serde_json::json!({ "since": since, "count": 2, "reason": "no room", "head": head });
        work.append(NewEvent::new(kind::SESSION_CHANGED, &id, Actor::program("test")).with("failing", failing));
        let is_failing = work.session()["head"] == head.as_str();
        assert_eq!(work.session()["failing"].is_object(), is_failing, "{since}: {}", work.session());
        if is_failing {
            work.create("a checkpoint of somebody else");
            assert!(work.session()["failing"].is_null(), "{since}: {}", work.session());
        }
    }
}

#[test]
fn who_was_asked_to_end_long_ago_and_worked_on_dies_for_another_reason() {
    for (until, trigger) in [("2001-01-01T00:00:00Z", "error"), ("2099-01-01T00:00:00Z", "shutdown")] {
        let work = Work::new();
        let mut child = work.start(&work.gate());
        work.has_started(1);
        let process = wait(|| work.last_run()["pid"].as_i64());
        let run = text(&work.last_run(), "id").to_owned();
        let asked = NewEvent::new(kind::RUN_CHANGED, &run, Actor::program("test"));
        work.append(asked.with("stopping", "stopped").with("stopping_by", "stop").with("stopping_until", until));
        kill(i32::try_from(process).unwrap());
        child.wait().unwrap();
        assert_eq!(text(&work.checkpoints()[0], "trigger"), trigger, "{until}");
    }
}
