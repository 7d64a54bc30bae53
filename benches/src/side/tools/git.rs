//! A shadow git: a repository beside the tree, `add -A` and `commit` each time.

use std::path::{Path, PathBuf};

use super::{Tool, empty, synced};
use crate::error::Result;
use crate::process::make_dir;
use crate::side::launch::{Job, Outcome, Runner, Step};

/// git with its folder away from the tree, nothing packed behind its back.
#[derive(Debug)]
pub struct Git {
    home: PathBuf,
}

impl Git {
    /// A tool with its store in `home`.
    pub fn new(home: PathBuf) -> Self {
        Self { home }
    }

    fn step(&self, tree: &Path, args: &[&str]) -> Step {
        Step::new("git")
            .args([format!("--git-dir={}", self.home.display()), format!("--work-tree={}", tree.display())])
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            .args(["-c", "user.name=bench", "-c", "user.email=bench@example.org"])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
    }
}

impl Tool for Git {
    fn name(&self) -> &'static str {
        "shadow git"
    }

    fn fresh(&mut self, runner: &Runner) -> Result<()> {
        empty(&self.home)?;
        let init = Step::new("git").args(["init", "--quiet", "--bare"]).path(&self.home).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let init = Job { steps: vec![init], sync: None };
        runner.run(&init).map(drop)
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        let add = self.step(tree, &["add", "-A"]).folder(tree);
        let commit = ["commit", "--quiet", "--allow-empty", "--message=checkpoint"];
        let commit = self.step(tree, &commit).folder(tree);
        synced(runner, &self.home, vec![add, commit])
    }

    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        make_dir(to)?;
        // An index of its own, so that the one of the live tree stays as it is.
        let index = self.home.join("index-of-restore");
        let checkout = self
            .step(to, &["checkout", "--quiet", "--force", "HEAD", "--", "."])
            .folder(to)
            .env("GIT_INDEX_FILE", index.display());
        let outcome = synced(runner, &self.home, vec![checkout])?;
        crate::process::remove(&index)?;
        Ok(Some((outcome, to.to_owned())))
    }

    fn restore_in_place(&mut self, runner: &Runner, tree: &Path) -> Result<Option<Outcome>> {
        let reset = self.step(tree, &["reset", "--quiet", "--hard"]).folder(tree);
        synced(runner, &self.home, vec![reset]).map(Some)
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn complete(&self) -> bool {
        false
    }
}
