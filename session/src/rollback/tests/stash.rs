//! Stash entries in real repositories.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::super::stash::{Stash, drop_entry, make};
use crate::testing::PROCESS;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A repository with two commits' worth of files.
    fn new() -> Self {
        let place = Place::empty();
        place.write(&[("changed", "1"), ("staged", "1"), ("gone", "1"), ("kept", "1")]);
        place.git(&["add", "-A"]);
        place.git(&["commit", "-m", "first"]);
        place
    }

    fn empty() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path()).unwrap();
        place.git(&["init"]);
        for (name, value) in [("user.name", "somebody"), ("user.email", "somebody@example.org")] {
            place.git(&["config", name, value]);
        }
        place
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    fn cache(&self) -> PathBuf {
        let cache = self.folder.path().join("cache");
        fs::create_dir_all(&cache).unwrap();
        cache
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (name, content) in files {
            fs::write(self.path().join(name), content).unwrap();
        }
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").current_dir(self.path()).args(arguments);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
    }

    fn make(&self, message: &str) -> Stash {
        make(&PROCESS, &self.path(), message, &self.cache())
    }

    fn made(&self, message: &str) -> String {
        match self.make(message) {
            Stash::Made(commit) => commit,
            other => panic!("{other:?}"),
        }
    }

    fn entries(&self) -> Vec<String> {
        self.git(&["stash", "list", "--format=%H %gs"]).lines().map(str::to_owned).collect()
    }
}

#[test]
fn changes_of_tracked_files_become_an_entry_and_nothing_else_changes() {
    let place = Place::new();
    place.write(&[("changed", "2"), ("staged", "2"), ("untracked", "2")]);
    place.git(&["add", "staged"]);
    fs::remove_file(place.path().join("gone")).unwrap();
    let status = place.git(&["--no-optional-locks", "status", "--porcelain"]);
    let of_git = |name: &str| fs::read(place.path().join(".git").join(name)).unwrap();
    let before = ["HEAD", "index"].map(of_git);
    let commit = place.made("before it");
    assert_eq!(["HEAD", "index"].map(of_git), before);
    assert_eq!(place.git(&["status", "--porcelain"]), status);
    assert_eq!(place.entries(), [format!("{commit} before it")]);
    let files = |commit: &str| place.git(&["ls-tree", "-r", "--name-only", commit]).lines().collect::<Vec<_>>().join(" ");
    let read = |path: &str| place.git(&["show", &format!("{commit}{path}")]);
    assert_eq!((read(":changed"), read(":staged"), files(&commit)), ("2".into(), "2".into(), "changed kept staged".into()));
    let index = format!("{commit}^2");
    assert_eq!(
        (read("^2:changed"), read("^2:staged"), files(&index)),
        ("1".into(), "2".into(), "changed gone kept staged".into())
    );
    assert_eq!(place.git(&["rev-parse", &format!("{commit}^1")]), place.git(&["rev-parse", "HEAD"]));
    assert_eq!(place.git(&["log", "-1", "--format=%an %ae %cn", &commit]), "somebody somebody@example.org somebody");
}

#[test]
fn what_is_staged_alone_is_kept_too_and_a_moved_time_is_no_change() {
    let place = Place::new();
    let file = fs::File::options().append(true).open(place.path().join("kept")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    place.write(&[("untracked", "2")]);
    assert_eq!((place.make("nothing"), place.entries()), (Stash::Nothing, Vec::new()));
    // In the file it is as it was before.
    place.write(&[("staged", "2")]);
    place.git(&["add", "staged"]);
    place.write(&[("staged", "1")]);
    let commit = place.made("staged");
    let read = |path: &str| place.git(&["show", &format!("{commit}{path}")]);
    assert_eq!((read("^2:staged"), read(":staged")), ("2".into(), "1".into()));
}

#[test]
fn a_file_that_was_changed_at_the_very_time_of_the_index_is_in_the_entry() {
    let place = Place::new();
    let stamp = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    let at_that_time =
        |path: &str| fs::File::options().append(true).open(place.path().join(path)).unwrap().set_modified(stamp).unwrap();
    // The stamps of a change that nobody sets lie a tick apart at least.
    place.git(&["config", "core.trustctime", "false"]);
    at_that_time("changed");
    place.git(&["update-index", "--refresh"]);
    place.write(&[("changed", "2")]);
    at_that_time("changed");
    at_that_time(".git/index");
    let commit = place.made("before it");
    assert_eq!(place.git(&["show", &format!("{commit}:changed")]), "2");
}

#[test]
fn whoever_has_no_name_has_an_entry_too() {
    let place = Place::new();
    place.git(&["config", "--unset", "user.name"]);
    place.git(&["config", "--unset", "user.email"]);
    place.write(&[("changed", "2")]);
    let commit = place.made("before it");
    // The user of these tests may have one.
    let known = Command::new("git").args(["config", "--get", "user.name"]).current_dir(place.path()).output().unwrap().stdout;
    let expected = if known.is_empty() { "parhelia".to_owned() } else { String::from_utf8(known).unwrap().trim_end().to_owned() };
    assert_eq!(place.git(&["log", "-1", "--format=%an", &commit]), expected);
}

#[test]
fn where_no_entry_can_be_made_the_reason_is_told() {
    let not = |place: &Place, reason: &str| match make(&PROCESS, &place.path(), "m", &place.cache()) {
        Stash::Not(why) => assert!(why.contains(reason), "{why}"),
        other => panic!("{other:?} in place of {reason}"),
    };
    let place = Place::empty();
    place.write(&[("file", "1")]);
    not(&place, "the repository has no commit yet");
    // A folder of a repository that is larger, and one that is in none.
    let inner = place.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let within = format!("inside the repository {}", place.path().display());
    assert!(matches!(make(&PROCESS, &inner, "m", &place.cache()), Stash::Not(why) if why.contains(&within)));
    assert_eq!(make(&PROCESS, place.folder.path(), "m", &place.cache()), Stash::Nothing);
    // A filter's program is not run, and without it the content would be another one.
    let place = Place::new();
    let attributes = "changed filter=large\nstaged -filter\nkept filter=large\ngone filter\n";
    place.write(&[(".git/info/attributes", attributes), ("staged", "2"), ("gone", "2")]);
    place.made("of files without a filter");
    place.write(&[("changed", "2")]);
    not(&place, "changed has a filter");
    assert_eq!(place.entries().len(), 1);
}

#[test]
fn only_the_entry_that_is_named_is_dropped() {
    let place = Place::new();
    let make = |content: &str| {
        place.write(&[("changed", content)]);
        place.made(content)
    };
    let [oldest, middle, newest] = ["a", "b", "c"].map(make);
    let drop_entry = |commit: &str| drop_entry(&PROCESS, &place.path(), commit, &place.cache()).unwrap();
    let left = || place.entries().iter().map(|entry| entry.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
    drop_entry(&middle);
    assert_eq!(left(), [newest.clone(), oldest.clone()]);
    // It is gone already.
    drop_entry(&middle);
    assert_eq!(left(), [newest, oldest.clone()]);
    drop_entry(&oldest);
    assert_eq!(left().len(), 1);
    super::super::stash::drop_entry(&PROCESS, Path::new("/"), &oldest, &place.cache()).unwrap();
}

#[test]
fn a_copy_of_a_linked_worktree_leaves_the_stash_of_the_original_alone() {
    let place = Place::new();
    let (linked, copy) = (place.folder.path().join("linked"), place.folder.path().join("copy"));
    place.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    fs::create_dir(&copy).unwrap();
    for name in [".git", "changed", "staged", "gone", "kept"] {
        fs::copy(linked.join(name), copy.join(name)).unwrap();
    }
    for folder in [&linked, &copy] {
        fs::write(folder.join("changed"), "2").unwrap();
    }
    assert!(matches!(make(&PROCESS, &copy, "m", &place.cache()), Stash::Not(why) if why.contains("linked")));
    assert_eq!(place.git(&["stash", "list"]), "");
    assert!(matches!(make(&PROCESS, &linked, "m", &place.cache()), Stash::Made(_)));
    // One that was moved, which git has not been told, is still itself.
    let moved = place.folder.path().join("moved");
    fs::rename(&linked, &moved).unwrap();
    fs::write(moved.join("changed"), "3").unwrap();
    assert!(matches!(make(&PROCESS, &moved, "m", &place.cache()), Stash::Made(_)));
}
