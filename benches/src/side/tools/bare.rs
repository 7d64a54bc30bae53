//! The bare loop of this crate as a tool: what the work costs at least.

use std::path::{Path, PathBuf};

use super::{Tool, empty, own_program, synced};
use crate::error::Result;
use crate::side::launch::{Outcome, Runner, Step};

/// Walk, read, hash, compress, write one file.
#[derive(Debug)]
pub struct Bare {
    program: PathBuf,
    home: PathBuf,
}

impl Bare {
    /// A tool with its output in `home`.
    pub fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { program: own_program("bare")?, home })
    }
}

impl Tool for Bare {
    fn name(&self) -> &'static str {
        "bare loop"
    }

    fn fresh(&mut self, _runner: &Runner) -> Result<()> {
        empty(&self.home)
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        let step = Step::new(self.program.display()).args(["store"]).path(tree).path(&self.home.join("blocks"));
        synced(runner, &self.home, vec![step])
    }

    fn restore(&mut self, _runner: &Runner, _to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        Ok(None)
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn incremental(&self) -> bool {
        false
    }
}
