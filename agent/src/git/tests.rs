//! The real program, in every state that a repository can be in.

use std::{fs, path::Path, process::Command, time::Duration};

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn environment(&self) -> Environment {
        self.environment_with(std::env::var_os("PATH").unwrap())
    }

    fn environment_with(&self, path: OsString) -> Environment {
        let home = self.folder.path().as_os_str().to_owned();
        let env = |name: &str| match name {
            "PATH" => Some(path.clone()),
            "HOME" => Some(home.clone()),
            _ => None,
        };
        Environment::new(&env, &self.path("w"), &self.path("cache"))
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.folder.path());
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "n").env(format!("GIT_{who}_EMAIL"), "e@example.org");
        }
        command.args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "core.editor=true"]);
        command.current_dir(self.path(folder)).args(arguments).output().unwrap().status.success()
    }

    fn repository(&self, name: &str) {
        fs::create_dir_all(self.path(name)).unwrap();
        assert!(self.git(name, &["init"]));
        self.commit(name, "f", "one\n");
    }

    fn commit(&self, repository: &str, file: &str, text: &str) {
        self.write(&format!("{repository}/{file}"), text);
        assert!(self.git(repository, &["add", "-A"]) && self.git(repository, &["commit", "-m", "m"]));
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn state(&self, folder: &str) -> State {
        state(&self.path(folder), &self.environment(), Duration::from_secs(60)).unwrap().unwrap()
    }
}

fn changes(state: &State) -> Vec<(&str, &str)> {
    state.uncommitted().map(|change| (change.path.as_str(), change.status.as_str())).collect()
}

#[test]
fn no_git_at_all() {
    let place = Place::new();
    assert_eq!(state(&place.path(""), &place.environment(), Duration::from_secs(60)).unwrap(), None);
    place.write("w/.git", "gitdir: nowhere\n");
    assert_eq!(state(&place.path("w"), &place.environment(), Duration::from_secs(60)).unwrap(), None);
}

#[test]
fn repositories_in_a_workspace_that_is_none() {
    let place = Place::new();
    place.repository("w/a");
    place.repository("w/group/b");
    place.repository("w/a/inner");
    place.repository("w/too/deep/c");
    std::os::unix::fs::symlink("../w/a", place.path("w/link")).unwrap();
    place.write("w/group/b/new", "x");
    let state = place.state("w");
    assert_eq!((state.kind, state.branch.as_deref(), state.head.as_deref(), state.dirty), (Kind::Folder, None, None, true));
    let below: Vec<_> = state.below.iter().map(|below| (below.path.as_str(), below.kind)).collect();
    assert_eq!(below, [("a", Kind::Nested), ("group/b", Kind::Nested)]);
    assert_eq!(state.below[0].below[0].path, "a/inner");
    assert_eq!(state.below[1].branch.as_deref(), Some("main"));
    assert_eq!(changes(&state), [("group/b/new", "??")]);
    assert_eq!(state.record()["uncommitted_files"], json!(["group/b/new"]));
}

#[test]
fn no_commits_yet() {
    let place = Place::new();
    fs::create_dir(place.path("w")).unwrap();
    place.git("w", &["init"]);
    place.write("w/new", "x");
    let state = place.state("w");
    assert_eq!((state.branch.as_deref(), state.head.as_deref(), state.dirty), (Some("main"), None, true));
    assert_eq!(changes(&state), [("new", "??")]);
}

#[test]
fn clean_dirty_staged_renamed_deleted_and_stashed() {
    let place = Place::new();
    place.repository("w");
    place.commit("w", "g", "a longer text, so that the rename is seen as one\n");
    let state = place.state("w");
    assert!(!state.dirty && !state.has_stash && state.head.is_some() && state.record()["uncommitted_files"] == json!([]));
    place.write("w/f", "two\n");
    assert!(place.git("w", &["stash"]));
    place.write("w/f", "three\n");
    place.git("w", &["mv", "g", "h"]);
    place.write("w/new folder/a\nb", "x");
    let state = place.state("w");
    assert_eq!((state.stash_count, state.has_stash, state.dirty), (1, true, true));
    assert_eq!(changes(&state), [("f", ".M"), ("h", "R."), ("new folder/a\\nb", "??")]);
    assert_eq!(state.changes[1].from.as_deref(), Some("g"));
    assert_eq!(state.changes[2].as_path(), Path::new("new folder/a\nb"));
    fs::remove_file(place.path("w/f")).unwrap();
    assert!(place.state("w").changes[0].is_deleted());
    assert_eq!(state.record()["uncommitted_files"], json!(["f", "h", "new folder/a\\nb"]));
}

#[test]
fn detached_behind_and_in_a_folder_of_a_repository() {
    let place = Place::new();
    place.repository("w");
    place.write("w/sub/x", "1");
    place.commit("w", "sub/y", "2");
    assert!(place.git("", &["clone", "w", "clone"]));
    place.commit("clone", "z", "3");
    let state = place.state("clone");
    assert_eq!((state.upstream.as_deref(), state.ahead, state.behind), (Some("origin/main"), Some(1), Some(0)));
    assert!(place.git("w", &["checkout", "HEAD~1"]));
    place.write("w/f", "changed outside");
    place.write("w/sub/x", "changed");
    let state = place.state("w/sub");
    assert!(state.is_detached && state.branch.is_none());
    assert_eq!(changes(&state), [("x", "??")]);
}

#[test]
fn conflicts_and_what_git_is_in_the_middle_of() {
    let place = Place::new();
    place.repository("w");
    place.git("w", &["branch", "other"]);
    place.commit("w", "f", "ours\n");
    place.git("w", &["checkout", "other"]);
    place.commit("w", "f", "theirs\n");
    let middle = |arguments: &[&str], operation, abort: &str| {
        assert!(!place.git("w", arguments), "{arguments:?} should stop at a conflict");
        let state = place.state("w");
        assert_eq!((state.operation, state.unmerged), (Some(operation), 1), "{arguments:?}");
        assert_eq!(changes(&state), [("f", "UU")]);
        assert!(place.git("w", &[abort, "--abort"]));
    };
    middle(&["merge", "main"], Operation::Merge, "merge");
    middle(&["rebase", "main"], Operation::Rebase, "rebase");
    middle(&["cherry-pick", "main"], Operation::CherryPick, "cherry-pick");
    assert!(place.git("w", &["bisect", "start"]));
    assert_eq!(place.state("w").operation, Some(Operation::Bisect));
}

#[test]
fn worktrees_submodules_and_nested_repositories() {
    let place = Place::new();
    place.repository("library");
    place.repository("w");
    assert!(place.git("w", &["submodule", "add", "../library", "lib"]));
    place.git("w", &["commit", "-m", "m"]);
    place.repository("w/nested");
    place.repository("w/nested/deep");
    place.write("w/lib/f", "changed\n");
    place.write("w/nested/u", "new\n");
    place.write("w/nested/deep/u", "new\n");
    let state = place.state("w");
    let kinds: Vec<_> = state.below.iter().map(|below| (below.path.as_str(), below.kind)).collect();
    assert_eq!(kinds, [("lib", Kind::Submodule), ("nested", Kind::Nested)]);
    assert_eq!(state.below[0].recorded, state.below[0].head);
    assert_eq!(state.below[1].below[0].path, "nested/deep");
    let all = changes(&state);
    for expected in [("lib", ".M"), ("lib/f", ".M"), ("nested/u", "??"), ("nested/deep/u", "??")] {
        assert!(all.contains(&expected), "{expected:?} in {all:?}");
    }
    assert!(place.git("w", &["worktree", "add", "../linked", "-b", "side"]));
    let linked = place.state("linked");
    assert!(linked.is_linked_worktree && linked.branch.as_deref() == Some("side") && !linked.dirty);
}

#[test]
fn many_changes_are_counted_and_the_first_of_all_repositories_listed() {
    let place = Place::new();
    place.repository("w");
    place.repository("w/nested");
    place.write("w/f", "changed\n");
    place.write("w/nested/f", "changed\n");
    for n in 0..LISTED_MAX {
        place.write(&format!("w/untracked/a file of a generated name {n}"), "");
    }
    let state = place.state("w");
    let nested = &state.below[0];
    assert_eq!((state.change_count, state.changes.len(), state.truncated), (LISTED_MAX as u64 + 1, LISTED_MAX, true));
    assert_eq!((nested.change_count, nested.changes.len(), nested.truncated, nested.dirty), (1, 0, true, true));
    assert_eq!(state.changes[0].path, "f", "what git tracks comes first");
    let record = state.record();
    assert_eq!((&record["uncommitted_count"], &record["dirty"]), (&json!(LISTED_MAX + 2), &json!(true)));
    assert_eq!(record["uncommitted_files"].as_array().unwrap().len(), RECORDED_MAX);
    let record = state.record_without(&|path| path.starts_with(b"untracked/") || path == b"f");
    let listed = LISTED_MAX as u64 - 1;
    assert_eq!(
        record["uncommitted_count"],
        json!(LISTED_MAX as u64 + 2 - listed),
        "of a tracked file git knows, whatever is left out"
    );
    assert_eq!(record["uncommitted_files"], json!(["f"]));
    // Long names take what there is of room.
    for n in 0..RECORDED_MAX {
        place.write(&format!("w/{}{n}", "a".repeat(200)), "");
    }
    let record = place.state("w").record();
    let listed: Vec<&str> = record["uncommitted_files"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(listed.concat().len() <= RECORDED_BYTES_MAX && listed.len() < RECORDED_MAX && listed[0] == "f", "{listed:?}");
}

#[test]
fn settings_that_decide_what_is_changed_are_kept() {
    let place = Place::new();
    place.repository("w");
    place.commit("w", "text", "one\ntwo\n");
    place.write(".gitconfig", "[core]\n\texcludesFile = ~/ignored\n[include]\n\tpath = more\n");
    place.write("more", "[core]\n\tautocrlf = true\n");
    place.write("ignored", "*.log\n");
    place.write("w/a.log", "");
    place.write("w/.git/info/exclude", "*.tmp\n");
    place.write("w/a.tmp", "");
    fs::remove_file(place.path("w/text")).unwrap();
    assert!(place.git("w", &["checkout", "--", "text"]));
    // As many bytes as git has written, so that it looks at them again.
    place.write("w/text", "one\r\ntwo\r\n");
    assert!(place.git("w", &["config", "core.fileMode", "false"]));
    fs::set_permissions(place.path("w/f"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(changes(&place.state("w")), []);
    assert!(place.git("w", &["config", "core.fileMode", "true"]));
    assert_eq!(changes(&place.state("w")), [("f", ".M")]);
}

#[test]
fn references_in_tables_and_ids_of_sha256_are_read() {
    for arguments in [["init", "--ref-format=reftable"], ["init", "--object-format=sha256"]] {
        let place = Place::new();
        fs::create_dir_all(place.path("w")).unwrap();
        assert!(place.git("w", &arguments), "this git is too old for {arguments:?}");
        place.commit("w", "f", "one\n");
        place.write("w/f", "two\n");
        assert!(place.git("w", &["stash"]));
        place.write("w/f", "three\n");
        let state = place.state("w");
        assert_eq!((state.branch.as_deref(), state.stash_count, state.head.is_some()), (Some("main"), 1, true), "{arguments:?}");
        assert_eq!(changes(&state), [("f", ".M")]);
    }
}

#[test]
fn nobodys_variables_daemons_or_locks() {
    let place = Place::new();
    place.repository("w");
    place.write("w/mine.sh", "#!/bin/sh\ntouch ran\n");
    place.git("w", &["config", "core.fsmonitor", "./mine.sh"]);
    place.write("w/.git/index.lock", "");
    let index = fs::read(place.path("w/.git/index")).unwrap();
    place.write("w/f", "one\n");
    let state = place.state("w");
    assert_eq!(changes(&state), [("mine.sh", "??")]);
    assert_eq!(fs::read(place.path("w/.git/index")).unwrap(), index);
    assert!(!place.path("w/ran").exists());
}

#[test]
fn what_takes_too_long_is_said() {
    let place = Place::new();
    place.repository("w");
    let slow = state(&place.path("w"), &place.environment(), Duration::ZERO).unwrap_err();
    assert!(matches!(slow, Error::Slow { .. }), "{slow}");
    let none = place.environment_with("/nowhere".into());
    let missing = state(&place.path("w"), &none, Duration::from_secs(60)).unwrap_err();
    assert!(missing.to_string().contains("git"), "{missing}");
}

#[test]
fn remote_commit_and_branch_from_the_files_alone() {
    let place = Place::new();
    place.repository("w");
    assert!(place.git("", &["clone", "w", "clone"]));
    let facts = |name: &str| Repository::at(&place.path(name)).unwrap().unwrap().facts();
    let head = place.state("w").head;
    let expected =
        Facts { remote: Some(place.path("w").to_string_lossy().into_owned()), commit: head.clone(), branch: Some("main".into()) };
    assert_eq!(facts("clone"), expected);
    assert!(place.git("clone", &["pack-refs", "--all"]) && place.git("clone", &["worktree", "add", "../linked", "-b", "side"]));
    assert_eq!(facts("clone"), expected);
    assert_eq!(facts("linked"), Facts { branch: Some("side".into()), ..expected.clone() });
    assert!(place.git("clone", &["checkout", "--detach"]));
    assert_eq!(facts("clone"), Facts { branch: None, ..expected });
    place.write("w/.git/HEAD", "ref: ../../../etc/passwd\n");
    assert_eq!(facts("w").commit, None);
}

#[test]
fn what_could_not_be_looked_at_is_listed_as_elsewhere() {
    let failed = vec![UnreadableRepository { path: "a\\n".into(), reason: "broken".into() }];
    let state = serde_json::to_value(State { failed, ..State::default() }).unwrap();
    assert_eq!(state["failed"], serde_json::json!([{ "path": "a\\n", "reason": "broken" }]));
}

#[test]
fn what_git_would_read_for_ever_or_whole_is_named() {
    let place = Place::new();
    place.repository("w");
    let why = || state(&place.path("w"), &place.environment(), Duration::from_secs(60)).unwrap_err().to_string();
    let began = Instant::now();
    for name in [".git/index", ".git/HEAD", ".git/refs/heads/main", ".git/refs/stash", ".gitignore"] {
        let path = place.path("w").join(name);
        let before = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(why().contains("no regular file"), "{name}: {}", why());
        fs::remove_file(&path).unwrap();
        before.iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
    }
    for name in [".gitignore", ".git/config"] {
        let path = place.path("w").join(name);
        let before = fs::read(&path).ok();
        fs::File::options().create(true).append(true).open(&path).unwrap().set_len(3 << 30).unwrap();
        assert!(why().contains("is longer than"), "{name}: {}", why());
        fs::remove_file(&path).unwrap();
        before.iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
    }
    assert!(began.elapsed() < Duration::from_secs(50));
    assert!(!place.state("w").dirty);
}

#[test]
fn a_repository_of_another_user_is_used_only_as_git_is_told() {
    // Only root can make one.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    place.repository("w");
    fs::create_dir(place.path("w/sub")).unwrap();
    let chown = |path: &str| Command::new("chown").args(["-R", "12345:12345"]).arg(place.path(path)).status().unwrap().success();
    assert!(chown("w"));
    let look = |folder: &str| state(&place.path(folder), &place.environment(), Duration::from_secs(60));
    let why = look("w").unwrap_err().to_string();
    assert!(why.contains("uid 12345") && why.contains("safe.directory"), "{why}");
    // One in a folder above, which anybody could have put there, is none.
    assert_eq!(look("w/sub").unwrap(), None);
    for (allowed, is_used) in [("/nowhere", false), ("*", true), ("~/w", true), ("~/*", true), ("~/w/sub", false)] {
        place.write(".gitconfig", &format!("[safe]\n\tdirectory = {allowed}\n"));
        assert_eq!(look("w").is_ok(), is_used, "{allowed}");
    }
    place.write(".gitconfig", "[safe]\n\tdirectory = *\n\tdirectory =\n");
    assert!(look("w").is_err());
}
