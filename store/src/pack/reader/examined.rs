//! Packs that were examined lately: of one with damage that its parity does not give back, each damaged block is a reason to look at all of it,
//! and the second look would find what the first one found.

use std::{
    cell::Cell,
    collections::HashMap,
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    clock::{self, nanos_between},
    meta::Time,
    pack::parity::{ParityReport, examine},
};

/// After that, a pack is looked at anew: disks go on decaying.
const AGE_MAX: Duration = Duration::from_secs(60);
/// The same, where the disk could not read all of it: that may pass, and is only remembered for those who read block after block.
const AGE_UNREAD_MAX: Duration = Duration::from_secs(2);
/// A file that was written so lately may have changed again within the same stamp.
const SETTLED_NANOS: i64 = 100_000_000;
/// Bytes of healed shards that are kept. With more, all is forgotten.
const BYTES_MAX: usize = 64 << 20;

/// What tells a file from others, and from what it was before somebody wrote to it.
type Stamp = (u64, u64, u64, i64, i64);

/// The result of an examination.
#[derive(Clone)]
pub(super) struct Outcome {
    /// `None` where the pack has no parity, or nothing tells how it is divided.
    pub(super) examined: Option<Arc<ParityReport>>,
    /// True if the disk could not read all of it.
    pub(super) unread: bool,
}

struct CachedOutcome {
    at: Instant,
    outcome: Outcome,
}

impl CachedOutcome {
    fn is_young(&self) -> bool {
        self.at.elapsed() < if self.outcome.unread { AGE_UNREAD_MAX } else { AGE_MAX }
    }
}

static KNOWN: LazyLock<Mutex<HashMap<Stamp, CachedOutcome>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashMap<Stamp, CachedOutcome>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a pack's last examination, at most [`AGE_MAX`] old. `None` where it cannot be examined.
pub(super) fn lately(file: &File) -> Option<Outcome> {
    let meta = file.metadata().ok()?;
    if let Some(found) = known().get(&stamp(&meta)).filter(|found| found.is_young()) {
        return Some(found.outcome.clone());
    }
    let (began, unread) = (clock::now(), Cell::new(false));
    let examined = examine(file, &unread).ok()?.map(Arc::new);
    let outcome = Outcome { examined, unread: unread.get() };
    let changed = Time { secs: meta.ctime(), nanos: meta.ctime_nsec() as u32 };
    if nanos_between(changed, began) > SETTLED_NANOS {
        let mut known = known();
        known.retain(|_, found| found.is_young());
        let bytes =
            |outcome: &Outcome| outcome.examined.iter().flat_map(|found| found.healed.values()).map(Vec::len).sum::<usize>();
        let kept: usize = known.values().map(|found| bytes(&found.outcome)).sum();
        if kept + bytes(&outcome) > BYTES_MAX {
            known.clear();
        }
        known.insert(stamp(&meta), CachedOutcome { at: Instant::now(), outcome: outcome.clone() });
    }
    Some(outcome)
}

/// Has a pack be examined anew, whenever it was.
pub(super) fn forget(file: &File) {
    if let Ok(meta) = file.metadata() {
        known().remove(&stamp(&meta));
    }
}

fn stamp(meta: &Metadata) -> Stamp {
    (meta.dev(), meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec())
}
