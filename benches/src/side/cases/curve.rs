//! Cost per file from small trees to large ones.

use crate::datasets::scale;
use crate::error::Result;
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::sync_filesystem;
use crate::side::options::Options;

const ROUNDS_MAX: u32 = 3;

/// The trees' numbers of files, over all kinds of runs.
pub const SIZES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The trees' numbers of files in this run.
pub fn sizes(options: &Options) -> &'static [u64] {
    match (options.quick, options.huge) {
        (true, _) => &SIZES[..2],
        (false, false) => &SIZES[1..4],
        (false, true) => &SIZES[1..],
    }
}

/// First and unchanged checkpoints of trees of growing size.
pub fn run(lab: &mut Lab) -> Result<()> {
    lab.stored = false;
    let rounds = lab.options.rounds;
    lab.options.rounds = rounds.min(ROUNDS_MAX);
    let outcome = sizes(&lab.options).iter().try_for_each(|&files| one(lab, files));
    lab.options.rounds = rounds;
    outcome
}

fn one(lab: &mut Lab, files: u64) -> Result<()> {
    let tree = lab.root.join("work/scale").join(files.to_string());
    eprintln!("scale: generating {files} files");
    process::make_dir(&tree)?;
    scale::generate(&tree, files)?;
    lab.settle()?;
    let (first, unchanged) = (format!("scale-first-{files}"), format!("scale-unchanged-{files}"));
    lab.rounds(&first, |lab| {
        for tool in lab.tools.all() {
            if !measured(tool.name()) {
                continue;
            }
            tool.fresh(&lab.runner)?;
            sync_filesystem(&lab.root)?;
            let outcome = tool.checkpoint(&lab.runner, &tree)?;
            lab.figures.add(&first, tool.name(), outcome);
            if tool.name() == "parhelia" {
                let outcome = tool.checkpoint(&lab.runner, &tree)?;
                lab.figures.add(&unchanged, tool.name(), outcome);
            }
        }
        lab.time_walk(&unchanged, &tree)
    })?;
    // Room for the next size.
    for tool in lab.tools.all() {
        tool.fresh(&lab.runner)?;
    }
    process::remove(&tree)?;
    lab.settle()
}

/// The others are slower by so much that the curve would take hours.
fn measured(tool: &str) -> bool {
    matches!(tool, "parhelia" | "tar --zstd" | "bare loop")
}
