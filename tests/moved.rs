//! Workspaces that are not where they were: a disk that is not mounted, a folder that was moved. Real mounts, and so root.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{
    Scratch, assert_equal,
    filesystems::{Mountpoint, in_memory, system, text},
    live::wait,
    write,
};
use serde_json::{Value, json};

/// A session in a folder, whose agent has ended.
struct Ended {
    scratch: Scratch,
    workspace: PathBuf,
    session: String,
    checkpoint: String,
}

fn ended(scratch: Scratch, workspace: PathBuf) -> Ended {
    write(&workspace.join("src/file"), b"worked on").unwrap();
    scratch.expect(0, &["session", "run", "--workspace", &text(&workspace), "--", "true"]);
    let listed = scratch.expect(0, &["checkpoint", "list", "--json"]);
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let field = |name: &str| first[name].as_str().unwrap().to_owned();
    Ended { session: field("session"), checkpoint: field("id"), scratch, workspace }
}

impl Ended {
    fn resume(&self, code: i32, more: &[&str]) -> String {
        self.scratch.expect(code, &[&["session", "resume", self.session.as_str(), "--yes"], more].concat())
    }

    fn rollback(&self, code: i32, more: &[&str]) -> String {
        self.scratch.expect(code, &[&["checkpoint", "rollback", self.checkpoint.as_str(), "--yes"], more].concat())
    }

    /// The action that `recover` names, which is what resuming would do.
    fn recover(&self) -> String {
        let told = self.scratch.expect(4, &["session", "recover", &self.session, "--json"]);
        let line: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
        assert_eq!(line["workspace_fate"], "refused", "{line}");
        let said = self.scratch.expect(4, &["session", "recover", &self.session]);
        assert!(!said.contains("is restored"), "{said}");
        said
    }

    fn create(&self, code: i32) -> String {
        self.scratch.expect(code, &["checkpoint", "create", &self.session, "--workspace", &text(&self.workspace)])
    }

    fn workspace_is(&self) -> String {
        let listed = self.scratch.expect(0, &["session", "show", &self.session, "--json"]);
        let session: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        session["workspace"]["path"].as_str().unwrap().to_owned()
    }
}

/// The id of the newest checkpoint of all, of whichever folder it is.
fn newest(scratch: &Scratch) -> String {
    let listed = scratch.expect(0, &["checkpoint", "list", "--json"]);
    let lines = listed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let newest = lines.filter(|line| line["sequence"].is_u64()).max_by_key(|line| line["sequence"].as_u64());
    newest.unwrap()["id"].as_str().unwrap().to_owned()
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_workspace_on_a_disk_that_is_not_mounted_is_not_made_again_below_the_mount_point() {
    let scratch = Scratch::new();
    let (memory, disk) = (scratch.path("memory"), scratch.path("disk"));
    for folder in [&memory, &disk] {
        fs::create_dir(folder).unwrap();
    }
    let kept = in_memory(&memory);
    let bind = || {
        system("mount", &["--bind", &text(&memory), &text(&disk)]);
        Mountpoint::of(&disk)
    };
    let mounted = bind();
    let ended = ended(scratch, disk.join("work"));
    drop(mounted);
    for refused in [ended.resume(4, &[]), ended.rollback(4, &[]), ended.recover()] {
        assert!(refused.contains(&format!("nothing is mounted at {}", text(&disk))), "{refused}");
        assert!(refused.contains("recorded: inode ") && refused.contains(" on filesystem "), "{refused}");
        assert!(refused.contains("--recreate-workspace"), "{refused}");
    }
    assert_eq!(entries(&disk), 0);
    // Mounted again, it is as it was.
    let mounted = bind();
    ended.resume(0, &[]);
    ended.rollback(0, &[]);
    drop(mounted);
    // Somebody who says so gets it there.
    ended.resume(0, &["--recreate-workspace"]);
    assert_eq!(fs::read(disk.join("work/src/file")).unwrap(), b"worked on");
    // Before its folder is removed.
    drop(kept);
}

#[test]
fn a_workspace_that_is_a_disk_is_neither_filled_nor_captured_while_that_is_not_mounted() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    fs::create_dir(&workspace).unwrap();
    let mounted = in_memory(&workspace);
    let ended = ended(scratch, workspace.clone());
    drop(mounted);
    let nothing = format!("nothing is mounted at {}", text(&workspace));
    for refused in [ended.resume(4, &[]), ended.rollback(4, &[]), ended.create(4), ended.recover()] {
        assert!(refused.contains("is empty") && refused.contains(&nothing), "{refused}");
    }
    // Another disk in its place is not it, either.
    let other = in_memory(&workspace);
    for refused in [ended.resume(4, &[]), ended.rollback(4, &[]), ended.create(4)] {
        assert!(refused.contains("is empty") && refused.contains("another filesystem is mounted at"), "{refused}");
    }
    assert_eq!(entries(&workspace), 0);
    ended.rollback(0, &["--recreate-workspace"]);
    assert_eq!(fs::read(workspace.join("src/file")).unwrap(), b"worked on");
    drop(other);
}

#[test]
fn a_workspace_that_was_moved_is_offered_and_no_old_copy_is_restored() {
    let scratch = Scratch::new();
    let workspace = scratch.path("projects/work");
    let ended = ended(scratch, workspace.clone());
    let moved = ended.scratch.path("archive/2026");
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    system("mv", &[&text(&workspace), &text(&moved)]);
    fs::write(moved.join("src/file"), "later").unwrap();
    let refused = ended.resume(4, &[]);
    let offer = format!("parhelia session move {} {}", ended.session, text(&moved));
    assert!(refused.contains("is gone; the same folder is") && refused.contains(&offer), "{refused}");
    assert!(ended.rollback(4, &[]).contains(&offer));
    assert!(ended.recover().contains(&offer));
    assert!(!workspace.exists());
    let told = ended.scratch.expect(0, &["session", "move", &ended.session]);
    assert!(told.contains(&text(&moved)), "{told}");
    assert_eq!(ended.workspace_is(), text(&moved));
    // Everything goes on there: resume keeps what is there, captures and rollbacks follow.
    ended.resume(0, &[]);
    assert_eq!(fs::read(moved.join("src/file")).unwrap(), b"later");
    let shown = ended.scratch.expect(0, &["session", "show", &ended.session, "--json"]);
    let runs: Vec<Value> = shown.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = runs.iter().rev().find(|line| line["type"] == "run").unwrap();
    assert_eq!(last["cwd"], Value::from(text(&moved)));
    ended.rollback(0, &[]);
    assert_eq!(fs::read(moved.join("src/file")).unwrap(), b"worked on");
    assert!(!workspace.exists());
}

#[test]
fn a_workspace_that_was_moved_far_is_known_by_a_process_that_works_in_it_and_found_below_its_old_place() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let ended = ended(scratch, workspace.clone());
    let far = ended.scratch.path("projects/a/b/c/d/e");
    fs::create_dir_all(far.parent().unwrap()).unwrap();
    fs::rename(&workspace, &far).unwrap();
    let mut shell = Command::new("sleep").arg("600").current_dir(far.join("src")).spawn().unwrap();
    let refused = ended.resume(4, &[]);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert!(refused.contains(&text(&far)), "{refused}");
    assert!(ended.resume(4, &[]).contains(&text(&far)) && !workspace.exists());
    // One that was deleted is restored as ever, whichever folder has its inode number by now.
    fs::remove_dir_all(&far).unwrap();
    for i in 0..50 {
        fs::create_dir(ended.scratch.path(&format!("later {i}"))).unwrap();
    }
    ended.resume(0, &[]);
    assert_eq!(fs::read(workspace.join("src/file")).unwrap(), b"worked on");
}

#[test]
fn what_is_captured_of_a_live_agent_follows_a_move() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.path("work"), scratch.path("moved"));
    write(&old.join("file"), b"before").unwrap();
    let mut run = scratch.command(&["session", "run", "--workspace", &text(&old), "--", "sleep", "600"]).spawn().unwrap();
    let session = || {
        let output = scratch.run(&["session", "list", "--json"]);
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let first: Value = serde_json::from_str(listed.lines().next()?).ok()?;
        first["id"].as_str().map(str::to_owned)
    };
    let runs = |id: &str| -> Vec<Value> {
        let shown = scratch.expect(0, &["session", "show", id, "--json"]);
        shown.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(|line: &Value| line["type"] == "run").collect()
    };
    let session = wait(session);
    wait(|| runs(&session).last().filter(|run| run["pid"].is_u64()).map(drop));
    fs::rename(&old, &new).unwrap();
    scratch.expect(0, &["session", "move", &session]);
    fs::write(new.join("file"), "after").unwrap();
    // Something else at the old path is none of the session's affairs.
    write(&old.join("other"), b"other").unwrap();
    system("kill", &["-TERM", &run.id().to_string()]);
    run.wait().unwrap();
    let last = scratch.expect(0, &["checkpoint", "cat", &format!("{session}@latest:file")]);
    assert_eq!(last, "after");
    assert!(!scratch.expect(0, &["checkpoint", "ls", &format!("{session}@latest")]).contains("other"));
}

#[test]
fn a_copy_is_another_folder_and_needs_to_be_meant() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let ended = ended(scratch, workspace.clone());
    let copy = ended.scratch.path("copy");
    system("cp", &["-a", &text(&workspace), &text(&copy)]);
    let to = ["session", "move", ended.session.as_str(), &text(&copy)].map(str::to_owned);
    let refused = ended.scratch.expect(4, &to);
    assert!(refused.contains("which is still there") && refused.contains("--other-folder"), "{refused}");
    assert!(ended.scratch.expect(4, &["session", "move", &ended.session]).contains("which is there"));
    fs::remove_dir_all(&workspace).unwrap();
    let refused = ended.scratch.expect(4, &to);
    assert!(refused.contains("is not the folder that session") && refused.contains("recorded: inode"), "{refused}");
    assert_eq!(ended.workspace_is(), text(&workspace));
    ended.scratch.expect(0, &[&to[..], &["--other-folder".into()]].concat());
    fs::write(copy.join("src/file"), "later").unwrap();
    ended.rollback(0, &[]);
    assert_eq!(fs::read(copy.join("src/file")).unwrap(), b"worked on");
}

#[test]
fn a_folders_history_goes_on_where_it_was_moved_to() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.path("photos"), scratch.path("pictures"));
    write(&old.join("file"), b"one").unwrap();
    let create = |folder: &Path| scratch.summary(&["checkpoint", "create", "--workspace", &text(folder)]);
    let first = create(&old);
    let session = first["session"].as_str().unwrap().to_owned();
    fs::rename(&old, &new).unwrap();
    scratch.expect(0, &["session", "move", &session, &text(&new)]);
    let second = create(&new);
    assert_eq!((&second["session"], &second["parent"]), (&first["session"], &first["id"]));
    let restored = scratch.path("restored");
    scratch.restore(first["id"].as_str().unwrap(), &restored);
    assert_equal(&new, &restored);
}

#[test]
fn a_moved_folder_is_its_sessions_for_whoever_restores_into_it_before_the_move_is_recorded() {
    let scratch = Scratch::new();
    let (old, new, other) = (scratch.path("photos"), scratch.path("album/pictures"), scratch.path("other"));
    write(&old.join("file"), b"one").unwrap();
    write(&other.join("file"), b"of another folder").unwrap();
    let (id, of_other) = (scratch.create("s", &old), scratch.create("other", &other));
    fs::create_dir(scratch.path("album")).unwrap();
    fs::rename(&old, &new).unwrap();
    let restore = |what: &str, to: &Path, more: &[&str]| {
        [&["checkpoint", "restore", what, "--to", &text(to), "--in-place", "--delete"], more]
            .concat()
            .iter()
            .map(|s| s.to_string())
            .collect::<Vec<_>>()
    };
    let work = || write(&new.join("file"), b"exists nowhere else").unwrap();
    work();
    // Into the folder itself, into one in it, and into the one that it is in.
    fs::create_dir(new.join("inside")).unwrap();
    write(&new.join("inside/file"), b"inside").unwrap();
    for to in [&new, &new.join("inside"), &scratch.path("album")] {
        for more in [&[][..], &["-n"], &["--no-safety"]] {
            let said = scratch.expect(4, &restore(&of_other, to, more));
            assert!(said.contains("the folder of session s") && said.contains("--other-folder"), "{said}");
        }
    }
    assert_eq!(fs::read(new.join("file")).unwrap(), b"exists nowhere else");
    let done = scratch.summary(&restore(&id, &new, &[]));
    let safety = done["safeties"][0].clone();
    assert_eq!((&safety["session"], &safety["workspace"]), (&json!("s"), &json!(text(&new))));
    assert_eq!(fs::read(new.join("file")).unwrap(), b"one");
    let kept = scratch.expect(0, &["checkpoint", "cat", &format!("{}:file", safety["id"].as_str().unwrap())]);
    assert_eq!(kept, "exists nowhere else");
    work();
    let done = scratch.summary(&restore(&of_other, &scratch.path("album"), &["--other-folder"]));
    assert_eq!(done["safeties"][0]["session"], "s");
    // The session still is where it was recorded, until somebody says where it goes on.
    assert!(scratch.expect(0, &["session", "show", "s", "--json"]).contains(&text(&old)));
}

#[test]
fn the_latest_of_a_moved_folder_is_that_of_its_session() {
    let scratch = Scratch::new();
    let (old, new, other) = (scratch.path("photos"), scratch.path("pictures"), scratch.path("other"));
    write(&old.join("file"), b"one").unwrap();
    write(&other.join("file"), b"of another folder").unwrap();
    let id = scratch.create("s", &old);
    scratch.create("other", &other);
    fs::rename(&old, &new).unwrap();
    // Whoever captures it without having said so is told.
    let create = ["checkpoint", "create", "--workspace", &text(&new)];
    let said = scratch.expect(0, &create);
    assert!(said.contains(&format!("`parhelia session move s {}`", text(&new))), "{said}");
    let second = scratch.summary(&create);
    assert!(!scratch.expect(0, &create).contains("session move"));
    for _ in 0..3 {
        scratch.expect(0, &["checkpoint", "delete", &format!("{}@latest", second["session"].as_str().unwrap())]);
    }
    let mut command = scratch.command(&["checkpoint", "restore", "latest", "--to", ".", "--in-place", "--delete", "--json"]);
    let output = command.current_dir(&new).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&id), "{output:?}");
    assert_eq!(fs::read(new.join("file")).unwrap(), b"one");
}

#[test]
fn nothing_is_restored_over_another_folder_in_a_workspaces_place_unless_that_is_meant() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let work = ended(scratch, workspace);
    let id =
        work.scratch.summary(&["checkpoint", "show", &format!("{}@latest", work.session)])["id"].as_str().unwrap().to_owned();
    let aside = work.scratch.path("aside");
    fs::rename(&work.workspace, &aside).unwrap();
    write(&work.workspace.join("other"), b"something else").unwrap();
    let restore = ["checkpoint", "restore", &id, "--to", &text(&work.workspace), "--in-place", "--delete"];
    for more in [&["-n"][..], &[], &["--no-safety"]] {
        let said = work.scratch.expect(4, &[&restore[..], more].concat());
        assert!(said.contains("is another folder than session") && said.contains(&text(&aside)), "{said}");
        assert!(said.contains("--other-folder"), "{said}");
    }
    assert_eq!(fs::read(work.workspace.join("other")).unwrap(), b"something else");
    let done = work.scratch.summary(&[&restore[..], &["--other-folder"]].concat());
    let safety = done["safeties"][0]["id"].as_str().unwrap();
    assert_eq!(work.scratch.expect(0, &["checkpoint", "cat", &format!("{safety}:other")]), "something else");
    assert!(!work.workspace.join("other").exists());
    // One that was made anew where the old one is gone for good is only told.
    let second = Scratch::new();
    let folder = second.path("work");
    write(&folder.join("file"), b"one").unwrap();
    let id = second.create("s", &folder);
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(second.path("takes the inode number, maybe")).unwrap();
    write(&folder.join("other"), b"since").unwrap();
    let restore = ["checkpoint", "restore", &id, "--to", &text(&folder), "--in-place", "--delete"];
    for more in [&["-n"][..], &[]] {
        let said = second.expect(0, &[&restore[..], more].concat());
        assert!(said.contains("is another folder than at the last checkpoint of session s"), "{said}");
    }
}

#[test]
fn another_folder_at_the_old_place_is_not_taken_for_a_workspace_that_was_moved() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let work = ended(scratch, workspace);
    let aside = work.scratch.path("aside");
    fs::rename(&work.workspace, &aside).unwrap();
    write(&work.workspace.join("other"), b"something else").unwrap();
    for said in [work.resume(4, &[]), work.rollback(4, &[])] {
        assert!(said.contains("is another folder now") && said.contains(&text(&aside)), "{said}");
    }
    assert_eq!(fs::read(work.workspace.join("other")).unwrap(), b"something else");
    assert_eq!(fs::read(aside.join("src/file")).unwrap(), b"worked on");
    work.resume(0, &["--recreate-workspace"]);
}

#[test]
fn another_folder_in_a_workspaces_place_is_captured_and_said_and_stays_another_one() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let work = ended(scratch, workspace);
    let aside = work.scratch.path("aside");
    fs::rename(&work.workspace, &aside).unwrap();
    write(&work.workspace.join("other"), b"something else").unwrap();
    let warning = format!("is another folder than session {} works in; that one is {} by now", work.session, text(&aside));
    let said = work.create(0);
    assert!(said.contains(&warning) && said.contains(&format!("session move {}", work.session)), "{said}");
    // It is no `latest`, and can be had by its id.
    let latest = work.scratch.summary(&["checkpoint", "show", &format!("{}@latest", work.session)]);
    assert_eq!(latest["id"], json!(work.checkpoint));
    assert_eq!(work.scratch.expect(0, &["checkpoint", "cat", &format!("{}:other", newest(&work.scratch))]), "something else");
    for verb in [&["session", "list"][..], &["session", "show", &work.session], &["session", "show", &work.session, "--json"]] {
        let shown = work.scratch.expect(0, verb);
        assert!(shown.contains(&warning), "{shown}");
    }
    // It is still no place for the session.
    for said in [work.resume(4, &[]), work.rollback(4, &[])] {
        assert!(said.contains("is another folder now"), "{said}");
    }
    // Once the session's own is gone for good, this one is it; that is said once.
    fs::remove_dir_all(&aside).unwrap();
    let anew = format!("is another folder than at the last checkpoint of session {}", work.session);
    assert!(work.create(0).contains(&anew));
    let said = work.create(0);
    assert!(!said.contains("another folder"), "{said}");
    work.resume(0, &[]);
    assert!(!work.scratch.expect(0, &["session", "list"]).contains("another folder"));
}

#[test]
fn whoever_says_that_a_session_goes_on_in_the_folder_in_its_place_has_said_it_for_good() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let work = ended(scratch, workspace);
    fs::rename(&work.workspace, work.scratch.path("aside")).unwrap();
    write(&work.workspace.join("other"), b"something else").unwrap();
    work.resume(0, &["--recreate-workspace"]);
    let said = format!("{}{}", work.create(0), work.resume(0, &[]));
    assert!(!said.contains("another folder"), "{said}");
    // One that was deleted, and that resuming has made again, is none that needs to be spoken of.
    fs::remove_dir_all(&work.workspace).unwrap();
    work.resume(0, &[]);
    assert!(!work.create(0).contains("another folder"));
}

#[test]
fn what_is_captured_beside_an_agent_whose_folder_was_replaced_is_said() {
    let scratch = Scratch::new();
    let old = scratch.path("work");
    write(&old.join("file"), b"before").unwrap();
    let mut run = scratch.command(&["session", "run", "--name", "s", "--workspace", &text(&old), "--", "sleep", "600"]);
    let run = run.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait(|| String::from_utf8_lossy(&scratch.run(&["session", "show", "s", "--json"]).stdout).contains("\"live\"").then_some(()));
    fs::rename(&old, scratch.path("aside")).unwrap();
    write(&old.join("other"), b"something else").unwrap();
    system("kill", &["-TERM", &run.id().to_string()]);
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is another folder than session") && said.contains("/aside by now"), "{said}");
    assert!(scratch.expect(0, &["checkpoint", "ls", &newest(&scratch)]).contains("other"));
}

#[test]
fn a_workspace_in_which_nothing_was_made_yet_is_no_lost_one() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    fs::create_dir(&workspace).unwrap();
    scratch.expect(0, &["session", "run", "--name", "new", "--workspace", &text(&workspace), "--", "true"]);
    let said = scratch.expect(0, &["session", "resume", "new", "--yes"]);
    assert!(!said.contains("gone") && !said.contains("restored"), "{said}");
}
