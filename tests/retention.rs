//! Retention by the real binary, over days that pass.

use std::fs;

use parhelia_tests::Scratch;
use serde_json::Value;

/// Lines of a command's JSON, but for the last.
fn lines(scratch: &Scratch, by: &str, arguments: &[&str]) -> Vec<Value> {
    let text = scratch.when(by, &[arguments, &["--json"]].concat());
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(|line: &Value| line["type"] != "summary").collect()
}

fn ids(scratch: &Scratch) -> Vec<String> {
    let mut ids: Vec<String> =
        lines(scratch, "+0", &["checkpoint", "list"]).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    ids.reverse();
    ids
}

/// A workspace in which an agent has run, so far in the past.
fn of_an_agent(by: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("file"), "first").unwrap();
    let workspace = workspace.to_string_lossy().into_owned();
    scratch.when(by, &["session", "run", "--workspace", &workspace, "--", "true"]);
    (scratch, workspace)
}

#[test]
fn checkpoints_with_a_message_outlive_the_age_of_an_agents_session() {
    let (scratch, workspace) = of_an_agent("-9d");
    let session = lines(&scratch, "+0", &["session", "list"])[0]["id"].as_str().unwrap().to_owned();
    let create = |by: &str, message: &str| {
        let more: &[&str] = if message.is_empty() { &[] } else { &["-m", message] };
        let create = ["checkpoint", "create", &session, "--workspace", &workspace];
        scratch.when(by, &[&create[..], more].concat())
    };
    for i in 0..5 {
        create("-8d", &format!("step {i} works"));
    }
    create("-8d", "");
    let before = ids(&scratch);
    assert_eq!(before.len(), 8);
    let told = create("+0", "");
    assert!(!told.contains("Retention removed"), "the last ten stay, however old they are: {told}");
    assert_eq!(ids(&scratch)[..8], before);
    // Fewer are guarded by their number; those with a message are guarded all the same, and each that goes is named.
    let config = scratch.path("home/.config/parhelia/parhelia.toml");
    parhelia_tests::write(&config, b"[retention]\nkeep_last = 1\n").unwrap();
    let told = create("+0", "");
    let left = ids(&scratch);
    assert_eq!(left[..5], before[2..7], "{told}");
    assert!(told.contains("Retention removed 3 older checkpoints"), "{told}");
    for gone in [&before[0], &before[1], &before[7]] {
        assert!(told.contains(gone.as_str()) && told.contains("older than the maximum age"), "{gone}: {told}");
    }
    let deleted = scratch.expect(0, &["log", "--kind", "checkpoint.deleted"]);
    assert_eq!(deleted.lines().filter(|line| line.contains("checkpoint.deleted")).count(), 3, "{deleted}");
}

#[test]
fn a_weekly_backup_of_a_folder_keeps_all_unless_a_calendar_is_set() {
    let scratch = Scratch::new();
    let workspace = scratch.path("photos");
    fs::create_dir(&workspace).unwrap();
    let path = workspace.to_string_lossy().into_owned();
    for week in (0..15).rev() {
        fs::write(workspace.join("file"), format!("{week} weeks ago")).unwrap();
        scratch.when(&format!("-{}d", week * 7), &["checkpoint", "create", "photos", "--workspace", &path]);
    }
    assert_eq!(ids(&scratch).len(), 15);
    let planned = scratch.when("+0", &["session", "prune", "photos", "-w", "4", "-l", "0", "-n"]);
    assert!(planned.contains("kept by the calendar") && planned.ends_with("Would remove 11, keep 4.\n"), "{planned}");
    let planned = scratch.when("+0", &["session", "prune", "--folder-max-age-hours", "2000", "-n"]);
    assert!(planned.contains("older than the maximum age") && planned.ends_with("Would remove 3, keep 12.\n"), "{planned}");
    scratch.when("+0", &["session", "prune", "-w", "4", "-l", "0"]);
    assert_eq!(ids(&scratch).len(), 4);
}

#[test]
fn a_run_that_removed_checkpoints_says_so_when_it_is_over() {
    let (scratch, workspace) = of_an_agent("-20d");
    let session = lines(&scratch, "+0", &["session", "list"])[0]["id"].as_str().unwrap().to_owned();
    scratch.when("-19d", &["checkpoint", "create", &session, "--workspace", &workspace]);
    let gone = ids(&scratch)[0].clone();
    let config = scratch.path("home/.config/parhelia/parhelia.toml");
    parhelia_tests::write(&config, b"[retention]\nkeep_last = 1\n").unwrap();
    let text = scratch.when("+0", &["session", "resume", &session, "--yes"]);
    assert!(text.contains("retention removed 2 older checkpoints meanwhile"), "{text}");
    let log = fs::read_to_string(scratch.path("home/.local/state/parhelia/hook.log")).unwrap();
    assert!(log.contains(&gone) && log.contains("older than the maximum age"), "{log}");
}

#[test]
fn a_pause_that_removes_checkpoints_names_them() {
    let (scratch, workspace) = of_an_agent("-20d");
    let session = lines(&scratch, "+0", &["session", "list"])[0]["id"].as_str().unwrap().to_owned();
    let gone = ids(&scratch)[0].clone();
    let config = scratch.path("home/.config/parhelia/parhelia.toml");
    parhelia_tests::write(&config, b"[retention]\nkeep_last = 1\n").unwrap();
    scratch.when("+0", &["session", "stop", &session, "--keep-wanted"]);
    fs::write(std::path::Path::new(&workspace).join("file"), "second").unwrap();
    let text = scratch.when("+0", &["session", "pause", &session]);
    assert!(text.contains("retention removed") && text.contains(&gone), "{text}");
}

/// Checkpoints of an agent's session, made at intervals of a minute, of which a rule by age removes all but the newest.
fn with_an_hour_of_checkpoints() -> (Scratch, String, String) {
    let (scratch, workspace) = of_an_agent("-3h");
    let session = lines(&scratch, "-3h", &["session", "list"])[0]["id"].as_str().unwrap().to_owned();
    let config = scratch.path("home/.config/parhelia/parhelia.toml");
    parhelia_tests::write(&config, b"[retention]\nkeep_last = 1\n").unwrap();
    (scratch, workspace, session)
}

#[test]
fn a_clock_that_jumps_makes_nothing_older() {
    let (scratch, workspace, session) = with_an_hour_of_checkpoints();
    let create = |seconds: i64, ahead: i64| {
        let create = ["checkpoint", "create", &session, "--workspace", &workspace, "--trigger", "periodic", "--thorough"];
        fs::write(std::path::Path::new(&workspace).join("file"), format!("{seconds}")).unwrap();
        let jump = format!("{:+}", seconds + ahead * 86_400);
        let output = scratch.command_with_jump(&format!("{seconds:+}"), &jump, &create).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("etention removed"), "{seconds} {ahead}: {said}");
    };
    for minute in 0..8 {
        create(-2000 + 60 * minute, 0);
    }
    let before = ids(&scratch);
    assert!(before.len() > 8, "{before:?}");
    // Ahead for three checkpoints, behind for two, and right again: none is too old, and none is thinned by hours or days.
    for (n, ahead) in [8, 8, 8, -9, -9, 0, 0].into_iter().enumerate() {
        create(-1000 + 60 * n as i64, ahead);
    }
    assert_eq!(ids(&scratch)[..before.len()], before);
    // A person who prunes removes nothing as too old, either, with a clock that is ahead.
    let prune = ["session", "prune", &session, "--max-age-hours", "100"];
    let output = scratch.command_with_jump("+0", "+8d", &prune).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !said.contains("older than the maximum age"), "{said}");
}

#[test]
fn time_that_went_by_is_age_whatever_the_clock_shows() {
    let (scratch, workspace, session) = with_an_hour_of_checkpoints();
    let before = ids(&scratch);
    // Nine days later the clock shows the same day.
    let create = ["checkpoint", "create", &session, "--workspace", &workspace];
    for _ in 0..2 {
        let output = scratch.command_with_jump("+9d", "+0", &create).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert!(!before.iter().any(|id| ids(&scratch).contains(id)), "{before:?}");
}
