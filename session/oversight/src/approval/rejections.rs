//! Checkpoints that a person rejected, and what follows for others: those with the same content, and those that build on one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_ledger::{Approval, ApprovalStatus, LedgerView as _, RejectedContent};
use parhelia_store::{Store, id::Ulid, record::Checkpoint, view::View};

use parhelia_host::Result;

/// The effect of a rejection on a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taint {
    /// It was rejected itself.
    Itself {
        /// The person.
        by: Option<String>,
    },
    /// Its files are those of one that was rejected, which had come with that change.
    Content {
        /// The rejected one.
        of: Ulid,
    },
    /// It came from one that was rejected.
    BuildsOn {
        /// The rejected one.
        on: Ulid,
    },
}

impl Taint {
    /// It as a predicate.
    pub fn text(&self) -> String {
        match self {
            Taint::Itself { by: Some(by) } => format!("was rejected by {by}"),
            Taint::Itself { by: None } => "was rejected".to_owned(),
            Taint::Content { of } => format!("has the content of {of}, which was rejected"),
            Taint::BuildsOn { on } => format!("builds on {on}, which was rejected"),
        }
    }

    /// True if nothing goes on from it; what builds on a rejected one waits for a person.
    pub fn is_rejection(&self) -> bool {
        !matches!(self, Taint::BuildsOn { .. })
    }
}

/// A rejection: by whom, when, and of what.
struct Rejection {
    by: Option<String>,
    at: Timestamp,
    of: RejectedContent,
}

/// All rejected checkpoints of a store, deleted ones included.
pub struct Rejections<'s> {
    store: &'s Store,
    view: std::sync::Arc<View>,
    rejected: BTreeMap<Ulid, Rejection>,
}

impl<'s> Rejections<'s> {
    /// Those of now. Costs nothing where there are none.
    pub fn of(store: &'s Store) -> Result<Self> {
        let view = store.view();
        let mut found = Rejections { store, view, rejected: BTreeMap::new() };
        for id in found.view.rejected()? {
            let Some(approval) = found.view.marks(id)?.approval else { continue };
            let of = match (approval.rejected, found.view.checkpoint(id)?) {
                (Some(told), _) => told,
                (None, Some(checkpoint)) => RejectedContent::of(store, &found.view, &checkpoint)?,
                // An earlier release deleted it, and nobody knows what it had.
                (None, None) => continue,
            };
            found.rejected.insert(id, Rejection { by: approval.user, at: approval.timestamp, of });
        }
        Ok(found)
    }

    /// The effect on a checkpoint. One that a person approved since is as good as that person says.
    pub fn taint(&self, checkpoint: &Checkpoint) -> Result<Option<Taint>> {
        if self.rejected.is_empty() {
            return Ok(None);
        }
        let record = &checkpoint.record;
        if let Some(rejected) = self.rejected.get(&record.id) {
            return Ok(Some(Taint::Itself { by: rejected.by.clone() }));
        }
        if self.is_by_person(record.id)? {
            return Ok(None);
        }
        if let Some(of) = self.of_content(checkpoint)? {
            return Ok(Some(Taint::Content { of }));
        }
        Ok(self.built_on(checkpoint)?.map(|on| Taint::BuildsOn { on }))
    }

    /// The rejected checkpoint, of any session, whose content one has.
    fn of_content(&self, checkpoint: &Checkpoint) -> Result<Option<Ulid>> {
        let content = self.store.content_of(checkpoint)?;
        if content.is_none() {
            return Ok(None);
        }
        for (of, rejection) in &self.rejected {
            let has_it = rejection.of.content == content && came_with(&rejection.of, checkpoint);
            if has_it && !self.is_accepted_since(checkpoint, rejection)? {
                return Ok(Some(*of));
            }
        }
        Ok(None)
    }

    /// True if a person has approved the rejected content later, in a checkpoint that one came from without another change.
    fn is_accepted_since(&self, checkpoint: &Checkpoint, rejection: &Rejection) -> Result<bool> {
        let mut next = checkpoint.record.parent;
        while let Some(id) = next {
            let Some(ancestor) = self.view.checkpoint(id)? else { return Ok(false) };
            if self.store.content_of(&ancestor)? != rejection.of.content {
                return Ok(false);
            }
            let decided = self.view.marks(id)?.approval;
            if decided.is_some_and(|approval| is_approval(&approval) && approval.timestamp > rejection.at) {
                return Ok(true);
            }
            next = ancestor.record.parent;
        }
        Ok(false)
    }

    /// The rejected checkpoint that one came from, if no person has approved one between them.
    fn built_on(&self, checkpoint: &Checkpoint) -> Result<Option<Ulid>> {
        // Before the oldest of them came, nobody had what was rejected.
        let came = |rejection: &Rejection| rejection.of.since.unwrap_or(rejection.of.sequence);
        let Some(oldest) = self.rejected.values().map(came).min() else { return Ok(None) };
        let (mut next, mut later) = (checkpoint.record.parent, checkpoint.sequence);
        while let Some(id) = next {
            if self.rejected.contains_key(&id) {
                return Ok(Some(id));
            }
            let ancestor = self.view.checkpoint(id)?;
            if let Some(ancestor) = &ancestor
                && let Some(deleted) = self.deleted_between(checkpoint, ancestor.sequence, later)?
            {
                return Ok(Some(deleted));
            }
            if self.is_by_person(id)? {
                return Ok(None);
            }
            next = match ancestor {
                Some(ancestor) if ancestor.sequence < oldest => return Ok(None),
                Some(ancestor) => {
                    if let Some(of) = self.of_content(&ancestor)? {
                        return Ok(Some(of));
                    }
                    later = ancestor.sequence;
                    ancestor.record.parent
                }
                // What came from a deleted one comes from what that came from.
                None => self.view.marks(id)?.deleted.and_then(|deleted| deleted.parent),
            };
        }
        self.deleted_between(checkpoint, 0, later)
    }

    /// A rejected checkpoint of the session that was made between two and deleted since: a deletion takes a session's head back, and leaves its
    /// folder as it is.
    fn deleted_between(&self, of: &Checkpoint, earlier: u64, later: u64) -> Result<Option<Ulid>> {
        for (id, Rejection { of: rejected, .. }) in &self.rejected {
            let is_between = rejected.session == of.record.session && earlier < rejected.sequence && rejected.sequence < later;
            if is_between && self.view.checkpoint(*id)?.is_none() {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    fn is_by_person(&self, id: Ulid) -> Result<bool> {
        Ok(self.view.marks(id)?.approval.is_some_and(|approval| is_approval(&approval)))
    }
}

/// True if a person has said yes.
fn is_approval(approval: &Approval) -> bool {
    approval.is_by_person() && approval.status == ApprovalStatus::Approved
}

/// True if the files that a rejected checkpoint shares with another one came with the change that was rejected: its session had other ones
/// before, and an older checkpoint of the session is not from before these.
fn came_with(rejected: &RejectedContent, other: &Checkpoint) -> bool {
    rejected.since.is_some_and(|since| other.record.session != rejected.session || other.sequence >= since)
}
