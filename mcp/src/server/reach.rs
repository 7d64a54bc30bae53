//! The checkpoints that an agent may read: whoever knows an id, or guesses one, does not get another project's files by it.

use std::{cell::OnceCell, collections::BTreeSet, path::Path};

use parhelia_ledger::selector;
use parhelia_store::{Error, id::Ulid, record::Checkpoint, view::View};

/// The checkpoints that an agent may read.
pub struct Reach<'a> {
    view: &'a View,
    own: String,
    /// Sessions whose checkpoints may be read; none for all.
    sessions: Option<BTreeSet<String>>,
    /// Checkpoints of other sessions that its own one went on from.
    ancestors: OnceCell<BTreeSet<Ulid>>,
}

impl<'a> Reach<'a> {
    /// Of the agent of a session, which works in a folder. Sessions of the same folder belong to it: what they have was in that folder.
    pub fn of(view: &'a View, own: String, folder: &Path, reads_others: bool) -> Result<Self, Error> {
        let sessions = match reads_others {
            true => None,
            false => {
                // A session of a folder above may have much more in it than this one.
                let here = selector::workspace_at(view, folder)?.filter(|(at, _)| at == folder);
                let here = here.into_iter().flat_map(|(_, sessions)| sessions).map(|session| session.id);
                Some(here.chain([own.clone()]).collect())
            }
        };
        Ok(Reach { view, own, sessions, ancestors: OnceCell::new() })
    }

    /// True of a session whose checkpoints may all be read.
    pub fn has_session(&self, session: &str) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(session))
    }

    /// True of a checkpoint that may be read.
    pub fn has(&self, checkpoint: &Checkpoint) -> Result<bool, Error> {
        Ok(self.has_session(&checkpoint.record.session) || self.ancestors()?.contains(&checkpoint.record.id))
    }

    fn ancestors(&self) -> Result<&BTreeSet<Ulid>, Error> {
        if let Some(found) = self.ancestors.get() {
            return Ok(found);
        }
        let (mut found, mut next) = (BTreeSet::new(), self.view.head(&self.own)?);
        while let Some(checkpoint) = next {
            next = self.view.ancestor(&checkpoint)?;
            if checkpoint.record.session != self.own {
                found.insert(checkpoint.record.id);
            }
        }
        Ok(self.ancestors.get_or_init(|| found))
    }
}
