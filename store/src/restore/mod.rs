//! Restore: makes a folder what it is in a checkpoint.
//!
//! Plan: pin the checkpoint, then walk its tree, in step with the live folder where there is one. Execute: build what is new under
//! temporary names, in the order in which it lies in the store; sync; rename; remove; sync; leave a stat cache. Until the renames
//! begin, nothing that was there is touched.

mod again;
mod building;
mod compare;
mod descent;
mod entries;
mod guard;
mod held;
mod link_plan;
mod medium;
mod meta;
mod opened;
mod plan;
mod publish;
mod remove;
mod run;
mod seed;
mod select;
mod skipped;
mod staged;
mod summary;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod trust;
mod verify;
mod walk;
mod write;

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

pub use building::{is_being_built, is_staged};
pub use plan::{Plan, plan};
pub use skipped::{SkippedEntry, Why};
pub(crate) use staged::clear_dead;
pub use summary::{Counts, RestoreChange, Summary};

use crate::{
    clock::Clock,
    error::{Error, Result},
    filesystem, name,
    pin::Pin,
    progress::{Phase, Progress},
    record::Checkpoint,
    store::Store,
    tree::Time,
};
use again::Attempt;
use publish::PublishOutcome;
use run::{Run, StagingFolder, Stamps};
use schemars::JsonSchema;
use serde::Serialize;

/// Options of a restore.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder to make or to change; for a sub-path that is no folder, the entry to make.
    pub target: PathBuf,
    /// The part to restore, from the workspace folder; empty for all of it.
    pub subpath: Vec<u8>,
    /// Change an existing folder, touching only what differs.
    pub in_place: bool,
    /// Remove what the checkpoint does not have, but for what its capture left out.
    pub delete: bool,
    /// Paths from the target that are left as they are, with all that is in them: neither changed nor removed.
    pub spare: Vec<Vec<u8>>,
    /// Names that are left as they are wherever something has them, in every folder. A folder that holds one is not removed either, nor
    /// what else is in it. What has such a name in the checkpoint is restored where nothing has it.
    pub untouched: Vec<Vec<u8>>,
    /// Restore only what these patterns match, in gitignore syntax; everything where there are none.
    pub include: Vec<String>,
    /// Pass over what these patterns match.
    pub exclude: Vec<String>,
    /// Leave, and name, what was changed at this time or later, by the stamps of local filesystems: when the safety checkpoint began that has
    /// the rest.
    pub since: Option<Time>,
    /// Read what was written once more.
    pub verify: bool,
    /// Restore setuid and setgid bits, devices, and attributes that give privileges also where [`Store::distrusts`] the checkpoint.
    pub preserve_special: bool,
    /// Most threads that work at the same time; 0 counts as 1.
    pub threads: usize,
}

impl Options {
    /// All of a checkpoint, into a folder.
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Options {
            target: target.into(),
            subpath: Vec::new(),
            in_place: false,
            delete: false,
            spare: Vec::new(),
            untouched: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            since: None,
            verify: false,
            preserve_special: false,
            threads: std::thread::available_parallelism().map_or(2, NonZeroUsize::get),
        }
    }
}

/// Report of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreReport {
    /// The plan's counts, but for what was skipped.
    pub counts: Counts,
    /// Entries that belong to the caller instead of their owner, for want of privilege.
    pub foreign_owners: u64,
    /// Entries that could not be made as they were.
    pub skipped: Vec<SkippedEntry>,
    /// Entries that the checkpoint does not have and that stay on purpose ([`Plan::kept`]).
    pub kept: Vec<SkippedEntry>,
    /// Hard-linked files that were written without some of their names.
    pub parted: Vec<SplitHardLink>,
    /// All the names in [`SplitHardLink::outside`].
    pub links_outside: Vec<String>,
}

/// A hard-linked file that was restored without some of its names, which lie outside of what was restored.
// Names are as `name::display` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SplitHardLink {
    /// Names that were restored, as paths in the checkpoint.
    pub names: Vec<String>,
    /// Names that lie outside, as paths in the checkpoint.
    pub outside: Vec<String>,
}

/// Does what a plan says. Where somebody else takes names meanwhile that the plan had found free, as a restore of a folder inside does, the
/// rest is planned and done once more, as long as nothing is overwritten by that but what this restore has written.
pub fn execute(store: &Store, checkpoint: &Checkpoint, plan: Plan, progress: &dyn Progress) -> Result<RestoreReport> {
    let options = plan.options.clone();
    let mut tried = attempt(store, checkpoint, plan, progress)?;
    for _ in 1..again::TRIES_MAX {
        let Some(own) = tried.own.take() else { break };
        let Some(plan) = again::next(store, checkpoint, &options, &own, progress) else { break };
        // Where that fails, what the first try has not made is still said.
        let Ok(next) = attempt(store, checkpoint, plan, progress) else { break };
        let all = next.own.map(|more| more.into_iter().chain(own).collect());
        tried = Attempt { report: again::both(tried.report, next.report), own: all };
    }
    Ok(tried.report)
}

/// Does what a plan says, once.
fn attempt(store: &Store, checkpoint: &Checkpoint, mut plan: Plan, progress: &dyn Progress) -> Result<Attempt> {
    let began = Clock::now();
    // What cannot be cleared now is in nobody's way.
    let _ = staged::clear_dead(store.layout());
    let mut pin = plan.pin.take();
    if let Some(pin) = &mut pin {
        pin.leaves(plan.leaves())?;
    }
    let published = AtomicBool::new(false);
    let step = |folder: u32| run::step(&plan, published.load(Ordering::Relaxed), folder);
    let staging = match StagingFolder::open(store, &plan) {
        Ok(staging) => staging,
        Err((e, is_clear)) => return Err(let_go(pin, is_clear, e)),
    };
    let run = match Run::new(store, &plan, progress, &staging, &step) {
        Ok(run) => run,
        Err(e) => return Err(let_go(pin, staging.remove(), e)),
    };
    let mut opened = Vec::new();
    let done = run.closed_folders().and_then(|closed| {
        if let Some(pin) = pin.as_mut().filter(|_| !closed.is_empty()) {
            pin.leaves(plan.leaves().and_opened(run.paths_of(&closed)))?;
        }
        opened = closed;
        run.open_up(&opened)?;
        build(&run).and_then(|done| publish(&run, done, &|| published.store(true, Ordering::Relaxed)))
    });
    let is_cleared = if done.is_ok() { !run.is_littered.load(Ordering::Relaxed) } else { run.abandon() };
    let is_clear = is_cleared & run.close(&opened, done.is_ok());
    let (done, out) = match done {
        Ok(done) => done,
        Err(e) => return Err(let_go(pin, is_clear, e)),
    };
    let mut skipped = std::mem::take(&mut *run.skipped.lock().unwrap_or_else(PoisonError::into_inner));
    let left = plan.spared.guard().map(|guard| guard.left()).unwrap_or_default();
    let own = again::own(&run, &mut skipped, &left)?;
    let left = left.into_iter().map(|path| SkippedEntry { path, error: guard::CHANGED.to_owned(), why: Why::Changed });
    let shown = |paths: &[Vec<u8>]| paths.iter().map(|path| name::display(path)).collect::<Vec<_>>();
    let report = RestoreReport {
        counts: run.made(&out)?,
        foreign_owners: run.foreign.load(Ordering::Relaxed),
        skipped: plan.blocked().chain(skipped).chain(left).collect(),
        kept: plan.kept.iter().filter(|kept| !kept.is_part).map(|kept| plan.kept_as(kept)).chain(out.kept).collect(),
        parted: plan.parted.iter().map(|p| SplitHardLink { names: shown(&p.names), outside: shown(&p.outside) }).collect(),
        links_outside: plan.parted.iter().flat_map(|p| shown(&p.outside)).collect(),
    };
    let target = filesystem::of(std::os::fd::AsFd::as_fd(&staging.root));
    drop(run);
    // Nothing can be told from stamps of another clock before they have published.
    let may_seed = plan.is_whole && plan.options.preserve_special && target.is_stamped_here;
    if may_seed {
        seed::enter(&mut plan, done, target.id);
        // Without a stat cache the next checkpoint only takes longer.
        if let Err(e) = seed::write(store, checkpoint, &plan, &began) {
            progress.notice(&format!("no stat cache was left: {e}"));
        }
    }
    if let Some(pin) = pin.filter(|_| !is_clear) {
        pin.leave();
    }
    Ok(Attempt { report, own })
}

/// Ends a restore that has failed. Its pin stays where it leads to something that the next run has to clear.
fn let_go(pin: Option<Pin>, is_clear: bool, error: Error) -> Error {
    if let Some(pin) = pin.filter(|_| !is_clear) {
        pin.leave();
    }
    error
}

/// Makes everything that is new, under temporary names, and brings it to the medium.
fn build(run: &Run<'_>) -> Result<Stamps> {
    let counts = &run.plan.summary.counts;
    let files = counts.files_created + counts.others_created + counts.replaced;
    run.progress.phase(Phase::Restore, Some(files), Some(counts.bytes));
    run.make_folders()?;
    let mut done = run.write_entries()?;
    done.add(run.make_links()?);
    done.add(run.finish_folders(true)?);
    if run.plan.options.verify {
        run.verify()?;
    }
    crate::progress::check(run.progress)?;
    run.progress.phase(Phase::Commit, None, None);
    if !run.is_empty() {
        run.sync()?;
    }
    Ok(done)
}

/// Gives everything its name.
fn publish(run: &Run<'_>, mut done: Stamps, published: &dyn Fn()) -> Result<(Stamps, PublishOutcome)> {
    if run.staging.beside.is_some() {
        run.publish_new()?;
        return Ok((done, PublishOutcome::default()));
    }
    let mut out = run.publish_in_place(published)?;
    run.sync()?;
    done.add(std::mem::take(&mut out.done));
    run.look_again(&mut done)?;
    Ok((done, out))
}
