//! Verifying one checkpoint.

use super::{
    Hurt,
    parts::{self, Lack},
    reach::{Reach, Trust},
    share,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    damaged::{self, DamageSet},
    error::{Error, Result},
    id::{ObjectKey, Ulid},
    journal::Journal,
    progress::Progress,
    record::Checkpoint,
    store::Store,
};

/// A look starts over this often where garbage collection disturbs it.
const TRIES_MAX: u32 = 5;

/// Problems beyond this many are only counted.
const PROBLEMS_MAX: usize = 100_000;

/// Damage of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Path in the workspace; empty for the checkpoint as a whole.
    pub path: String,
    /// The damage.
    pub error: String,
}

/// Thoroughness of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyLevel {
    /// As of `Index`, but of what the checkpoint does not share with its parent alone, as that was found whole before.
    New,
    /// Every tree was read, and every chunk is where the index says.
    Index,
    /// As of `Index`, and a part of the content was read and hashed as well.
    Part,
    /// Every byte was read and hashed as well.
    Deep,
}

/// The outcome of [`verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Id of the verified checkpoint.
    pub checkpoint: Ulid,
    /// Its checksum, which covers everything in it.
    pub checksum: String,
    /// Its thoroughness.
    pub level: VerifyLevel,
    /// Number of regular files in its workspace, by its record.
    pub files: u64,
    /// Length of these files in bytes, holes included.
    pub bytes: u64,
    /// Tree nodes that were read.
    pub trees: u64,
    /// Bytes of different content that were read and hashed.
    pub read_bytes: u64,
    /// ... and that were not: of them, it is only known where they are said to lie.
    pub unread_bytes: u64,
    /// The faults.
    pub problems: Vec<Problem>,
    /// Number of further paths that are touched.
    pub problems_more: u64,
    /// Parts that failed when it was made, or that are not there though they were captured.
    pub lacks: Vec<Lack>,
}

impl VerifyReport {
    /// True if nothing is damaged.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// True if every part that should be there is.
    pub fn is_complete(&self) -> bool {
        self.lacks.is_empty()
    }
}

/// Checks a checkpoint that was made just now: that its trees and recipes can be read, and that every chunk is in the index. What it
/// shares with `verified`, a checkpoint that was found whole before, is not looked at again.
pub fn verify_new(
    store: &Store,
    checkpoint: &Checkpoint,
    verified: Option<&Checkpoint>,
    progress: &dyn Progress,
) -> Result<VerifyReport> {
    undisturbed(store, checkpoint, || {
        // What was whole then may be among what is known to be damaged now.
        let Some(verified) = verified.filter(|_| DamageSet::read(store.layout()).is_empty()) else {
            let reach = Reach::new(store, Trust::Index(all_keys(store, checkpoint)?));
            return report(reach, checkpoint, VerifyLevel::Index, progress);
        };
        let mut reach = Reach::new(store, Trust::Index(None));
        reach.know(verified, checkpoint);
        report(reach, checkpoint, VerifyLevel::New, progress)
    })
}

/// Looks again where garbage collection has moved what was looked at, and the checkpoint still exists.
fn undisturbed(store: &Store, checkpoint: &Checkpoint, look: impl Fn() -> Result<VerifyReport>) -> Result<VerifyReport> {
    for _ in 0..TRIES_MAX {
        let before = store.refresh()?.end().clone();
        let found = look();
        match &found {
            Ok(report) if !report.is_ok() => {}
            Err(e) if e.is_not_found() || e.is_damage() => {}
            _ => return found,
        }
        if !Journal::of(store.layout()).has_collected_since(&before)? {
            return found;
        }
        if store.reopen()?.checkpoint(checkpoint.record.id)?.is_none() {
            return Err(Error::NoCheckpoint { selector: checkpoint.id().to_string() });
        }
    }
    Err(Error::Overtaken { tries: TRIES_MAX })
}

/// The keys of all objects, where reading all of them costs less than looking up each of the checkpoint's.
fn all_keys(store: &Store, checkpoint: &Checkpoint) -> Result<Option<Vec<ObjectKey>>> {
    // One look-up takes as long as reading some ten entries in order.
    const READ_PER_LOOKUP: u64 = 8;
    let view = store.view();
    let few = view.objects_estimate()? <= checkpoint.record.workspace.files.saturating_mul(READ_PER_LOOKUP);
    few.then(|| view.object_keys()).transpose()
}

/// Checks one checkpoint: that its record, trees and recipes can be read and hash to their ids, and that its chunks are where they should
/// be. With `deep`, the chunks are read and hashed as well, and each file's bytes together. Each way, that the parts it says it has are there.
pub fn verify(store: &Store, checkpoint: &Checkpoint, deep: bool, progress: &dyn Progress) -> Result<VerifyReport> {
    verify_up_to(store, checkpoint, if deep { u64::MAX } else { 0 }, progress)
}

/// Checks one checkpoint as [`verify`] does, and reads and hashes as much of its content as `content_bytes_max`: all of it where that is
/// enough, and else files that are chosen anew each time, so that one verification after the other comes to all.
pub fn verify_up_to(
    store: &Store,
    checkpoint: &Checkpoint,
    content_bytes_max: u64,
    progress: &dyn Progress,
) -> Result<VerifyReport> {
    undisturbed(store, checkpoint, || {
        if checkpoint.record.workspace.bytes <= content_bytes_max && content_bytes_max > 0 {
            return report(Reach::new(store, Trust::Bytes), checkpoint, VerifyLevel::Deep, progress);
        }
        let mut reach = Reach::new(store, Trust::Directories(Default::default(), Default::default()));
        reach.choose_content(content_bytes_max, checkpoint.record.workspace.bytes);
        report(reach, checkpoint, VerifyLevel::Index, progress)
    })
}

fn report(mut reach: Reach<'_>, checkpoint: &Checkpoint, level: VerifyLevel, progress: &dyn Progress) -> Result<VerifyReport> {
    reach.checkpoint(checkpoint, progress)?;
    let store = reach.store;
    damaged::note(store, reach.damaged_blocks(), None);
    let mut report = VerifyReport {
        checkpoint: checkpoint.record.id,
        checksum: checkpoint.checksum(),
        level: match level {
            VerifyLevel::Deep if reach.has_read_all() => level,
            VerifyLevel::Deep | VerifyLevel::Index if reach.read_bytes > 0 => VerifyLevel::Part,
            VerifyLevel::Deep => VerifyLevel::Index,
            other => other,
        },
        files: checkpoint.record.workspace.files,
        bytes: checkpoint.record.workspace.bytes,
        trees: reach.trees(),
        read_bytes: reach.read_bytes,
        unread_bytes: reach.unread_bytes,
        problems: Vec::new(),
        problems_more: 0,
        lacks: parts::lacks(reach.store, checkpoint),
    };
    let (mut problems, mut problems_more) = (Vec::new(), 0);
    let mut name = |hurt: &Hurt| {
        match problems.len() < PROBLEMS_MAX {
            true => problems.push(Problem { path: hurt.path.clone(), error: hurt.error.clone() }),
            false => problems_more += 1,
        }
        Ok(())
    };
    let named = reach.findings(std::slice::from_ref(checkpoint), &mut name, progress)?;
    // What is wrong and at no place of the checkpoint.
    let elsewhere = named.findings.into_iter().filter(|finding| finding.touches.is_empty() && finding.touches_more == 0);
    report.problems = elsewhere.map(|finding| Problem { path: String::new(), error: finding.message }).chain(problems).collect();
    report.problems_more = problems_more;
    if !report.is_ok() {
        share::note_problems(store.layout(), report.problems.len() as u64 + problems_more);
    }
    Ok(report)
}
