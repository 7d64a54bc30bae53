//! A project of which a few sources are edited over and over, with a checkpoint each time: what does an edit cost, and how well is the last
//! checkpoint read, beside the same tree in a store of its own? parhelia alone.

use std::path::{Path, PathBuf};

use parhelia_store::OpenOptions;

use crate::error::{Context, Error, Result};
use crate::process;
use crate::side::lab::{EDITED, Lab};
use crate::side::launch::{Job, Step};
use crate::side::tools::{Parhelia, Tool};
use crate::text::Text;
use crate::walk;

/// The name, in tables, of the store that holds the last tree alone.
pub const FRESH: &str = "fresh store";
const FILES: usize = 200;
const FILE_BYTES: usize = 40 << 10;
const EDITS: usize = 200;
const QUICK_EDITS: usize = 10;

/// Acts on a cold mount of a project: the case, and the command.
const ACTS: [(&str, &str); 2] = [
    ("edited-cat", "find . -type f -print0 | xargs -0 cat > /dev/null"),
    // Nothing may be found, or grep would stop early: it sees where its output goes.
    ("edited-grep", "grep -rF 'no file holds these words' .; test $? = 1"),
];

/// A project whose files are known.
struct Project {
    folder: PathBuf,
    files: Vec<PathBuf>,
    text: Text,
}

impl Project {
    fn new(folder: PathBuf, files: usize) -> Result<Self> {
        let mut text = Text::new(15, 4000);
        let files: Vec<PathBuf> = (0..files).map(|number| folder.join(format!("src{}/file{number}.rs", number % 12))).collect();
        for path in &files {
            process::make_dir(path.parent().unwrap_or(&folder))?;
            let mut source = String::new();
            while source.len() < FILE_BYTES {
                text.code_line(&mut source);
            }
            std::fs::write(path, source).context(|| format!("write {}", path.display()))?;
        }
        Ok(Self { folder, files, text })
    }

    /// Writes another line in the place of one, in each of the first `count` files.
    fn edit(&mut self, count: usize) -> Result<()> {
        for path in self.files.iter().take(count) {
            let source = std::fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
            let mut lines: Vec<&str> = source.lines().collect();
            let mut line = String::new();
            self.text.code_line(&mut line);
            let at = self.text.rng.below(lines.len().max(1));
            if let Some(slot) = lines.get_mut(at) {
                *slot = line.trim_end();
            }
            std::fs::write(path, lines.join("\n") + "\n").context(|| format!("edit {}", path.display()))?;
        }
        Ok(())
    }
}

/// The cost of edits in one file, and of reading after edits of ten.
pub fn run(lab: &mut Lab) -> Result<()> {
    let Some(tool) = lab.tools.parhelia.clone() else { return Ok(()) };
    process::need(&["find", "xargs", "grep", "umount"])?;
    let edits = if lab.options.quick { QUICK_EDITS } else { EDITS };
    lab.figures.set("edited/edits", edits as f64);
    one_file(lab, &tool, edits)?;
    let mut project = Project::new(lab.root.join("work/project-of-many"), if lab.options.quick { 20 } else { FILES })?;
    let mut deep = tool.with_home(lab.root.join("stores/parhelia-edited"));
    deep.fresh(&lab.runner)?;
    eprintln!("edited: {edits} edits of {EDITED} files");
    for number in 0..=edits {
        if number > 0 {
            project.edit(EDITED)?;
        }
        deep.checkpoint(&lab.runner, &project.folder)?;
    }
    let mut fresh = tool.with_home(lab.root.join("stores/parhelia-fresh"));
    fresh.fresh(&lab.runner)?;
    fresh.checkpoint(&lab.runner, &project.folder)?;
    let (at, out) = (lab.root.join("mnt"), lab.root.join("restored"));
    process::make_dir(&at)?;
    lab.rounds("edited", |lab| {
        for (name, tool) in [("parhelia", &mut deep), (FRESH, &mut fresh)] {
            for (case, command) in ACTS {
                cold(lab, tool, name, case, command, &at)?;
            }
            process::remove(&out)?;
            lab.settle()?;
            let restored = tool.restore(&lab.runner, &out)?;
            if let Some((outcome, _)) = restored {
                lab.figures.add("edited-restore", name, outcome);
            }
        }
        Ok(())
    })?;
    let (wanted, got) = (walk::count(&project.folder)?, walk::count(&out)?);
    if (wanted.files, wanted.bytes) != (got.files, got.bytes) {
        return Err(Error::new("the last checkpoint was not restored as it was"));
    }
    process::remove(&out)?;
    deep.discard()?;
    fresh.discard()
}

/// Something that is done in a mount of its own.
fn cold(lab: &mut Lab, tool: &Parhelia, name: &str, case: &str, command: &str, at: &Path) -> Result<()> {
    let mounted = tool.mount(&lab.runner, at)?.ok_or_else(|| Error::new("parhelia does not mount"))?;
    let step = Step::new("sh").args(["-c", command]).folder(&mounted.shown);
    let outcome = lab.runner.run(&Job { steps: vec![step], sync: None }).context(|| format!("{case}, {name}"))?;
    lab.figures.add(case, name, outcome);
    mounted.end().map(drop)
}

/// By how much the packs grow with each edit of a single source, and how long the sealed records are that are in them.
fn one_file(lab: &mut Lab, tool: &Parhelia, edits: usize) -> Result<()> {
    let mut project = Project::new(lab.root.join("work/project-of-one"), 1)?;
    let mut tool = tool.with_home(lab.root.join("stores/parhelia-one"));
    tool.fresh(&lab.runner)?;
    eprintln!("edited: {edits} edits of one file");
    tool.checkpoint(&lab.runner, &project.folder)?;
    let packs = |tool: &Parhelia| walk::count(&tool.home().join("packs")).map(|count| count.bytes as f64);
    let before = packs(&tool)?;
    for _ in 0..edits {
        project.edit(1)?;
        tool.checkpoint(&lab.runner, &project.folder)?;
    }
    lab.figures.set("edited/packs_each_bytes", (packs(&tool)? - before) / edits as f64);
    let failed = |e: parhelia_store::Error| Error::new(format!("read the store: {e}"));
    let store = parhelia_ledger::open(tool.home(), &OpenOptions::default()).map_err(failed)?;
    let records = store.checkpoints().map_err(failed)?;
    let bytes: usize = records.iter().map(|checkpoint| checkpoint.sealed.len()).sum();
    lab.figures.set("edited/record_bytes", bytes as f64 / records.len().max(1) as f64);
    drop(store);
    tool.discard()
}
