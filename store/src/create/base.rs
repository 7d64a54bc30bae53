//! The checkpoint whose content the stat cache names, and which can be reused.

use std::path::Path;

use super::{Options, exclude::Excluder};
use crate::{
    clock::Clock, error::Result, omitted::Omission, pin::Pin, progress::Progress, record::Checkpoint, statcache::StatCache,
    store::Store,
};

/// A stat cache with its checkpoint: both or neither.
pub(super) struct Base {
    pub(super) cache: Option<StatCache>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Entries that the checkpoint left out, in order.
    pub(super) omissions: Vec<Omission>,
}

impl Base {
    /// Pins and reads what can be reused for a workspace.
    pub(super) fn open(
        store: &Store,
        options: &Options,
        workspace: &Path,
        clock: &Clock,
        pin: &mut Pin,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let cache = StatCache::open(store.layout(), workspace).filter(|cache| !reads_all(options, cache, clock, progress));
        let checkpoint = pin_base(store, Some(pin), cache.as_ref())?;
        let (checkpoint, omissions) = read_base(store, checkpoint, progress)?;
        let cache = cache.filter(|_| checkpoint.is_some());
        Ok(Base { cache, checkpoint, omissions })
    }
}

/// True if entries that a source calls unchanged may stay as the stat cache and its checkpoint have them: only by the same rules, and if
/// what the checkpoint left out belongs to that cache.
pub(super) fn continues(base: Option<&Checkpoint>, cache: Option<&StatCache>, excluder: &Excluder, options: &Options) -> bool {
    let (Some(base), Some(cache)) = (base, cache) else { return false };
    let has_same_rules = options.listed.is_none() && base.record.rules == *excluder.rules();
    base.record.id == cache.trailer.base && has_same_rules
}

/// True if every file is to be read, though there is a cache.
fn reads_all(options: &Options, cache: &StatCache, now: &Clock, progress: &dyn Progress) -> bool {
    let age_secs = now.time.secs.saturating_sub(cache.trailer.read_all_at_secs);
    let is_due = options.read_all_after_secs.is_some_and(|after| u64::try_from(age_secs).is_ok_and(|age| age >= after));
    if is_due && !options.thorough {
        progress.notice(&format!("reading every file: the last time was {} days ago", age_secs / 86_400));
    }
    options.thorough || is_due
}

/// Pins the checkpoint whose content the stat cache names, so that all of it can be reused. `None` where it is gone.
pub(super) fn pin_base(store: &Store, mut pin: Option<&mut Pin>, cache: Option<&StatCache>) -> Result<Option<Checkpoint>> {
    let Some(cache) = cache else {
        store.refresh()?;
        return Ok(None);
    };
    let base = cache.trailer.base;
    if let Some(pin) = &mut pin {
        pin.add([base])?;
    }
    let view = store.refresh()?;
    if let Some(found) = view.checkpoint(base)?.filter(|found| found.record.root == cache.trailer.root) {
        return Ok(Some(found));
    }
    // The checkpoint is gone, but another one with the same root keeps the same content.
    let Some(other) = view.checkpoints()?.iter().rev().find(|c| c.record.root == cache.trailer.root) else { return Ok(None) };
    if let Some(pin) = pin {
        pin.add([other.record.id])?;
    }
    store.refresh()?.checkpoint(other.record.id)
}

/// The omissions of the checkpoint whose content the stat cache names. Without one that is damaged everything is read.
fn read_base(store: &Store, base: Option<Checkpoint>, progress: &dyn Progress) -> Result<(Option<Checkpoint>, Vec<Omission>)> {
    let Some(base) = base else { return Ok((None, Vec::new())) };
    match store.omissions(&base) {
        Ok(mut omissions) => {
            omissions.sort_unstable();
            Ok((Some(base), omissions))
        }
        Err(e) if e.is_damage() => {
            progress.notice(&format!("{} is damaged, so that everything is read: {e}", base.id()));
            Ok((None, Vec::new()))
        }
        Err(e) => Err(e),
    }
}
