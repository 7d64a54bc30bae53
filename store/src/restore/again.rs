//! A second try, where somebody else has taken names meanwhile that were free by the plan.
//!
//! A restore of a folder inside the target may give a folder its name first. What the plan had there is then not made, and whatever was
//! to be one file with it is not joined. A new plan goes by what is there now.

use std::collections::{BTreeSet, HashSet};

use super::{
    Options, RestoreReport,
    plan::{Plan, plan},
    run::{FailedEntries, Run},
    skipped::{SkippedEntry, Why},
    table::entry_path,
};
use crate::{error::Result, name, progress::Progress, record::Checkpoint, store::Store};

/// Tries, at most. Somebody may take names again and again.
pub const TRIES_MAX: u32 = 3;
/// So many names of lost hard links are said.
const NAMED_MAX: usize = 3;

/// The result of a try.
pub struct Attempt {
    /// Everything that was done.
    pub report: RestoreReport,
    /// The paths that the restore has written, or was free to overwrite, from the target; none where nobody has taken a name.
    pub own: Option<HashSet<Vec<u8>>>,
}

/// The paths that a restore has written, or was free to overwrite, where somebody has taken a name. What hard links are lost by that is added
/// to what is skipped.
/// `left` is what others have changed meanwhile, which nobody may overwrite.
pub fn own(run: &Run<'_>, skipped: &mut [SkippedEntry], left: &BTreeSet<Vec<u8>>) -> Result<Option<HashSet<Vec<u8>>>> {
    if !skipped.iter().any(|skipped| skipped.why == Why::Taken) {
        return Ok(None);
    }
    let (plan, lost) = (run.plan, run.lost());
    say_lost_links(plan, &lost, skipped)?;
    let items = plan.items.iter().map(|item| (item.folder, item.index));
    let links = plan.links.iter().map(|link| (link.folder, link.index));
    let made = items.chain(links).filter(|(folder, index)| !lost.has(*folder, *index));
    let mut own = made.map(|(folder, index)| path(plan, folder, index)).collect::<Result<HashSet<_>>>()?;
    plan.each_overwritten(&mut |path| _ = own.insert(path.to_vec()))?;
    own.retain(|path| !left.contains(path));
    Ok(Some(own))
}

fn path(plan: &Plan, folder: u32, index: u32) -> Result<Vec<u8>> {
    Ok(entry_path(&plan.folders, folder, &plan.node(folder, index)?.name))
}

/// Adds to what is skipped which names were to be one file with something in it.
fn say_lost_links(plan: &Plan, lost: &FailedEntries, skipped: &mut [SkippedEntry]) -> Result<()> {
    for taken in skipped.iter_mut().filter(|skipped| skipped.why == Why::Taken) {
        let mut parted = Vec::new();
        for link in &plan.links {
            let ends = [(link.from_folder, link.from_index), (link.folder, link.index)];
            if lost.has(ends[0].0, ends[0].1) == lost.has(ends[1].0, ends[1].1) {
                continue;
            }
            let (gone, there) = if lost.has(ends[0].0, ends[0].1) { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
            let (gone, there) = (path(plan, gone.0, gone.1)?, path(plan, there.0, there.1)?);
            if name::as_path(&gone).starts_with(name::as_path(&taken.path)) {
                parted.push(format!("{} is not joined to {}", name::display(&there), name::display(&gone)));
            }
        }
        let more = parted.len().saturating_sub(NAMED_MAX);
        parted.truncate(NAMED_MAX);
        parted.extend((more > 0).then(|| format!("{more} more names are not joined")));
        for text in parted {
            taken.error.push_str("; ");
            taken.error.push_str(&text);
        }
    }
    Ok(())
}

/// The plan of another try; none where it would overwrite anything else: nobody has agreed to lose that.
pub fn next(
    store: &Store,
    checkpoint: &Checkpoint,
    options: &Options,
    own: &HashSet<Vec<u8>>,
    progress: &dyn Progress,
) -> Option<Plan> {
    // What stands in the way of it was said by the first try. What that has written is newer than any safety checkpoint.
    let plan = plan(store, checkpoint, &Options { since: None, ..options.clone() }, progress).ok()?;
    // Nothing is lost of a file that is joined to one like it.
    let same = plan.links.iter().filter(|link| link.is_same).map(|link| path(&plan, link.folder, link.index));
    let same = same.collect::<Result<HashSet<_>>>().ok()?;
    let mut overwrites = false;
    plan.each_overwritten(&mut |path| overwrites |= !own.contains(path) && !same.contains(path)).ok()?;
    (!overwrites).then_some(plan)
}

/// The report of both: the first one's counts with what was made since, and what is still missing.
pub fn both(first: RestoreReport, mut second: RestoreReport) -> RestoreReport {
    let mut counts = first.counts;
    let more = second.counts;
    // Everything that the first has made is unchanged for the second.
    let unchanged = counts.unchanged;
    counts.merge(&more);
    counts.unchanged = unchanged;
    (counts.kept, counts.spared, counts.mounted) = (more.kept, more.spared, more.mounted);
    second.counts = counts;
    // What the first has emptied may be whole for the second: nothing of it goes any more.
    for kept in first.kept {
        if !second.kept.iter().any(|known| known.path == kept.path) {
            second.kept.push(kept);
        }
    }
    second.foreign_owners = second.foreign_owners.max(first.foreign_owners);
    let again = std::mem::replace(&mut second.parted, first.parted);
    for parted in again {
        if !second.parted.contains(&parted) {
            second.parted.push(parted);
        }
    }
    second.links_outside = second.parted.iter().flat_map(|parted| parted.outside.clone()).collect();
    second
}
