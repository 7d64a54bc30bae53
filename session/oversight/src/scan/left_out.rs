//! Leaving files with possible secrets out of checkpoints, before anything of them is stored.

use std::collections::BTreeSet;

use parhelia_store::{
    Store,
    create::Judge,
    diff::{ChangeKind, TreeChange},
    name,
    omitted::{Omission, Reason},
    record::Checkpoint,
};

use super::{
    FINDINGS_NAMED,
    book::{Book, REASON},
};
use parhelia_host::{
    Result,
    config::{self, OnFinding},
    notice::{Notice, Secrets},
};

/// The judge that leaves out files with possible secrets, if the settings ask for that.
pub fn judge(store: &Store, settings: &config::Secrets) -> Result<Option<Judge>> {
    if settings.on_finding != OnFinding::LeaveOut {
        return Ok(None);
    }
    Ok(Book::new(store, settings)?.map(|book| book.judge(true)))
}

/// True if an entry was left out because of a possible secret.
pub fn is_left_out(omission: &Omission) -> bool {
    matches!(&omission.reason, Reason::Excluded(why) if why.starts_with(REASON))
}

/// A notice of the files that a checkpoint leaves out, for whoever restores it.
pub fn left_out_of(store: &Store, checkpoint: &Checkpoint) -> Result<Option<Notice>> {
    let NewlyLeftOut { files, new } = NewlyLeftOut::of(store, checkpoint, None)?;
    let first = new.into_iter().take(FINDINGS_NAMED).collect();
    Ok((files > 0).then_some(Notice::Secrets(Secrets::LeftOut { checkpoint: checkpoint.record.id, files, first })))
}

/// The files that a checkpoint leaves out because of possible secrets.
#[derive(Default)]
pub(super) struct NewlyLeftOut {
    /// Their number.
    pub(super) files: u64,
    /// Those that the parent does not leave out, each with the reason.
    pub(super) new: Vec<String>,
}

impl NewlyLeftOut {
    pub(super) fn of(store: &Store, made: &Checkpoint, parent: Option<&Checkpoint>) -> Result<Self> {
        let omissions = |checkpoint: &Checkpoint| store.omissions(checkpoint);
        let mut now = omissions(made)?;
        now.retain(is_left_out);
        let before: BTreeSet<Vec<u8>> = match parent.filter(|_| !now.is_empty()) {
            Some(parent) => omissions(parent)?.into_iter().filter(is_left_out).map(|omission| omission.path).collect(),
            None => BTreeSet::new(),
        };
        let new = now.iter().filter(|omission| !before.contains(&omission.path)).map(named).collect();
        Ok(NewlyLeftOut { files: now.len() as u64, new })
    }
}

fn named(omission: &Omission) -> String {
    let why = match &omission.reason {
        Reason::Excluded(why) => why.strip_prefix(REASON).unwrap_or(why),
        _ => "",
    };
    format!("{} ({why})", name::display(&omission.path))
}

/// The files that two states leave out because of possible secrets: that one has such a file, and the other has not, is no change of it.
#[derive(Debug, Default)]
pub struct LeftOut {
    old: BTreeSet<Vec<u8>>,
    new: BTreeSet<Vec<u8>>,
}

impl LeftOut {
    /// Those of an older and a newer state, by what each leaves out.
    pub fn of(old: Vec<Omission>, new: Vec<Omission>) -> Self {
        let paths = |all: Vec<Omission>| all.into_iter().filter(is_left_out).map(|omission| omission.path).collect();
        LeftOut { old: paths(old), new: paths(new) }
    }

    /// True if a change is none, but a file that is left out of one of them.
    pub fn is(&self, change: &TreeChange) -> bool {
        match change.kind {
            ChangeKind::Added => self.old.contains(&change.path),
            ChangeKind::Deleted => self.new.contains(&change.path),
            _ => false,
        }
    }
}
