//! Meaning of `latest` in a folder, and the rules that keep one folder's checkpoints from overwriting another one's work.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parhelia_host::intent::held;
use parhelia_store::OpenOptions;
use parhelia_tests::{Scratch, files_in, live::wait, user::User, write};
use serde_json::Value;

/// Two folders with a session each, `a` captured before `b`.
struct Two {
    scratch: Scratch,
    a: PathBuf,
    b: PathBuf,
    of_a: String,
    of_b: String,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Two {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (a, b) = (scratch.path("a"), scratch.path("b"));
        write(&a.join("work"), b"of a").unwrap();
        write(&a.join("sub/deep"), b"of a, too").unwrap();
        write(&b.join("work"), b"of b").unwrap();
        write(&b.join("other"), b"of b alone").unwrap();
        let (of_a, of_b) = (scratch.create("a", &a), scratch.create("b", &b));
        Two { scratch, a, b, of_a, of_b }
    }

    fn in_folder(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(arguments);
        command.current_dir(folder);
        command
    }

    /// Runs a command line in a folder; it must exit with `code`. Returns what it printed, standard error behind standard output.
    #[track_caller]
    fn expect(&self, folder: &Path, code: i32, arguments: &[&str]) -> String {
        let output = self.in_folder(folder, arguments).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// The summary of a command line in a folder.
    #[track_caller]
    fn summary(&self, folder: &Path, arguments: &[&str]) -> Value {
        let output = self.in_folder(folder, &[arguments, &["--json"]].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(said.lines().last().unwrap()).unwrap()
    }

    #[track_caller]
    fn shown(&self, folder: &Path, selector: &str) -> String {
        self.summary(folder, &["checkpoint", "show", selector])["id"].as_str().unwrap().to_owned()
    }

    fn trigger_details(&self) -> Vec<String> {
        let list = self.scratch.expect(0, &["checkpoint", "list", "--json"]);
        let lines = list.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line["trigger_detail"].as_str().map(str::to_owned)).collect()
    }
}

const IN_PLACE: [&str; 6] = ["checkpoint", "restore", "latest", "--to", ".", "--in-place"];

#[test]
fn latest_is_that_of_the_folder_in_which_it_is_said() {
    let two = Two::new();
    let elsewhere = two.scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let newer = two.scratch.create("a", &two.a);
    for (folder, newest) in [(&two.a, &newer), (&two.b, &two.of_b), (&two.a.join("sub"), &newer)] {
        assert_eq!(two.shown(folder, "latest"), *newest, "{}", folder.display());
    }
    assert_eq!(two.shown(&two.a, "latest~1"), two.of_a);
    two.expect(&two.b, 10, &["checkpoint", "show", "latest~1"]);
    // Where no session works, whoever only reads gets the newest of all.
    assert_eq!(two.shown(&elsewhere, "latest"), newer);
    // A symlink is no other folder.
    let link = two.scratch.path("link");
    std::os::unix::fs::symlink(&two.b, &link).unwrap();
    assert_eq!(two.shown(&link, "latest"), two.of_b);
    // The nearest folder above counts, and a session of a folder below is none of it.
    let below = two.scratch.create("below", &two.a.join("sub"));
    assert_eq!((two.shown(&two.a.join("sub"), "latest"), two.shown(&two.a, "latest")), (below, newer));
    assert_eq!(two.expect(&two.b, 0, &["checkpoint", "cat", "latest:work"]), "of b");
}

#[test]
fn a_checkpoint_of_a_subfolder_does_not_keep_it_from_going_back_with_the_whole() {
    let two = Two::new();
    let (sub, deep) = (two.a.join("sub"), two.a.join("sub/deep"));
    let said = two.expect(&sub, 0, &["checkpoint", "create"]);
    assert!(said.contains("alone is captured") && said.contains(&format!("--workspace {}", text(&two.a))), "{said}");
    assert!(!two.expect(&sub, 0, &["checkpoint", "create"]).contains("alone is captured"), "said once");
    for verb in
        [&["checkpoint", "rollback", &two.of_a, "--yes"][..], &["checkpoint", "restore", &two.of_a, "--to", ".", "--in-place"]]
    {
        write(&deep, b"edited").unwrap();
        let said = two.expect(&two.a, 0, verb);
        assert_eq!(fs::read(&deep).unwrap(), b"of a, too", "{verb:?}: {said}");
    }
    // A folder that the checkpoint does not have may exist nowhere else.
    let later = two.a.join("later");
    write(&later.join("f"), b"exists nowhere else").unwrap();
    two.expect(&later, 0, &["checkpoint", "create"]);
    let said = two.expect(&two.a, 0, &["checkpoint", "rollback", &two.of_a, "--yes"]);
    assert!(said.contains("later: session") && later.join("f").exists(), "{said}");
}

#[test]
fn a_restore_in_place_of_latest_is_of_its_own_folder() {
    let two = Two::new();
    write(&two.a.join("work"), b"edited").unwrap();
    write(&two.a.join("new"), b"made later").unwrap();
    let said = two.expect(&two.a, 0, &[&IN_PLACE[..], &["--delete"]].concat());
    assert!(said.contains(&two.of_a), "{said}");
    assert_eq!(fs::read(two.a.join("work")).unwrap(), b"of a");
    assert!(!two.a.join("new").exists() && !two.a.join("other").exists());
}

#[test]
fn latest_overwrites_and_deletes_nothing_where_no_session_works() {
    let two = Two::new();
    let elsewhere = two.scratch.path("elsewhere");
    write(&elsewhere.join("work"), b"of nobody").unwrap();
    let before = files_in(&elsewhere);
    let said = two.expect(&elsewhere, 4, &[&IN_PLACE[..], &["--delete"]].concat());
    assert!(said.contains(&text(&elsewhere)) && said.contains("b@latest") && said.contains(&text(&two.b)), "{said}");
    two.expect(&elsewhere, 4, &["checkpoint", "delete", "latest"]);
    assert_eq!(files_in(&elsewhere), before);
    // The folder that is changed says which is meant, wherever the command is given.
    write(&two.a.join("work"), b"edited").unwrap();
    two.expect(&elsewhere, 0, &["checkpoint", "restore", "latest", "--to", &text(&two.a), "--in-place"]);
    assert_eq!(fs::read(two.a.join("work")).unwrap(), b"of a");
    let named = ["checkpoint", "restore", "b@latest", "--to", ".", "--in-place"];
    assert!(two.expect(&elsewhere, 4, &named).contains("--other-folder"));
    assert_eq!(files_in(&elsewhere), before);
    two.expect(&elsewhere, 0, &[&named[..], &["--other-folder"]].concat());
    assert_eq!(fs::read(elsewhere.join("other")).unwrap(), b"of b alone");
}

#[test]
fn rollback_of_latest_leaves_other_folders_alone() {
    let two = Two::new();
    write(&two.b.join("work"), b"edited").unwrap();
    let elsewhere = two.scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let said = two.expect(&elsewhere, 4, &["checkpoint", "rollback", "latest", "--yes"]);
    assert!(said.contains("b@latest") && said.contains(&text(&two.b)), "{said}");
    write(&two.a.join("work"), b"edited in a").unwrap();
    let said = two.expect(&two.a, 0, &["checkpoint", "rollback", "latest", "--yes"]);
    assert!(said.contains(&text(&two.a)), "{said}");
    assert_eq!(
        (fs::read(two.a.join("work")).unwrap(), fs::read(two.b.join("work")).unwrap()),
        (b"of a".into(), b"edited".into())
    );
    // Named, it may be rolled back from anywhere.
    two.expect(&elsewhere, 0, &["checkpoint", "rollback", "b@latest", "--yes"]);
    assert_eq!(fs::read(two.b.join("work")).unwrap(), b"of b");
}

#[test]
fn undo_is_of_the_folder_in_which_it_is_said() {
    let two = Two::new();
    for (folder, content) in [(&two.a, "first in a"), (&two.b, "then in b")] {
        write(&folder.join("work"), content.as_bytes()).unwrap();
        two.expect(folder, 0, &["checkpoint", "rollback", "latest", "--yes"]);
    }
    two.expect(&two.a, 0, &["checkpoint", "undo", "--yes"]);
    assert_eq!(
        (fs::read(two.a.join("work")).unwrap(), fs::read(two.b.join("work")).unwrap()),
        (b"first in a".into(), b"of b".into())
    );
    let elsewhere = two.scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let said = two.expect(&elsewhere, 4, &["checkpoint", "undo", "--yes"]);
    assert!(said.contains("checkpoint undo a") && said.contains(&text(&two.a)), "{said}");
    assert_eq!(fs::read(two.b.join("work")).unwrap(), b"of b");
}

/// Two sessions of one folder are rolled back one after the other, while the clock goes back.
#[test]
fn undo_goes_by_the_order_of_commits_and_not_by_the_clock() {
    let two = Two::new();
    let second = two.scratch.create("second", &two.a);
    write(&two.a.join("work"), b"one").unwrap();
    two.expect(&two.a, 0, &["checkpoint", "rollback", &two.of_a, "--yes"]);
    write(&two.a.join("work"), b"two").unwrap();
    let mut rollback = two.scratch.command_at("-1d", &["checkpoint", "rollback", &second, "--yes"]);
    let output = rollback.current_dir(&two.a).output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let undone = two.summary(&two.a, &["checkpoint", "undo", "--yes"]);
    assert_eq!(undone["session"], "second");
    assert_eq!(fs::read(two.a.join("work")).unwrap(), b"two");
}

#[test]
fn another_folders_checkpoint_overwrites_a_sessions_folder_by_its_flag_alone() {
    let two = Two::new();
    let before = files_in(&two.a);
    let to = text(&two.a);
    let restore = ["checkpoint", "restore", &two.of_b, "--to", &to, "--in-place", "--delete"];
    for more in [&[][..], &["-n"], &["--no-safety"]] {
        let said = two.expect(&two.a, 4, &[&restore[..], more].concat());
        assert!(said.contains(&to) && said.contains(&text(&two.b)) && said.contains("--other-folder"), "{said}");
        assert!(said.contains("a@latest") && said.contains("session b"), "{said}");
    }
    // What `latest` is in one folder is not meant for another one.
    let latest = ["checkpoint", "restore", "latest", "--to", &to, "--in-place"];
    two.expect(&two.b, 4, &latest);
    assert_eq!(files_in(&two.a), before);
    // A folder around it is not changed without that either.
    let around = text(two.a.parent().unwrap());
    let work = two.scratch.path("work");
    write(&work.join("a/work"), b"of another a").unwrap();
    let other = two.scratch.create("around", &work);
    let around_it = ["checkpoint", "restore", &other, "--to", &around, "--in-place"];
    two.expect(&work, 4, &around_it);
    assert_eq!(files_in(&two.a), before);
    let done = two.summary(&work, &[&around_it[..], &["--other-folder"]].concat());
    assert_eq!(fs::read(two.a.join("work")).unwrap(), b"of another a");
    let safety = done["safety"].as_str().unwrap();
    assert_eq!(two.scratch.expect(0, &["checkpoint", "cat", &format!("{safety}:work")]), "of a");
    // Where nothing is overwritten, nothing is refused.
    fs::remove_file(two.a.join("work")).unwrap();
    two.expect(&two.a, 0, &["checkpoint", "restore", &two.of_b, "--to", &to, "--in-place"]);
    assert_eq!(fs::read(two.a.join("other")).unwrap(), b"of b alone");
    let done = two.summary(&two.a, &[&restore[..], &["--other-folder"]].concat());
    assert_eq!(files_in(&two.a), files_in(&two.b));
    assert_eq!(done["safeties"][0]["session"], "a");
}

#[test]
fn what_a_restore_in_place_overwrites_is_in_its_safety_checkpoint() {
    let two = Two::new();
    // What rules leave out is overwritten all the same, when it came later.
    write(&two.a.join("package.json"), b"{}").unwrap();
    write(&two.a.join("node_modules/x/index.js"), b"fetched").unwrap();
    write(&two.a.join("work"), b"edited").unwrap();
    fs::remove_dir_all(two.a.join("sub")).unwrap();
    write(&two.a.join("sub"), b"a file by now").unwrap();
    let before = files_in(&two.a);
    let to = text(&two.a);
    let done = two.summary(&two.a, &["checkpoint", "restore", &two.of_a, "--to", &to, "--in-place", "--delete"]);
    let safeties: Vec<&str> = done["safeties"].as_array().unwrap().iter().map(|safety| safety["id"].as_str().unwrap()).collect();
    assert_eq!((safeties.len(), done["safety"].as_str().unwrap()), (2, safeties[0]));
    assert_eq!(two.trigger_details(), ["safety", "safety"]);
    assert!(!two.a.join("node_modules").exists());
    assert_eq!(fs::read(two.a.join("sub/deep")).unwrap(), b"of a, too");
    // Neither of them is what is meant by the latest.
    assert_eq!((two.shown(&two.a, "latest"), two.shown(&two.b, "a@latest")), (two.of_a.clone(), two.of_a.clone()));
    // Back as it is said.
    let back = ["checkpoint", "restore", safeties[0], "--to", &to, "--in-place", "--delete", "--no-safety"];
    two.expect(&two.a, 0, &back);
    two.expect(&two.a, 0, &["checkpoint", "restore", safeties[1], "--to", &to, "--in-place", "--no-safety"]);
    assert_eq!(files_in(&two.a), before);
}

#[test]
fn a_safety_checkpoint_is_made_where_something_is_overwritten_and_nowhere_else() {
    let two = Two::new();
    let to = text(&two.a);
    let restore = ["checkpoint", "restore", &two.of_a, "--to", &to, "--in-place", "--delete"];
    let safety = |more: &[&str]| two.summary(&two.a, &[&restore[..], more].concat())["safety"].clone();
    // Nothing differs, or only the time of a folder.
    assert_eq!(safety(&[]), Value::Null);
    assert!(Command::new("touch").args(["-d", "2020-01-01"]).args([&two.a, &two.a.join("sub")]).status().unwrap().success());
    assert_eq!(safety(&[]), Value::Null);
    // What is missing is made again.
    fs::remove_file(two.a.join("work")).unwrap();
    assert_eq!(safety(&[]), Value::Null);
    assert_eq!(two.trigger_details(), Vec::<String>::new());
    write(&two.a.join("work"), b"edited").unwrap();
    let planned = two.expect(&two.a, 0, &[&restore[..], &["-n"]].concat());
    assert!(planned.contains(&format!("Would first make a safety checkpoint of {to} (session a)")), "{planned}");
    assert_eq!(safety(&["--no-safety"]), Value::Null);
    assert_eq!(two.trigger_details(), Vec::<String>::new());
    // One file of it, below the folder.
    write(&two.a.join("sub/deep"), b"edited").unwrap();
    let file = format!("{}:sub/deep", two.of_a);
    let one = two.summary(&two.a, &["checkpoint", "restore", &file, "--to", &text(&two.a.join("sub")), "--in-place"]);
    assert_eq!(two.scratch.expect(0, &["checkpoint", "cat", &format!("{}:sub/deep", one["safety"].as_str().unwrap())]), "edited");
    write(&two.a.join("sub/deep"), b"edited again").unwrap();
    let sub = two.summary(
        &two.a,
        &["checkpoint", "restore", &format!("{}:sub", two.of_a), "--to", &text(&two.a.join("sub")), "--in-place"],
    );
    let kept = two.scratch.expect(0, &["checkpoint", "cat", &format!("{}:sub/deep", sub["safety"].as_str().unwrap())]);
    assert_eq!(kept, "edited again");
    // A folder in which nobody works.
    let copy = two.scratch.path("copy");
    two.scratch.restore(&two.of_a, &copy);
    write(&copy.join("work"), b"edited").unwrap();
    let elsewhere =
        two.summary(&copy, &["checkpoint", "restore", &two.of_a, "--to", &text(&copy), "--in-place", "--other-folder"]);
    assert_eq!(elsewhere["safety"], Value::Null);
}

#[test]
fn what_cannot_be_read_is_not_overwritten_without_a_word() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("file"), b"first").unwrap();
    let user = User::owning(&s, &[&work]);
    let first = user.create("s", &work, &[]);
    write(&work.join("locked"), b"made later").unwrap();
    fs::set_permissions(work.join("locked"), Permissions::from_mode(0o000)).unwrap();
    User::owning(&s, &[&work]);
    let to = text(&work);
    let restore = ["checkpoint", "restore", &first, "--to", &to, "--in-place", "--delete"];
    let refused = user.run(&restore);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("locked: ") && said.contains("--no-safety"), "{said}");
    assert!(work.join("locked").exists());
    user.expect(&[&restore[..], &["--no-safety"]].concat());
    assert!(!work.join("locked").exists());
}

#[test]
fn lists_of_several_folders_name_them() {
    let two = Two::new();
    let listed = two.scratch.expect(0, &["checkpoint", "list"]);
    assert!(listed.contains("WORKSPACE") && listed.contains(&text(&two.a)) && listed.contains(&text(&two.b)), "{listed}");
    let of_one = two.scratch.expect(0, &["checkpoint", "list", "a"]);
    assert!(!of_one.contains("WORKSPACE") && !of_one.contains(&text(&two.a)), "{of_one}");
}

#[test]
fn create_names_the_folder_before_it_is_captured() {
    let two = Two::new();
    let said = two.expect(&two.a, 0, &["checkpoint", "create", "plain"]);
    let note = format!("{} is captured, as the new session plain", text(&two.a));
    assert!(said.contains(&note) && !said.contains("--workspace"), "{said}");
    let said = two.expect(&two.a, 0, &["checkpoint", "create", "sub", "--workspace", "."]);
    assert!(said.contains(&format!("of {} created (session sub)", text(&two.a))), "{said}");
    assert!(!said.contains("is captured"), "{said}");
    // By now, either may be meant.
    let said = two.expect(&two.a, 2, &["checkpoint", "create", "sub"]);
    assert!(said.contains("`parhelia checkpoint create ./sub`") && said.contains("create sub --workspace ."), "{said}");
    for named in ["./sub", "sub/"] {
        let summary = two.summary(&two.a, &["checkpoint", "create", named]);
        assert_eq!(summary["workspace"], text(&two.a.join("sub")));
    }
    // Into a pipe, standard output has the result alone.
    let output = two.in_folder(&two.a, &["checkpoint", "create", "plain"]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("Checkpoint 0") && !out.contains("──") && output.stderr.is_empty(), "{out}");
}

#[test]
fn latest_is_not_put_whole_into_a_folder_of_its_workspace() {
    let two = Two::new();
    let sub = two.a.join("sub");
    fs::write(sub.join("deep"), "changed").unwrap();
    let in_place = ["--to", ".", "--in-place", "--delete"];
    let said = two.expect(&sub, 4, &[&["checkpoint", "restore", "latest"], &in_place[..]].concat());
    assert!(said.contains("latest:sub"), "{said}");
    assert_eq!(fs::read(sub.join("deep")).unwrap(), b"changed");
    two.expect(&sub, 0, &[&["checkpoint", "restore", "latest:sub"], &in_place[..]].concat());
    assert_eq!(fs::read(sub.join("deep")).unwrap(), b"of a, too");
}

#[test]
fn what_changes_while_the_turn_is_waited_for_is_restored_as_well() {
    let two = Two::new();
    fs::write(two.a.join("work"), "changed").unwrap();
    let store = parhelia_ledger::open(&two.scratch.store(), &OpenOptions::default()).unwrap();
    let turn = held(&store, "a", &()).unwrap();
    let to = text(&two.a);
    let mut restore = two.in_folder(&two.a, &["checkpoint", "restore", &two.of_a, "--to", &to, "--in-place", "--delete"]);
    let child = restore.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let open = format!("/proc/{}/fd", child.id());
    let waits = |path: PathBuf| path.parent().is_some_and(|folder| folder.ends_with("turns"));
    wait(|| {
        let files = fs::read_dir(&open).into_iter().flatten().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        files.into_iter().any(waits).then_some(())
    });
    fs::write(two.a.join("sub/deep"), "changed meanwhile").unwrap();
    fs::write(two.a.join("new"), "made meanwhile").unwrap();
    drop(turn);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(two.a.join("sub/deep")).unwrap(), b"of a, too");
    assert!(!two.a.join("new").exists() && fs::read(two.a.join("work")).unwrap() == b"of a");
}
