//! borg, without encryption, compressing as `tar --zstd` does.

use std::path::{Path, PathBuf};

use super::{Tool, empty, synced};
use crate::error::Result;
use crate::process::make_dir;
use crate::side::launch::{Job, Outcome, Runner, Step};
use crate::side::mounted::MountGuard;

/// borg with a local repository.
#[derive(Debug)]
pub struct Borg {
    home: PathBuf,
    kept: usize,
}

impl Borg {
    /// A tool with its store in `home`.
    pub fn new(home: PathBuf) -> Self {
        Self { home, kept: 0 }
    }

    fn repo(&self) -> PathBuf {
        self.home.join("repo")
    }

    fn archive(&self) -> String {
        format!("{}::{:04}", self.repo().display(), self.kept)
    }

    fn step(&self, verb: &str) -> Step {
        Step::new("borg")
            .args([verb])
            .env("BORG_BASE_DIR", self.home.join("base").display())
            .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes")
            .env("BORG_RELOCATED_REPO_ACCESS_IS_OK", "yes")
    }
}

impl Tool for Borg {
    fn name(&self) -> &'static str {
        "borg"
    }

    fn fresh(&mut self, runner: &Runner) -> Result<()> {
        self.kept = 0;
        empty(&self.home)?;
        let init = Job { steps: vec![self.step("init").args(["--encryption", "none"]).path(&self.repo())], sync: None };
        runner.run(&init).map(drop)
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        self.kept += 1;
        let step = self.step("create").args(["--compression", "zstd,3", &self.archive(), "."]).folder(tree);
        synced(runner, &self.home, vec![step])
    }

    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        make_dir(to)?;
        let step = self.step("extract").args([self.archive()]).folder(to);
        Ok(Some((synced(runner, &self.home, vec![step])?, to.to_owned())))
    }

    fn mount(&self, runner: &Runner, at: &Path) -> Result<Option<MountGuard>> {
        let step = self.step("mount").args([self.archive()]).path(at);
        runner.run(&Job { steps: vec![step], sync: None })?;
        Ok(Some(MountGuard::of_daemon(at, at)))
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn store_bytes(&self) -> Result<u64> {
        Ok(crate::walk::count(&self.repo())?.allocated)
    }
}
