//! The tools, and the commands that drive them. Every tool keeps its store in one folder, its home.

mod archive;
mod bare;
mod borg;
mod git;
mod parhelia;
mod restic;

use std::path::{Path, PathBuf};

pub use archive::{Cp, Tar};
pub use bare::Bare;
pub use borg::Borg;
pub use git::Git;
pub use parhelia::Parhelia;
pub use restic::Restic;

use super::launch::{Job, Outcome, Runner, Step};
use super::mounted::MountGuard;
use super::options::{Options, ToolName};
use crate::error::{Context, Error, Result};
use crate::process::{self, find_program};
use crate::walk;

/// A tool that can keep states of a tree.
pub trait Tool {
    /// Its name in the tables.
    fn name(&self) -> &'static str;

    /// Removes the store and makes an empty one (not timed).
    fn fresh(&mut self, runner: &Runner) -> Result<()>;

    /// Keeps the state of `tree`.
    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome>;

    /// Brings the last state back into the folder `to`, which does not exist yet. Returns where in
    /// it the tree is, too. Nothing, if the tool cannot.
    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>>;

    /// Makes the live `tree` equal to the last state, touching only what differs. Nothing, if the
    /// tool cannot.
    fn restore_in_place(&mut self, _runner: &Runner, _tree: &Path) -> Result<Option<Outcome>> {
        Ok(None)
    }

    /// Mounts the last state on the empty folder `at`. Nothing, if the tool cannot.
    fn mount(&self, _runner: &Runner, _at: &Path) -> Result<Option<MountGuard>> {
        Ok(None)
    }

    /// Folder of the store.
    fn home(&self) -> &Path;

    /// True if a second checkpoint builds on the first. If not, each is kept in a store of its own where that makes no difference.
    fn incremental(&self) -> bool {
        true
    }

    /// True if a restore brings back every file (a shadow git leaves out ignored ones).
    fn complete(&self) -> bool {
        true
    }

    /// The bytes that the store occupies on the disk.
    fn store_bytes(&self) -> Result<u64> {
        Ok(walk::count(self.home())?.allocated)
    }
}

/// Runs steps and syncs the filesystem they wrote to.
fn synced(runner: &Runner, home: &Path, steps: Vec<Step>) -> Result<Outcome> {
    runner.run(&Job { steps, sync: home.parent().map(Path::to_owned) })
}

/// Empties a home.
fn empty(home: &Path) -> Result<()> {
    process::remove(home)?;
    process::make_dir(home)
}

/// All tools of a run, parhelia apart because some cases need more of it.
#[derive(Default)]
pub struct Toolbox {
    /// The binary under test.
    pub parhelia: Option<Parhelia>,
    /// The rest.
    pub others: Vec<Box<dyn Tool>>,
}

impl Toolbox {
    /// The tools that the options ask for, with their homes in `stores`.
    pub fn new(options: &Options, stores: &Path) -> Result<Self> {
        process::make_dir(stores)?;
        let mut missing = Vec::new();
        let mut parhelia = None;
        if options.wants_tool(ToolName::Parhelia) {
            match Parhelia::find(options.parhelia.as_deref()) {
                Ok(binary) => parhelia = Some(Parhelia::new(binary, stores.join("parhelia"))),
                Err(error) => missing.push(error.chain()),
            }
        }
        let mut others: Vec<Box<dyn Tool>> = Vec::new();
        for name in [ToolName::Tar, ToolName::Cp, ToolName::Restic, ToolName::Borg, ToolName::Git, ToolName::Bare] {
            if !options.wants_tool(name) {
                continue;
            }
            match make(name, stores)? {
                Ok(tool) => others.push(tool),
                Err(program) => missing.push(format!("{program}: not found on PATH")),
            }
        }
        if !missing.is_empty() {
            let list = missing.join("\n  ");
            if !options.skip_missing {
                return Err(Error::new(format!(
                    "some tools are missing (--tools chooses others, --skip-missing goes on):\n  {list}"
                )));
            }
            eprintln!("left out:\n  {list}");
        }
        Ok(Self { parhelia, others })
    }

    /// Every tool in turn, parhelia first.
    pub fn all(&mut self) -> impl Iterator<Item = &mut dyn Tool> {
        let parhelia = self.parhelia.as_mut().map(|tool| tool as &mut dyn Tool);
        let others = self.others.iter_mut().map(|tool| tool.as_mut() as &mut dyn Tool);
        parhelia.into_iter().chain(others)
    }
}

/// A tool, or the program that it lacks.
fn make(name: ToolName, stores: &Path) -> Result<std::result::Result<Box<dyn Tool>, &'static str>> {
    let program = match name {
        ToolName::Tar => "tar",
        ToolName::Cp => "cp",
        ToolName::Restic => "restic",
        ToolName::Borg => "borg",
        ToolName::Git => "git",
        ToolName::Bare | ToolName::Parhelia => "",
    };
    if !program.is_empty() && find_program(program).is_none() {
        return Ok(Err(program));
    }
    if name == ToolName::Tar && find_program("zstd").is_none() {
        return Ok(Err("zstd"));
    }
    Ok(Ok(match name {
        ToolName::Tar => Box::new(Tar::new(stores.join("tar"))),
        ToolName::Cp => Box::new(Cp::new(stores.join("cp"))),
        ToolName::Restic => Box::new(Restic::new(stores.join("restic"))),
        ToolName::Borg => Box::new(Borg::new(stores.join("borg"))),
        ToolName::Git => Box::new(Git::new(stores.join("git"))),
        ToolName::Bare | ToolName::Parhelia => Box::new(Bare::new(stores.join("bare"))?),
    }))
}

/// A program of this crate, beside the running one.
pub fn own_program(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context(|| "find this program")?;
    let path = this.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::new(format!("{} is missing; build the whole package", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_missing_binary_is_named() {
        let stores = tempfile::tempdir().unwrap();
        let options = ["side-by-side", "--tools=parhelia", "--parhelia=/no/such/parhelia"];
        let options = Options::parse_from(options);
        let error = Toolbox::new(&options, stores.path()).err().unwrap();
        assert!(error.chain().contains("/no/such/parhelia"), "{}", error.chain());
    }
}
