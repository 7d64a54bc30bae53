//! Restore: makes a folder what it is in a checkpoint.
//!
//! Plan: pin the checkpoint, then walk its tree, in step with the live folder where there is one. Execute: build what is new under
//! temporary names, in the order in which it lies in the store; sync; rename; remove; sync; leave a stat cache. Until the renames
//! begin, nothing that was there is touched.

mod compare;
mod entries;
mod join;
mod medium;
mod meta;
mod plan;
mod pool;
mod remove;
mod run;
mod seed;
mod select;
mod settle;
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
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub use plan::{Plan, plan};
pub use run::Skipped;
pub(crate) use staged::clear_dead;
pub use staged::is_staged;
pub use summary::{Change, Counts, Summary};

use crate::{
    clock::Clock,
    error::Result,
    filesystem,
    progress::{Phase, Progress},
    record::Checkpoint,
    store::Store,
    sys,
};
use run::{Done, Run, Staging};
use settle::Settled;

/// What to restore, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder to make or to change; for a sub-path that is no folder, the entry to make.
    pub target: PathBuf,
    /// What to restore, from the workspace folder; empty for all of it.
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
    /// Read what was written once more.
    pub verify: bool,
    /// Restore setuid and setgid bits, devices, and attributes that give privileges also where [`Store::distrusts`] the checkpoint.
    pub preserve_special: bool,
    /// How many threads to use.
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
            verify: false,
            preserve_special: false,
            threads: std::thread::available_parallelism().map_or(2, NonZeroUsize::get),
        }
    }
}

/// What a restore has done.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    /// Files written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Folders made.
    pub folders: u64,
    /// Names joined to files.
    pub links: u64,
    /// Entries removed.
    pub deleted: u64,
    /// Entries that the checkpoint does not have, and that are there still.
    pub kept: u64,
    /// Entries of which only the metadata was changed.
    pub metadata_changed: u64,
    /// Entries, other than folders, that were as they should be.
    pub unchanged: u64,
    /// Entries that belong to the caller instead of their owner, for want of privilege.
    pub foreign_owners: u64,
    /// What could not be made as it was.
    pub skipped: Vec<Skipped>,
    /// Hard links of restored files to files outside what was restored, as [`crate::name::display`] shows them.
    pub links_outside: Vec<String>,
}

/// Does what a plan says.
pub fn execute(store: &Store, checkpoint: &Checkpoint, mut plan: Plan, progress: &dyn Progress) -> Result<Report> {
    let began = Clock::now();
    plan.note_place()?;
    let staging = Staging::open(store, &plan)?;
    let settled = AtomicBool::new(false);
    let step = |folder: u32| run::step(&plan, settled.load(Ordering::Relaxed), folder);
    let run = Run {
        store,
        plan: &plan,
        progress,
        staging: &staging,
        dirs: table::Dirs::new(staging.root.clone(), &step),
        written: run::written(&plan),
        not_made: Default::default(),
        skipped: Default::default(),
        foreign: AtomicU64::new(0),
        syncs_each: sys::is_fuse(std::os::fd::AsFd::as_fd(&staging.root)),
    };
    let done = build(&run).and_then(|done| settle(&run, done, &|| settled.store(true, Ordering::Relaxed)));
    let (done, out) = done.inspect_err(|_| run.abandon())?;
    let counts = &plan.summary.counts;
    let report = Report {
        files: done.files,
        bytes: done.bytes,
        folders: counts.folders_created,
        links: counts.linked,
        deleted: out.deleted,
        kept: counts.kept,
        metadata_changed: out.metadata,
        unchanged: counts.unchanged,
        foreign_owners: run.foreign.load(Ordering::Relaxed),
        skipped: std::mem::take(&mut *run.skipped.lock().unwrap_or_else(PoisonError::into_inner)),
        links_outside: plan.links_outside.iter().map(|path| crate::name::display(path)).collect(),
    };
    let target = filesystem::of(std::os::fd::AsFd::as_fd(&staging.root));
    drop(run);
    // Nothing can be told from stamps of another clock before they have settled.
    let may_seed = plan.is_whole && plan.options.preserve_special && target.is_stamped_here;
    if may_seed {
        seed::enter(&mut plan, done, target.id);
        // Without a stat cache the next checkpoint only takes longer.
        if let Err(e) = seed::write(store, checkpoint, &plan, &began) {
            progress.notice(&format!("no stat cache was left: {e}"));
        }
    }
    Ok(report)
}

/// Makes everything that is new, under temporary names, and brings it to the medium.
fn build(run: &Run<'_>) -> Result<Done> {
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
fn settle(run: &Run<'_>, mut done: Done, settled: &dyn Fn()) -> Result<(Done, Settled)> {
    if run.staging.beside.is_some() {
        run.settle_fresh()?;
        return Ok((done, Settled::default()));
    }
    let mut out = run.settle_in_place(settled)?;
    run.sync()?;
    done.add(std::mem::take(&mut out.done));
    run.look_again(&mut done)?;
    Ok((done, out))
}
