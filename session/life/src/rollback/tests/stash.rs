//! Stash entries in real repositories.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::super::stash::{Stash, drop_entry, make};
use parhelia_session_testing::PROCESS;

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

/// What a place in the repository's folder holds that leads out of it.
fn outside(place: &Place) -> PathBuf {
    let outside = place.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), "theirs").unwrap();
    outside
}

/// The entries of a folder, and the content of its file.
fn found(outside: &Path) -> (Vec<String>, String) {
    let names = fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    (names.collect(), fs::read_to_string(outside.join("file")).unwrap())
}

#[test]
fn nothing_is_written_through_a_link_in_the_repository() {
    let file_links = ["logs/refs/stash", "refs/stash", "refs/stash.lock"];
    let folder_links = ["logs", "logs/refs", "refs", "objects"];
    let targets = file_links.map(|name| (name, "file")).into_iter().chain(folder_links.map(|name| (name, "")));
    for (name, target) in targets {
        let place = Place::new();
        let outside = outside(&place);
        place.write(&[("changed", "2")]);
        let git = place.path().join(".git");
        fs::create_dir_all(git.join("logs/refs")).unwrap();
        let at = git.join(name);
        match name {
            // Git itself needs these to be what they were.
            "refs" | "objects" => {
                fs::rename(&at, outside.join(name)).unwrap();
                std::os::unix::fs::symlink(outside.join(name), &at).unwrap();
            }
            _ => {
                let _ = fs::remove_file(&at).or_else(|_| fs::remove_dir_all(&at));
                std::os::unix::fs::symlink(outside.join(target), &at).unwrap();
            }
        }
        let before = (found(&outside), fs::read_dir(outside.join("refs")).map(Iterator::count).ok());
        assert!(matches!(place.make("m"), Stash::Not(_)), "{name}");
        assert_eq!((found(&outside), fs::read_dir(outside.join("refs")).map(Iterator::count).ok()), before, "{name}");
        let left = fs::read_dir(git.join("objects")).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        assert!(!left.into_iter().any(|name| name.starts_with("tmp_")), "{name}");
    }
    // Folders of single objects, of which git makes those that are missing.
    let place = Place::new();
    let outside = outside(&place);
    for first in 0..=255 {
        let at = place.path().join(format!(".git/objects/{first:02x}"));
        if !at.exists() {
            std::os::unix::fs::symlink(&outside, at).unwrap();
        }
    }
    place.write(&[("changed", "2")]);
    assert!(matches!(place.make("m"), Stash::Not(why) if why.contains("link")));
    assert_eq!(found(&outside), (vec!["file".to_owned()], "theirs".to_owned()));
}

#[test]
fn a_file_with_another_name_is_not_appended_to() {
    let place = Place::new();
    let outside = outside(&place);
    place.write(&[("changed", "2")]);
    fs::create_dir_all(place.path().join(".git/logs/refs")).unwrap();
    fs::hard_link(outside.join("file"), place.path().join(".git/logs/refs/stash")).unwrap();
    assert!(matches!(place.make("m"), Stash::Not(why) if why.contains("another name")));
    assert_eq!(found(&outside).1, "theirs");
}

#[test]
fn a_git_folder_of_another_repository_is_left_alone() {
    let (other, place) = (Place::new(), Place::new());
    let git = place.path().join(".git");
    let not = |why: &str| match place.make("m") {
        Stash::Not(said) => assert!(said.contains(why), "{said}"),
        made => panic!("{made:?} in place of {why}"),
    };
    place.write(&[("changed", "2")]);
    fs::rename(&git, place.folder.path().join("aside")).unwrap();
    std::os::unix::fs::symlink(other.path().join(".git"), &git).unwrap();
    not("symbolic link");
    fs::remove_file(&git).unwrap();
    fs::write(&git, format!("gitdir: {}\n", other.path().join(".git").display())).unwrap();
    not("another repository's");
    fs::remove_file(&git).unwrap();
    fs::rename(place.folder.path().join("aside"), &git).unwrap();
    fs::write(git.join("commondir"), format!("{}\n", other.path().join(".git").display())).unwrap();
    not("no worktree");
    assert_eq!(other.entries(), Vec::<String>::new());
    // One whose folder lies elsewhere, and is no other's.
    fs::remove_file(git.join("commondir")).unwrap();
    fs::rename(&git, place.folder.path().join("elsewhere")).unwrap();
    fs::write(&git, "gitdir: ../elsewhere\n").unwrap();
    place.made("m");
    assert_eq!(place.entries().len(), 1);
}

#[test]
fn an_entry_is_made_behind_others_of_git_and_taken_from_between_them() {
    for arguments in [&["init"][..], &["init", "--ref-format=reftable"], &["init", "--object-format=sha256"]] {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path()).unwrap();
        place.git(arguments);
        for (name, value) in [("user.name", "somebody"), ("user.email", "somebody@example.org")] {
            place.git(&["config", name, value]);
        }
        place.write(&[("changed", "1")]);
        place.git(&["add", "-A"]);
        place.git(&["commit", "-m", "first"]);
        let own = |content: &str| {
            place.write(&[("changed", content)]);
            place.git(&["stash", "push", "-m", content]);
        };
        own("a");
        if arguments.len() == 1 {
            place.git(&["pack-refs", "--all"]);
        }
        place.write(&[("changed", "b")]);
        let commit = place.made("of a rollback");
        place.git(&["checkout", "-q", "--", "changed"]);
        own("c");
        assert_eq!(place.entries().len(), 3, "{arguments:?}: {:?}", place.entries());
        assert_eq!(place.git(&["stash", "list", "--format=%H"]).lines().nth(1), Some(&*commit));
        drop_entry(&PROCESS, &place.path(), &commit, &place.cache()).unwrap();
        assert_eq!(place.entries().len(), 2, "{arguments:?}");
        assert_eq!(place.git(&["show", "stash@{0}:changed"]), "c");
        assert_eq!(place.git(&["show", "stash@{1}:changed"]), "a");
        place.git(&["fsck", "--strict"]);
    }
}

#[test]
fn a_fifo_in_place_of_the_index_is_not_waited_for() {
    let place = Place::new();
    let index = place.path().join(".git/index");
    fs::remove_file(&index).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &index, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let began = std::time::Instant::now();
    assert!(matches!(place.make("m"), Stash::Not(why) if why.contains("no regular file")));
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
}

#[test]
fn a_repository_of_another_user_is_used_only_where_git_is_told_so() {
    // Only root can make one.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    place.write(&[("changed", "2")]);
    assert!(Command::new("chown").args(["-R", "12345:12345"]).arg(place.path()).status().unwrap().success());
    assert!(matches!(place.make("m"), Stash::Not(why) if why.contains("uid 12345") && why.contains("safe.directory")));
}
