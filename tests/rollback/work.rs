//! A workspace of a session, and what goes wrong in it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_store::Store;
use parhelia_tests::{Scratch, assert_equal, noise, write};
use serde_json::Value;

/// A workspace with a session that has one checkpoint.
pub struct Work {
    pub scratch: Scratch,
    pub workspace: PathBuf,
    pub session: String,
    pub target: String,
}

pub fn git_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
    for (name, value) in [("NAME", "n"), ("EMAIL", "e@x")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    command
}

pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = git_command(folder, arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Work {
    pub fn new(with_git: bool) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        Self::at(scratch, workspace, with_git)
    }

    pub fn at(scratch: Scratch, workspace: PathBuf, with_git: bool) -> Self {
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

    /// Does what an agent that went wrong might do.
    pub fn spoil(&self) {
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
    pub fn fetch(&self) {
        write(&self.workspace.join("later/package.json"), b"{}").unwrap();
        write(&self.workspace.join("later/node_modules/x/index.js"), b"fetched later").unwrap();
    }

    pub fn rollback(&self, more: &[&str]) -> String {
        let mut arguments = vec!["checkpoint", "rollback", self.target.as_str(), "--yes"];
        arguments.extend(more);
        self.scratch.expect(0, &arguments)
    }

    pub fn rollback_to(&self, checkpoint: &str) {
        self.scratch.expect(0, &["checkpoint", "rollback", checkpoint, "--yes"]);
    }

    /// A copy of the workspace, without git's own folder.
    pub fn copy(&self, name: &str) -> PathBuf {
        let to = self.scratch.path(name);
        let _ = fs::remove_dir_all(&to);
        assert!(Command::new("cp").arg("-a").args([&self.workspace, &to]).status().unwrap().success());
        let _ = fs::remove_dir_all(to.join(".git"));
        assert!(Command::new("touch").arg("-r").args([&self.workspace, &to]).status().unwrap().success());
        to
    }

    /// The content that the target has of it, as a folder.
    pub fn wanted(&self) -> PathBuf {
        let to = self.scratch.path("wanted");
        self.scratch.restore(&self.target, &to);
        let _ = fs::remove_dir_all(to.join(".git"));
        to
    }

    /// The workspace is the target's, and what was left out is as it is now.
    pub fn assert_is_target(&self) {
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

/// Checkpoints that were made before a rollback, oldest first.
pub fn safeties(work: &Work) -> Vec<String> {
    let list = work.scratch.expect(0, &["checkpoint", "list", "--json"]);
    let lines = list.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let safe = lines.filter(|c| c["trigger_detail"].as_str().is_some_and(|detail| detail.starts_with("safety")));
    let mut ids: Vec<String> = safe.filter_map(|c| c["id"].as_str().map(str::to_owned)).collect();
    ids.reverse();
    ids
}

pub fn opened(work: &Work) -> Store {
    parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap()
}
