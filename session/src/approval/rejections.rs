//! Checkpoints that a person rejected, and what follows for others: those with the same content, and those that build on one.

use std::collections::BTreeMap;

use parhelia_store::{
    Store,
    id::{TreeId, Ulid},
    projection::{Approval, ApprovalStatus},
    record::Checkpoint,
    view::View,
};

use crate::error::Result;

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

/// A checkpoint that was rejected.
struct Rejected {
    session: String,
    by: Option<String>,
    sequence: u64,
    /// Its files; none where they cannot be read.
    content: Option<TreeId>,
}

/// All rejected checkpoints of a store.
pub struct Rejections<'s> {
    store: &'s Store,
    view: std::sync::Arc<View>,
    rejected: BTreeMap<Ulid, Rejected>,
}

impl<'s> Rejections<'s> {
    /// Those of now. Costs nothing where there are none.
    pub fn of(store: &'s Store) -> Result<Self> {
        let view = store.view();
        let mut found = Rejections { store, view, rejected: BTreeMap::new() };
        for id in found.view.rejected()? {
            // One that was deleted stays rejected, and its content is not known any more.
            let Some(checkpoint) = found.view.checkpoint(id)? else { continue };
            let approval = found.view.marks(id)?.approval;
            let rejected = Rejected {
                session: checkpoint.record.session.clone(),
                by: approval.and_then(|approval| approval.user),
                sequence: checkpoint.sequence,
                content: content(store, &checkpoint)?,
            };
            found.rejected.insert(id, rejected);
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
        let content = content(self.store, checkpoint)?;
        for (of, _) in self.rejected.iter().filter(|(_, rejected)| rejected.content.is_some() && rejected.content == content) {
            if self.came_with_it(*of, checkpoint)? {
                return Ok(Some(Taint::Content { of: *of }));
            }
        }
        Ok(self.built_on(checkpoint)?.map(|on| Taint::BuildsOn { on }))
    }

    /// The rejected checkpoint that one came from, if no person has approved one between them.
    fn built_on(&self, checkpoint: &Checkpoint) -> Result<Option<Ulid>> {
        let own = self.rejected.values().filter(|rejected| rejected.session == checkpoint.record.session);
        let Some(oldest) = own.map(|rejected| rejected.sequence).min() else { return Ok(None) };
        let mut next = self.view.ancestor(checkpoint)?;
        while let Some(ancestor) = next {
            let id = ancestor.record.id;
            if self.rejected.contains_key(&id) {
                return Ok(Some(id));
            }
            if ancestor.sequence < oldest || self.is_by_person(id)? {
                return Ok(None);
            }
            next = self.view.ancestor(&ancestor)?;
        }
        Ok(None)
    }

    /// True if the files that a rejected checkpoint shares with another one came with the change that was rejected: its session had other ones
    /// before, and an older checkpoint of the session is not from before these.
    fn came_with_it(&self, rejected: Ulid, other: &Checkpoint) -> Result<bool> {
        let Some(checkpoint) = self.view.checkpoint(rejected)? else { return Ok(false) };
        let own = content(self.store, &checkpoint)?;
        let mut is_behind = other.record.session != checkpoint.record.session || other.sequence > checkpoint.sequence;
        let mut next = self.view.ancestor(&checkpoint)?;
        while let Some(ancestor) = next {
            if content(self.store, &ancestor)? != own {
                return Ok(is_behind);
            }
            is_behind |= ancestor.record.id == other.record.id;
            next = self.view.ancestor(&ancestor)?;
        }
        Ok(false)
    }

    fn is_by_person(&self, id: Ulid) -> Result<bool> {
        let approval: Option<Approval> = self.view.marks(id)?.approval;
        Ok(approval.is_some_and(|approval| approval.is_by_person() && approval.status == ApprovalStatus::Approved))
    }
}

/// The tree of a checkpoint's workspace; none where it cannot be read, which says nothing.
fn content(store: &Store, checkpoint: &Checkpoint) -> Result<Option<TreeId>> {
    match store.workspace_node(checkpoint) {
        Ok(node) => Ok(node.as_folder().map(|(tree, _)| tree)),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e.into()),
    }
}
