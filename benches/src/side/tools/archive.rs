//! `tar --zstd` and `cp -a`: a full copy each time.

use std::path::{Path, PathBuf};

use super::{Tool, empty, synced};
use crate::error::Result;
use crate::process::make_dir;
use crate::side::launch::{Outcome, Runner, Step};

/// `tar --zstd`, level 3 as is its default.
#[derive(Debug)]
pub struct Tar {
    home: PathBuf,
    kept: usize,
}

impl Tar {
    /// A tool with its store in `home`.
    pub fn new(home: PathBuf) -> Self {
        Self { home, kept: 0 }
    }

    fn archive(&self) -> PathBuf {
        self.home.join(format!("{:04}.tar.zst", self.kept))
    }
}

impl Tool for Tar {
    fn name(&self) -> &'static str {
        "tar --zstd"
    }

    fn fresh(&mut self, _runner: &Runner) -> Result<()> {
        self.kept = 0;
        empty(&self.home)
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        self.kept += 1;
        let step = Step::new("tar").args(["--zstd", "-cf"]).path(&self.archive()).args(["-C"]).path(tree).args(["."]);
        synced(runner, &self.home, vec![step])
    }

    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        make_dir(to)?;
        let step = Step::new("tar").args(["-xf"]).path(&self.archive()).args(["-C"]).path(to);
        Ok(Some((synced(runner, &self.home, vec![step])?, to.to_owned())))
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn incremental(&self) -> bool {
        false
    }
}

/// The tool `cp -a`, which makes a full copy each time.
#[derive(Debug)]
pub struct Cp {
    home: PathBuf,
    kept: usize,
}

impl Cp {
    /// A tool with its store in `home`.
    pub fn new(home: PathBuf) -> Self {
        Self { home, kept: 0 }
    }

    fn copy(&self) -> PathBuf {
        self.home.join(format!("{:04}", self.kept))
    }
}

impl Tool for Cp {
    fn name(&self) -> &'static str {
        "cp -a"
    }

    fn fresh(&mut self, _runner: &Runner) -> Result<()> {
        self.kept = 0;
        empty(&self.home)
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        self.kept += 1;
        let step = Step::new("cp").args(["-a"]).path(tree).path(&self.copy());
        synced(runner, &self.home, vec![step])
    }

    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        let step = Step::new("cp").args(["-a"]).path(&self.copy()).path(to);
        Ok(Some((synced(runner, &self.home, vec![step])?, to.to_owned())))
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn incremental(&self) -> bool {
        false
    }
}
