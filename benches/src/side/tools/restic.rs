//! restic, with its default compression.

use std::path::{Path, PathBuf};

use super::{Tool, empty, synced};
use crate::error::{Context, Result};
use crate::side::launch::{Job, Outcome, Runner, Step};
use crate::side::mounted::MountGuard;

/// restic with a local repository.
#[derive(Debug)]
pub struct Restic {
    home: PathBuf,
    /// Path of the last tree, because a restore repeats the whole path.
    tree: PathBuf,
}

impl Restic {
    /// A tool with its store in `home`.
    pub fn new(home: PathBuf) -> Self {
        Self { home, tree: PathBuf::new() }
    }

    fn step(&self, verb: &str) -> Step {
        Step::new("restic")
            .args(["--quiet", "--repo"])
            .path(&self.home.join("repo"))
            .args(["--cache-dir"])
            .path(&self.home.join("cache"))
            .args([verb])
            .env("RESTIC_PASSWORD", "bench")
    }
}

impl Tool for Restic {
    fn name(&self) -> &'static str {
        "restic"
    }

    fn fresh(&mut self, runner: &Runner) -> Result<()> {
        empty(&self.home)?;
        let init = Job { steps: vec![self.step("init")], sync: None };
        runner.run(&init).map(drop)
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        self.tree = tree.to_owned();
        let step = self.step("backup").args(["--host", "bench"]).path(tree);
        synced(runner, &self.home, vec![step])
    }

    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        let step = self.step("restore").args(["latest", "--target"]).path(to);
        let outcome = synced(runner, &self.home, vec![step])?;
        let below = self.tree.strip_prefix("/").context(|| "find the restored tree")?;
        Ok(Some((outcome, to.join(below))))
    }

    fn mount(&self, _runner: &Runner, at: &Path) -> Result<Option<MountGuard>> {
        let below = self.tree.strip_prefix("/").context(|| "find the mounted tree")?;
        let shown = at.join("snapshots/latest").join(below);
        MountGuard::of_child(self.step("mount").path(at), at, &shown).map(Some)
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn store_bytes(&self) -> Result<u64> {
        Ok(crate::walk::count(&self.home.join("repo"))?.allocated)
    }
}
