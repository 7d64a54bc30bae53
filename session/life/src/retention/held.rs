//! Checkpoints that stay whatever a policy says.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    rc::Rc,
};

use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{Error, Result, Store, id::Ulid, pin, record::Brief, view::View};

use super::keep::{About, KeepReason, marked};
use parhelia_host::intent;

/// Checkpoints that stay, at one moment.
pub(super) struct KeepSet<'v> {
    /// The newest of each session, with and without its safety checkpoints, and the parent of its next one.
    latest: HashSet<Ulid>,
    /// The parents of the sessions' heads.
    parents: HashSet<Ulid>,
    /// The checkpoints that runs were resumed from.
    resumed: HashSet<Ulid>,
    /// The checkpoints that rollbacks need, both those under way and those that may be undone.
    rolled_back: HashSet<Ulid>,
    /// The checkpoints that live processes read.
    used: HashSet<Ulid>,
    /// Sessions of other machines.
    elsewhere: HashSet<String>,
    /// Sessions that an agent has worked in.
    pub(super) of_agents: HashSet<String>,
    /// Reads the marks of a checkpoint.
    marked: Box<dyn Fn(Ulid) -> Option<KeepReason> + 'v>,
    /// The error of reading marks; what they are of counts as held.
    failed: Rc<RefCell<Option<Error>>>,
}

impl<'v> KeepSet<'v> {
    /// The held ones of these checkpoints, which are in order of commit: those of the store, or of one session.
    pub(super) fn of(store: &Store, view: &'v View, briefs: &[Brief]) -> Result<Self> {
        let sessions = view.all_sessions()?;
        let runs = view.runs()?;
        let failed = Rc::new(RefCell::new(None));
        let failing = failed.clone();
        let read = move |id| match view.marks(id) {
            Ok(marks) => marked(&marks),
            Err(e) => {
                failing.borrow_mut().get_or_insert(e);
                Some(KeepReason::InUse)
            }
        };
        Ok(KeepSet {
            resumed: runs.values().filter_map(|run| run.resumed_from.as_ref()?.parse().ok()).collect(),
            rolled_back: sessions.iter().flat_map(intent::needed).collect(),
            used: pin::list(&store.layout().pins())?
                .into_iter()
                .filter(|pin| pin.alive)
                .flat_map(|pin| pin.text.checkpoints)
                .collect(),
            marked: Box::new(read),
            failed,
            ..KeepSet::newest(&sessions, briefs)
        })
    }

    /// Those alone that are the newest of their sessions: fewer than are held.
    pub(super) fn newest(sessions: &[Session], briefs: &[Brief]) -> Self {
        let heads: HashSet<Ulid> = sessions.iter().filter_map(|session| session.head).collect();
        let mut newest: HashMap<(&str, bool), Ulid> = HashMap::new();
        let mut parents = HashSet::new();
        // In the order of commits, so that the newest comes last.
        for brief in briefs {
            if heads.contains(&brief.id) {
                parents.extend(brief.parent);
            }
            if !brief.fenced {
                newest.insert((&brief.session, brief.is_safety), brief.id);
            }
        }
        let is_agents = |session: &&Session| !session.runs.is_empty() || !session.conversations.is_empty();
        KeepSet {
            elsewhere: sessions.iter().filter(|session| !session.is_ours()).map(|session| session.id.clone()).collect(),
            latest: heads.into_iter().chain(newest.into_values()).collect(),
            parents,
            resumed: HashSet::new(),
            rolled_back: HashSet::new(),
            used: HashSet::new(),
            of_agents: sessions.iter().filter(is_agents).map(|session| session.id.clone()).collect(),
            marked: Box::new(|_| None),
            failed: Rc::default(),
        }
    }

    pub(super) fn about<'a>(&'a self, brief: &'a Brief) -> About<'a> {
        let id = brief.id;
        About {
            brief,
            is_elsewhere: self.elsewhere.contains(&*brief.session),
            is_latest: self.latest.contains(&id),
            is_parent: self.parents.contains(&id),
            is_resumed: self.resumed.contains(&id),
            is_rolled_back: self.rolled_back.contains(&id),
            is_used: self.used.contains(&id),
            marked: &*self.marked,
        }
    }

    /// The reason to give for keeping a checkpoint: what it was marked for comes before what was not asked for by anybody.
    pub(super) fn reason(&self, brief: &Brief, kept: KeepReason) -> KeepReason {
        match kept {
            KeepReason::Latest | KeepReason::Parent => kept,
            _ => (self.marked)(brief.id).unwrap_or(kept),
        }
    }

    /// Fails where marks could not be read.
    pub(super) fn whole(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }
}
