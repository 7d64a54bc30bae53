//! One tree: first checkpoint, unchanged, ten files edited, diff.

use std::path::Path;

use crate::error::{Error, Result};
use crate::side::lab::{EDITED, Lab};
use crate::side::launch::sync_filesystem;
use crate::side::tools::Tool;
use crate::walk;

/// The number of runs of a verb that takes a few milliseconds.
pub const SHORT_RUNS: usize = 21;

/// First checkpoint into an empty store.
pub fn first(lab: &mut Lab) -> Result<()> {
    let tree = lab.tree()?;
    lab.rounds("first", |lab| {
        for tool in lab.tools.all() {
            tool.fresh(&lab.runner)?;
            sync_filesystem(&lab.root)?;
            let outcome = tool.checkpoint(&lab.runner, &tree)?;
            lab.figures.add("first", tool.name(), outcome);
        }
        note_lock(lab);
        Ok(())
    })?;
    lab.stored = true;
    note_sizes(lab)
}

fn note_lock(lab: &mut Lab) {
    let created = lab.tools.parhelia.as_ref().and_then(|tool| tool.created.last());
    if let Some(held) = created.and_then(|created| created.lock_held_ms) {
        let longest = lab.figures.value("first/lock_held_ms").unwrap_or(0.0).max(held);
        if !lab.figures.warming {
            lab.figures.set("first/lock_held_ms", longest);
        }
    }
}

fn note_sizes(lab: &mut Lab) -> Result<()> {
    for tool in lab.tools.all() {
        let bytes = tool.store_bytes()? as f64;
        lab.figures.set(format!("first/store_bytes/{}", tool.name()), bytes);
    }
    if let Some(parhelia) = &lab.tools.parhelia {
        let sizes = parhelia.sizes()?;
        lab.figures.set("first/data_block_bytes", sizes.data_blocks as f64);
        lab.figures.set("first/ballast_bytes", sizes.ballast as f64);
        lab.figures.set("first/cache_bytes", sizes.cache as f64);
    }
    Ok(())
}

/// Another checkpoint of the same tree.
pub fn unchanged(lab: &mut Lab) -> Result<()> {
    lab.store_tree()?;
    again(lab, "unchanged")
}

/// A checkpoint after ten files were edited.
pub fn edits(lab: &mut Lab) -> Result<()> {
    lab.store_tree()?;
    let grown = |lab: &Lab| lab.tools.parhelia.as_ref().map(|tool| growing_bytes(tool.home())).transpose();
    let before = grown(lab)?;
    again(lab, "edits")?;
    if let Some((before, after)) = before.zip(grown(lab)?) {
        // One round is thrown away, but not its checkpoint.
        let each = after.saturating_sub(before) as f64 / f64::from(lab.options.rounds() + 1);
        lab.figures.set("edits/growth_bytes", each);
    }
    Ok(())
}

/// Bytes of what a checkpoint adds to: packs, journal and stat caches. The index is written now and then, for many at once.
fn growing_bytes(store: &Path) -> Result<u64> {
    ["packs", "journal", "cache"].iter().map(|part| Ok(walk::count(&store.join(part))?.bytes)).sum()
}

fn again(lab: &mut Lab, case: &str) -> Result<()> {
    let tree = lab.tree()?;
    lab.rounds(case, |lab| {
        if case == "edits" {
            lab.edit_ten()?;
        }
        for tool in lab.tools.all() {
            if tool.name() == "bare loop" {
                continue;
            }
            if !tool.incremental() {
                tool.fresh(&lab.runner)?;
            }
            sync_filesystem(&lab.root)?;
            let outcome = tool.checkpoint(&lab.runner, &tree)?;
            lab.figures.add(case, tool.name(), outcome);
        }
        lab.time_walk(case, &tree)
    })
}

/// Diff of two checkpoints between which ten files were edited; parhelia alone.
pub fn diff(lab: &mut Lab) -> Result<()> {
    let tree = lab.tree()?;
    let Some(parhelia) = &mut lab.tools.parhelia else {
        return Ok(());
    };
    if !lab.stored {
        parhelia.fresh(&lab.runner)?;
    }
    let before = parhelia.checkpoint_id(&lab.runner, &tree)?;
    lab.edit_ten()?;
    let Some(parhelia) = &mut lab.tools.parhelia else {
        return Ok(());
    };
    let after = parhelia.checkpoint_id(&lab.runner, &tree)?;
    eprintln!("diff: {SHORT_RUNS} runs");
    for run in 0..=SHORT_RUNS {
        let args = ["checkpoint", "diff", &before, &after, "--name-only"];
        let outcome = parhelia.read_verb(&lab.runner, &args)?;
        if run > 0 {
            lab.figures.add("diff", "parhelia", outcome);
        }
    }
    let said = lab.runner.stdout()?;
    let named = said.lines().filter(|line| !line.trim().is_empty()).count();
    if named != EDITED {
        return Err(Error::new(format!("diff named {named} paths, {EDITED} were edited:\n{said}")));
    }
    Ok(())
}
