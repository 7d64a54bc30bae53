//! Rollback and undo, with and without git, and killed on the way.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use parhelia_session::{config::Config, rollback};
use parhelia_store::{Store, event::Actor, progress::Progress};
use parhelia_tests::{
    Scratch, assert_equal, long, noise,
    recorder::{Fault, Recorder, Trap},
    write,
};
use serde_json::Value;

/// A workspace with a session that has one checkpoint.
struct Work {
    scratch: Scratch,
    workspace: PathBuf,
    session: String,
    target: String,
}

fn git_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
    for (name, value) in [("NAME", "n"), ("EMAIL", "e@x")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    command
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = git_command(folder, arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Work {
    fn new(with_git: bool) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        Self::at(scratch, workspace, with_git)
    }

    fn at(scratch: Scratch, workspace: PathBuf, with_git: bool) -> Self {
        for i in 0..60 {
            write(&workspace.join(format!("src/m{}/f{i}.rs", i % 7)), &noise(3_000, i)).unwrap();
        }
        write(&workspace.join("Cargo.toml"), b"[package]\n").unwrap();
        write(&workspace.join("target/big"), &noise(10_000, 99)).unwrap();
        fs::set_permissions(workspace.join("src/m0/f0.rs"), fs::Permissions::from_mode(0o751)).unwrap();
        if with_git {
            git(&workspace, &["init", "-q", "-b", "main"]);
            git(&workspace, &["add", "Cargo.toml", "src"]);
            git(&workspace, &["commit", "-q", "-m", "first"]);
        }
        scratch.expect(0, &["session", "run", "--workspace", &workspace.to_string_lossy(), "--", "true"]);
        let list = scratch.expect(0, &["checkpoint", "list", "--json"]);
        let first: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        let text = |name: &str| first[name].as_str().unwrap().to_owned();
        Work { session: text("session"), target: text("id"), scratch, workspace }
    }

    /// What an agent that went wrong might do.
    fn spoil(&self) {
        let at = |name: &str| self.workspace.join(name);
        fs::write(at("src/m1/f1.rs"), "spoiled").unwrap();
        fs::remove_file(at("src/m2/f2.rs")).unwrap();
        fs::remove_dir_all(at("src/m3")).unwrap();
        fs::set_permissions(at("src/m0/f0.rs"), fs::Permissions::from_mode(0o600)).unwrap();
        write(&at("new/deep/file"), b"made later").unwrap();
        write(&at("target/big"), b"rebuilt").unwrap();
        std::os::unix::fs::symlink("deep", at("new/link")).unwrap();
    }

    /// Something that a rebuild makes again, and that came later.
    fn fetch(&self) {
        write(&self.workspace.join("later/package.json"), b"{}").unwrap();
        write(&self.workspace.join("later/node_modules/x/index.js"), b"fetched later").unwrap();
    }

    fn rollback(&self, more: &[&str]) -> String {
        let mut arguments = vec!["checkpoint", "rollback", self.target.as_str(), "--yes"];
        arguments.extend(more);
        self.scratch.expect(0, &arguments)
    }

    /// A copy of the workspace, without git's own folder.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.scratch.path(name);
        let _ = fs::remove_dir_all(&to);
        assert!(Command::new("cp").arg("-a").args([&self.workspace, &to]).status().unwrap().success());
        let _ = fs::remove_dir_all(to.join(".git"));
        assert!(Command::new("touch").arg("-r").args([&self.workspace, &to]).status().unwrap().success());
        to
    }

    /// What of it the target has, as a folder.
    fn wanted(&self) -> PathBuf {
        let to = self.scratch.path("wanted");
        self.scratch.restore(&self.target, &to);
        let _ = fs::remove_dir_all(to.join(".git"));
        to
    }

    /// The workspace is the target's, and what was left out is as it is now.
    fn assert_is_target(&self) {
        let wanted = self.wanted();
        let now = self.copy("now");
        assert_eq!(fs::read(now.join("target/big")).unwrap(), b"rebuilt");
        assert!(!now.join("new").exists());
        fs::remove_dir_all(now.join("target")).unwrap();
        // The folder itself gets another time when `target` goes.
        for folder in [&wanted, &now] {
            Command::new("touch").args(["-d", "2020-01-01"]).arg(folder).status().unwrap();
        }
        assert_equal(&wanted, &now);
        fs::remove_dir_all(wanted).unwrap();
    }
}

#[test]
fn a_rollback_restores_and_undo_gives_everything_back() {
    let work = Work::new(false);
    work.spoil();
    work.fetch();
    let before = work.copy("before");
    let text = work.rollback(&[]);
    assert_eq!(fs::read(work.workspace.join("later/node_modules/x/index.js")).unwrap(), b"fetched later");
    assert!(!work.workspace.join("later/package.json").exists());
    fs::rename(work.workspace.join("later"), work.scratch.path("later")).unwrap();
    work.assert_is_target();
    fs::rename(work.scratch.path("later"), work.workspace.join("later")).unwrap();
    assert!(text.contains("Safety checkpoint") && text.contains("session resume"), "{text}");
    let [safety] = &safeties(&work)[..] else { panic!("one safety checkpoint") };
    let listed = work.scratch.expect(0, &["checkpoint", "list", "--json"]);
    let safety = listed.lines().find(|line| line.contains(safety.as_str())).unwrap();
    assert_eq!(serde_json::from_str::<Value>(safety).unwrap()["verification"]["ok"], true, "{safety}");
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_equal(&before, &work.copy("after"));
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    fs::remove_dir_all(work.workspace.join("later")).unwrap();
    work.assert_is_target();
}

#[test]
fn a_dry_run_changes_nothing_and_without_a_terminal_nothing_is_done_unasked() {
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    let text = work.scratch.expect(0, &["checkpoint", "rollback", &work.target, "--dry-run"]);
    assert!(text.contains("D new") && text.contains("M src/m1/f1.rs"), "{text}");
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target]);
    assert!(text.contains("--yes"), "{text}");
    assert_equal(&before, &work.copy("after"));
    assert!(work.scratch.expect(2, &["checkpoint", "undo", &work.session]).contains("not rolled back"));
}

#[test]
fn what_cannot_be_brought_back_changes_nothing() {
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    let (packs, away) = (work.scratch.store().join("packs"), work.scratch.path("away"));
    fs::rename(&packs, &away).unwrap();
    fs::create_dir(&packs).unwrap();
    for how in ["--yes", "--dry-run"] {
        let output = work.scratch.run(&["checkpoint", "rollback", &work.target, how]);
        assert!(!output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stdout));
        assert_equal(&before, &work.copy("after"));
    }
    for pack in fs::read_dir(&away).unwrap().flatten() {
        fs::rename(pack.path(), packs.join(pack.file_name())).unwrap();
    }
    work.rollback(&[]);
    work.assert_is_target();
}

#[test]
fn git_gets_a_stash_entry_and_is_not_touched_otherwise() {
    let work = Work::new(true);
    work.spoil();
    git(&work.workspace, &["add", "src/m1"]);
    let nested = work.workspace.join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    fs::write(nested.join("file"), "mine").unwrap();
    let git_folder = work.workspace.join(".git");
    let facts = || {
        let read = |name: &str| fs::read(git_folder.join(name)).unwrap();
        (read("index"), read("HEAD"), git(&work.workspace, &["for-each-ref", "refs/heads"]))
    };
    let before = facts();
    let text = work.rollback(&[]);
    assert!(text.contains("Stashed changes") && text.contains("nested"), "{text}");
    assert_eq!(facts(), before);
    assert_eq!(fs::read(nested.join("file")).unwrap(), b"mine");
    assert_eq!(git(&work.workspace, &["show", "stash@{0}:src/m1/f1.rs"]), "spoiled");
    fs::remove_dir_all(&nested).unwrap();
    work.assert_is_target();
}

#[test]
fn it_is_refused_in_the_middle_of_a_merge_and_on_another_branch() {
    let work = Work::new(true);
    git(&work.workspace, &["checkout", "-q", "-b", "other"]);
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("branch main") && text.contains("--force"), "{text}");
    git(&work.workspace, &["checkout", "-q", "main"]);
    fs::write(work.workspace.join(".git/MERGE_HEAD"), git(&work.workspace, &["rev-parse", "HEAD"])).unwrap();
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("merge"), "{text}");
    fs::write(work.workspace.join("src/m1/f1.rs"), "spoiled").unwrap();
    work.rollback(&["--force"]);
    assert!(fs::read(work.workspace.join("src/m1/f1.rs")).unwrap() == noise(3_000, 1));
}

#[test]
fn files_that_are_unmerged_go_back_when_forced_and_undo_gives_the_conflict_back() {
    let work = Work::new(true);
    let file = work.workspace.join("Cargo.toml");
    git(&work.workspace, &["checkout", "-q", "-b", "other"]);
    fs::write(&file, "theirs\n").unwrap();
    git(&work.workspace, &["commit", "-qam", "theirs"]);
    git(&work.workspace, &["checkout", "-q", "main"]);
    fs::write(&file, "ours\n").unwrap();
    git(&work.workspace, &["commit", "-qam", "ours"]);
    assert!(!git_command(&work.workspace, &["merge", "-q", "other"]).output().unwrap().status.success());
    let conflict = fs::read_to_string(&file).unwrap();
    assert!(conflict.contains("<<<<<<<"), "{conflict}");
    let git_folder = work.workspace.join(".git");
    let facts = || ["index", "HEAD", "MERGE_HEAD"].map(|name| fs::read(git_folder.join(name)).unwrap());
    let before = facts();
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("merge") && text.contains("--force"), "{text}");
    let text = work.rollback(&["--force"]);
    assert!(text.contains("no stash entry was made"), "git stashes nothing that is unmerged: {text}");
    assert_eq!(fs::read(&file).unwrap(), b"[package]\n");
    let text = work.scratch.expect(2, &["checkpoint", "undo", &work.session, "--yes"]);
    assert!(text.contains("merge") && text.contains("--force"), "{text}");
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes", "--force"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), conflict);
    assert_eq!(facts(), before);
}

#[test]
fn without_a_branch_a_rollback_is_refused_to_one_and_goes_to_a_checkpoint_that_had_none() {
    let mut work = Work::new(true);
    let head = git(&work.workspace, &["rev-parse", "HEAD"]);
    git(&work.workspace, &["checkout", "-q", "--detach"]);
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("branch main") && text.contains("no branch"), "{text}");
    let workspace = work.workspace.to_string_lossy().into_owned();
    let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &workspace]);
    work.target = made["id"].as_str().unwrap().to_owned();
    work.spoil();
    assert!(work.rollback(&[]).contains("Stashed changes"));
    work.assert_is_target();
    assert_eq!(fs::read_to_string(work.workspace.join(".git/HEAD")).unwrap().trim(), head);
}

#[test]
fn the_repository_of_a_submodule_is_left_alone_and_its_files_go_back() {
    let mut work = Work::new(true);
    let library = work.scratch.path("library");
    write(&library.join("lib.rs"), b"of the library").unwrap();
    git(&library, &["init", "-q", "-b", "main"]);
    git(&library, &["add", "lib.rs"]);
    git(&library, &["commit", "-q", "-m", "first"]);
    let from = library.to_string_lossy().into_owned();
    git(&work.workspace, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &from, "library"]);
    git(&work.workspace, &["commit", "-q", "-m", "submodule"]);
    let workspace = work.workspace.to_string_lossy().into_owned();
    let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &workspace]);
    work.target = made["id"].as_str().unwrap().to_owned();
    let (file, inner) = (work.workspace.join("library/lib.rs"), work.workspace.join("library"));
    fs::write(&file, "committed later").unwrap();
    git(&inner, &["commit", "-qam", "later"]);
    fs::write(&file, "not committed").unwrap();
    let later = git(&inner, &["rev-parse", "HEAD"]);
    work.rollback(&[]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "of the library");
    assert_eq!(git(&inner, &["rev-parse", "HEAD"]), later, "commits stay reachable");
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "not committed");
}

#[test]
fn whoever_asks_to_stop_behind_the_intent_gets_everything_back() {
    struct Stops<'a>(&'a Work);
    impl Progress for Stops<'_> {
        fn is_cancelled(&self) -> bool {
            let store = Store::open(&self.0.scratch.store(), &Default::default()).unwrap();
            let session = store.view().session(&self.0.session).unwrap().unwrap();
            rollback::open(&session).is_some()
        }
    }
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    let store = Store::open(&work.scratch.store(), &Default::default()).unwrap();
    let target = store.view().checkpoint(work.target.parse().unwrap()).unwrap().unwrap();
    let settings = Config::default();
    let wanted = rollback::Wanted {
        target: &target,
        files_only: false,
        force: false,
        stop: false,
        config: None,
        settings: &settings,
        variable: &|_| None,
    };
    let look = rollback::look(&store, &wanted).unwrap();
    let failed = rollback::execute(&store, &look, &wanted, None, &Actor::default(), &Stops(&work)).unwrap_err();
    assert!(failed.to_string().contains("everything is as it was before"), "{failed}");
    assert_equal(&before, &work.copy("after"));
    let session = store.refresh().unwrap().session(&work.session).unwrap().unwrap();
    assert!(rollback::open(&session).is_none() && rollback::last(&session).is_none());
}

#[test]
fn what_another_session_works_in_is_kept() {
    let work = Work::new(false);
    let inner = work.workspace.join("src/m4").to_string_lossy().into_owned();
    work.scratch.expect(0, &["session", "run", "--name", "inner", "--workspace", &inner, "--", "true"]);
    fs::write(work.workspace.join("src/m4/f4.rs"), "of the other session").unwrap();
    work.spoil();
    let text = work.rollback(&[]);
    assert!(text.contains("src/m4: session m4-"), "{text}");
    assert_eq!(fs::read_to_string(work.workspace.join("src/m4/f4.rs")).unwrap(), "of the other session");
    fs::write(work.workspace.join("src/m4/f4.rs"), noise(3_000, 4)).unwrap();
    assert!(fs::read(work.workspace.join("src/m1/f1.rs")).unwrap() == noise(3_000, 1));
}

#[test]
fn what_is_left_out_by_now_is_neither_captured_nor_touched() {
    let work = Work::new(false);
    write(&work.workspace.join("secret.txt"), b"of before").unwrap();
    let path = work.workspace.to_string_lossy().into_owned();
    let target = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &path])["id"].clone();
    let target = target.as_str().unwrap();
    fs::write(work.workspace.join("secret.txt"), "of now").unwrap();
    fs::write(work.workspace.join("parhelia.toml"), "[capture]\nexclude = [\"secret.txt\"]\n").unwrap();
    work.scratch.expect(0, &["checkpoint", "rollback", target, "--yes"]);
    assert_eq!(fs::read_to_string(work.workspace.join("secret.txt")).unwrap(), "of now");
    let safety = safeties(&work).pop().unwrap();
    work.scratch.expect(10, &["checkpoint", "cat", &format!("{safety}:secret.txt")]);
}

#[test]
fn it_is_refused_while_another_session_is_alive_there() {
    let work = Work::new(false);
    let inner = work.workspace.join("src");
    let mut command = work.scratch.command(&["session", "run", "--workspace", &inner.to_string_lossy(), "--", "sleep", "1000"]);
    let mut other = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let refused = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let text = work.scratch.run(&["checkpoint", "rollback", &work.target, "--dry-run"]);
        String::from_utf8_lossy(&text.stderr).contains("is alive in the same workspace")
    });
    let pid = rustix::process::Pid::from_raw(other.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    other.wait().unwrap();
    assert!(refused);
    work.scratch.expect(0, &["checkpoint", "rollback", &work.target, "--yes"]);
}

/// Checkpoints that were made before a rollback, oldest first.
fn safeties(work: &Work) -> Vec<String> {
    let list = work.scratch.expect(0, &["checkpoint", "list", "--json"]);
    let lines = list.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let safe = lines.filter(|c| c["trigger_detail"].as_str().is_some_and(|detail| detail.starts_with("safety")));
    let mut ids: Vec<String> = safe.filter_map(|c| c["id"].as_str().map(str::to_owned)).collect();
    ids.reverse();
    ids
}

/// What git says of the workspace when it is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing: there is no git.
    None,
    /// Everything is committed.
    Clean,
    Dirty,
    /// A merge has stopped at a conflict.
    Unmerged,
    /// There is no branch.
    Detached,
    /// Another repository lies in it, which came later.
    Nested,
}

impl State {
    /// Puts the workspace into this state; what the session's rollbacks go to is a checkpoint from before, but for `Detached`.
    fn enter(self, work: &mut Work) {
        let workspace = work.workspace.clone();
        match self {
            State::None | State::Clean | State::Dirty => {}
            State::Unmerged => {
                git(&workspace, &["checkout", "-q", "-b", "other"]);
                fs::write(workspace.join("Cargo.toml"), "theirs\n").unwrap();
                git(&workspace, &["commit", "-qam", "theirs"]);
                git(&workspace, &["checkout", "-q", "main"]);
                fs::write(workspace.join("Cargo.toml"), "ours\n").unwrap();
                git(&workspace, &["commit", "-qam", "ours"]);
                assert!(!git_command(&workspace, &["merge", "-q", "other"]).output().unwrap().status.success());
            }
            State::Detached => {
                git(&workspace, &["checkout", "-q", "--detach"]);
                let path = workspace.to_string_lossy().into_owned();
                let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &path]);
                work.target = made["id"].as_str().unwrap().to_owned();
            }
            State::Nested => {
                let nested = workspace.join("nested");
                write(&nested.join("file"), b"mine").unwrap();
                git(&nested, &["init", "-q"]);
                git(&nested, &["add", "file"]);
                git(&nested, &["commit", "-q", "-m", "nested"]);
            }
        }
    }

    /// What an agent that went wrong left behind in this state.
    fn spoil(self, work: &Work) {
        work.spoil();
        match self {
            State::Clean => {
                git(&work.workspace, &["add", "-A", "src", "new"]);
                git(&work.workspace, &["commit", "-q", "--allow-empty", "-m", "spoiled"]);
            }
            State::Unmerged => fs::write(work.workspace.join("Cargo.toml"), "<<<<<<< ours\n").unwrap(),
            _ => {}
        }
    }
}

/// A rollback is killed at so many of its changes, evenly spread; in the long run at each.
const KILLS: u64 = 6;

fn killed_at_any_step_the_next_command_finishes_it(state: State) {
    let recorder = Recorder::mount();
    recorder.stop_logging();
    let at = |name: &str| recorder.path().join(name);
    let mut work = Work::at(Scratch::with_store(at("store")), at("work"), state != State::None);
    state.enter(&mut work);
    let force: &[&str] = if state == State::Unmerged { &["--force"] } else { &[] };
    state.spoil(&work);
    recorder.arm(Trap::new(Trap::CHANGES, u64::MAX, Fault::Kill));
    work.rollback(force);
    let (steps, _) = recorder.disarm();
    let kills = if long() > 0 { steps } else { KILLS };
    let nested = work.workspace.join("nested");
    let git_facts = || {
        let read = |name: &str| fs::read(work.workspace.join(".git").join(name)).ok();
        (read("index"), read("HEAD"), read("MERGE_HEAD"))
    };
    let mut interrupted = 0;
    for kill in 0..kills {
        state.spoil(&work);
        let (before, facts) = (work.copy("before"), git_facts());
        let had = safeties(&work).len();
        recorder.arm(Trap::new(Trap::CHANGES, steps * kill / kills, Fault::Kill));
        work.scratch.run(&[&["checkpoint", "rollback", &work.target, "--yes"], force].concat());
        recorder.disarm();
        let mut text = String::new();
        fs::write(work.workspace.join("later"), "worked on after the crash").unwrap();
        if kill % 2 == 1 {
            // Whatever captures the session does it as well.
            let workspace = work.workspace.to_string_lossy();
            text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
        }
        text += &work.rollback(force);
        if text.contains("is finished now") {
            interrupted += 1;
            let (_, safety) = text.split_once("in safety checkpoint ").unwrap();
            let place = format!("{}:later", safety.lines().next().unwrap());
            assert_eq!(work.scratch.expect(0, &["checkpoint", "cat", &place]), "worked on after the crash");
        }
        assert_eq!(git_facts(), facts, "{state:?}, killed at step {kill} of {kills}");
        if state == State::Nested {
            assert_eq!(fs::read(nested.join("file")).unwrap(), b"mine");
            assert_eq!(git(&nested, &["status", "--porcelain"]), "");
            fs::rename(&nested, at("aside")).unwrap();
        }
        work.assert_is_target();
        if state == State::Nested {
            fs::rename(at("aside"), &nested).unwrap();
        }
        // The first safety checkpoint of this round has what was before, whoever made it.
        let safety = safeties(&work)[had].clone();
        let restored = work.scratch.path("restored");
        work.scratch.restore(&safety, &restored);
        let _ = fs::remove_dir_all(restored.join(".git"));
        // Where the kill came before any safety checkpoint, the first one has this as well.
        let _ = fs::remove_file(restored.join("later"));
        fs::remove_dir_all(before.join("target")).unwrap();
        for folder in [&restored, &before] {
            Command::new("touch").args(["-d", "2020-01-01"]).arg(folder).status().unwrap();
        }
        assert_equal(&before, &restored);
        fs::remove_dir_all(&restored).unwrap();
    }
    println!("{state:?}: killed at {kills} of {steps} steps, {interrupted} of them behind the intent");
    assert!(interrupted > 0, "no rollback was interrupted behind its intent");
    work.scratch.expect(0, &["check"]);
}

macro_rules! killed {
    ($($name:ident: $state:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            killed_at_any_step_the_next_command_finishes_it(State::$state);
        }
    )*};
}

killed! {
    killed_outside_git: None,
    killed_where_everything_is_committed: Clean,
    killed_where_something_is_not_committed: Dirty,
    killed_in_the_middle_of_a_merge: Unmerged,
    killed_without_a_branch: Detached,
    killed_with_a_repository_inside: Nested,
}
