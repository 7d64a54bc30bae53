//! The lab that the cases share: the place, the tools, the figures, and the rounds.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::figures::{Figures, median};
use super::launch::{Job, Runner, Step, sync_filesystem};
use super::options::Options;
use super::tools::{Toolbox, own_program};
use crate::datasets::scale;
use crate::error::{Context, Error, Result};
use crate::process;
use crate::walk;

/// The memory that is touched before a case, in MiB.
const WARM_MIB: usize = 2048;
/// The number of files of the tree in a quick run.
pub const QUICK_FILES: u64 = 3000;
/// The number of files that are edited between two checkpoints.
pub const EDITED: usize = 10;
/// The number of synced writes that are timed.
const SYNCS: usize = 41;
/// Only small files are edited: sources, not bundles.
const EDITED_BYTES_MAX: u64 = 64 * 1024;

/// Everything a case needs.
pub struct Lab {
    /// The options of the command line.
    pub options: Options,
    /// The folder that everything happens in.
    pub root: PathBuf,
    /// The finished input trees.
    pub data: PathBuf,
    /// Times commands.
    pub runner: Runner,
    /// The tools that are compared.
    pub tools: Toolbox,
    /// The figures that were measured so far.
    pub figures: Figures,
    /// True if every tool holds the tree.
    pub stored: bool,
    tree: Option<PathBuf>,
    edits: usize,
}

impl Lab {
    /// A lab in which nothing was measured yet.
    pub fn new(options: Options, root: PathBuf, data: PathBuf, runner: Runner, tools: Toolbox) -> Self {
        Self { options, root, data, runner, tools, figures: Figures::default(), stored: false, tree: None, edits: 0 }
    }

    /// Runs a case: memory is touched, one round is thrown away, the others count.
    pub fn rounds(&mut self, case: &str, mut round: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.warm_memory()?;
        let rounds = self.options.rounds();
        for number in 0..=rounds {
            self.figures.warming = number == 0;
            let what = if number == 0 { "warm-up".to_owned() } else { format!("round {number}/{rounds}") };
            eprintln!("{case}: {what}");
            let outcome = round(self);
            self.figures.warming = false;
            outcome.context(|| format!("{case}, {what}"))?;
        }
        Ok(())
    }

    /// Touches and frees memory in another process.
    pub fn warm_memory(&self) -> Result<()> {
        let mib = if self.options.quick { 64 } else { WARM_MIB };
        let touch = Step::new(own_program("bare")?.display()).args(["touch"]).args([mib]);
        let job = Job { steps: vec![touch], sync: None };
        self.runner.run(&job).map(drop)
    }

    /// Notes how long a synced write of 4 KiB takes: what is measured with syncs depends on it.
    pub fn note_sync_time(&mut self) -> Result<()> {
        let path = self.root.join("synced");
        let mut file = std::fs::File::create(&path).context(|| "create a file to sync")?;
        let mut took = Vec::new();
        for _ in 0..SYNCS {
            let start = Instant::now();
            file.write_all(&[0x5a; 4096]).and_then(|()| file.sync_data()).context(|| "write and sync")?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        if let Some(millis) = median(took.into_iter()) {
            self.figures.set("synced_write_ms", millis);
        }
        process::remove(&path)
    }

    /// Writes out what is unwritten, so that it does not disturb what is timed next.
    pub fn settle(&self) -> Result<()> {
        self.runner.stop_if_interrupted()?;
        sync_filesystem(&self.root)
    }

    /// The tree that most cases are about; brought here on first use.
    pub fn tree(&mut self) -> Result<PathBuf> {
        if let Some(tree) = &self.tree {
            return Ok(tree.clone());
        }
        let tree = self.root.join("work/tree");
        if self.options.quick {
            process::make_dir(&tree)?;
            scale::generate(&tree, QUICK_FILES)?;
        } else {
            let name = self.options.tree.clone();
            self.fetch(&name, &tree)?;
        }
        let count = walk::count(&tree)?;
        self.figures.set("tree/files", count.files as f64);
        self.figures.set("tree/entries", count.entries as f64);
        self.figures.set("tree/bytes", count.bytes as f64);
        self.settle()?;
        self.tree = Some(tree.clone());
        Ok(tree)
    }

    /// Copies an input set to `to`.
    pub fn fetch(&self, set: &str, to: &Path) -> Result<()> {
        let from = self.data.join(set);
        if !from.is_dir() {
            return Err(Error::new(format!("the input tree {} is missing; `datasets {set}` makes it", from.display())));
        }
        eprintln!("copying {set}");
        process::make_dir(to.parent().unwrap_or(to))?;
        process::run(Command::new("cp").arg("-a").arg(from).arg(to))
    }

    /// Sees to it that every tool holds the tree, without timing it.
    pub fn store_tree(&mut self) -> Result<()> {
        if self.stored {
            return Ok(());
        }
        let tree = self.tree()?;
        for tool in self.tools.all() {
            eprintln!("storing the tree: {}", tool.name());
            tool.fresh(&self.runner)?;
            tool.checkpoint(&self.runner, &tree)?;
        }
        self.stored = true;
        self.settle()
    }

    /// Appends a line to each of ten files that lie spread over the tree; others each time.
    pub fn edit_ten(&mut self) -> Result<()> {
        let tree = self.tree()?;
        let mut files = Vec::new();
        list_small_files(&tree, &mut files)?;
        files.sort();
        if files.len() < EDITED {
            return Err(Error::new("the tree has too few files to edit"));
        }
        self.edits += 1;
        let stride = files.len() / EDITED;
        for slot in 0..EDITED {
            append_line(&files[slot * stride + (self.edits * 7) % stride], &format!("// edit {} {slot}", self.edits))?;
        }
        self.settle()
    }

    /// Times the bare walk of the tree.
    pub fn time_walk(&mut self, case: &str, tree: &Path) -> Result<()> {
        let step = Step::new(own_program("bare")?.display()).args(["walk"]).path(tree);
        let job = Job { steps: vec![step], sync: Some(self.root.clone()) };
        let outcome = self.runner.run(&job)?;
        self.figures.add(case, "bare walk", outcome);
        Ok(())
    }
}

/// Edits a file.
pub fn append_line(path: &Path, line: &str) -> Result<()> {
    let edited = OpenOptions::new().append(true).open(path).and_then(|mut file| writeln!(file, "{line}"));
    edited.context(|| format!("edit {}", path.display()))
}

/// The files below a folder that may be edited.
pub fn list_small_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let what = || format!("read folder {}", folder.display());
    for entry in std::fs::read_dir(folder).context(what)? {
        let entry = entry.context(what)?;
        let meta = entry.metadata().context(what)?;
        if meta.is_dir() {
            list_small_files(&entry.path(), files)?;
        } else if meta.is_file() && meta.len() <= EDITED_BYTES_MAX {
            files.push(entry.path());
        }
    }
    Ok(())
}
