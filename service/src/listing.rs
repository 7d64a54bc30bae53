//! Sessions as they were recorded and seen last, in memory: a list or a monitor reads what has changed, and not everything again.
//!
//! Most of what is seen of a session changes with a record of the journal. The rest (its agent, which may die or wait, its folder) is looked at again
//! after a while. The thread that watches agents does so in time, so that requests seldom have to. Nothing is looked at under the lock.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use parhelia_host::{Result, run};
use parhelia_ledger::{LedgerView as _, Session, Status, kind};
use parhelia_life::overview::{Overview, observed::AgentState};
use parhelia_store::{
    Store,
    id::Ulid,
    journal::{Entry, Journal},
    view::View,
};
use serde_json::Value;

/// So many records of the journal are read at a time.
const PAGE_RECORDS: u64 = 1000;
/// Behind so many records, all sessions are read anew.
const BEHIND_MAX: u64 = 5000;
/// The state of a live agent holds for so long, unless the watch says again that it is so.
const STATE_HOLDS: Duration = Duration::from_secs(2);
/// The watch looks again at a live session after this time,
const LIVE_HOLDS: Duration = Duration::from_secs(10);
/// ... and a request after this time, where the watch does not.
const LIVE_AGE_MAX: Duration = Duration::from_secs(30);
/// A session in a list without a live agent is looked at again after this time: its folder may be another one,
const LISTED_AGE_MAX: Duration = Duration::from_secs(5);
/// ... and in numbers, which have nothing of that, after this one.
const COUNTED_AGE_MAX: Duration = Duration::from_secs(600);

/// A session as it was seen.
#[derive(Clone)]
pub struct Observation {
    /// The session as it was recorded at the look.
    pub session: Arc<Session>,
    /// The overview that was made at the look.
    pub overview: Arc<Overview>,
    /// The time of the look.
    looked_at: Instant,
    /// The time at which its agent's state was known to be so.
    known_at: Instant,
    /// Bytes of its conversation before the look; none where it has none.
    said_bytes: Option<u64>,
    /// True if its agent is of another machine: that it lives is in a lease, and no record of the journal tells.
    is_elsewhere: bool,
}

/// Bytes of the conversation that a session was seen in last.
fn said_bytes(session: &Session) -> Option<u64> {
    let transcript = session.conversations.last()?.seen_at()?;
    fs::metadata(transcript).ok().map(|metadata| metadata.len())
}

impl Observation {
    fn of(store: &Store, session: Arc<Session>) -> Result<Self> {
        let (now, said_bytes) = (Instant::now(), said_bytes(&session));
        let overview = Arc::new(Overview::of(store, &session)?);
        let is_elsewhere = store.view().newest_run(&session)?.is_some_and(|run| run::is_elsewhere(&run));
        Ok(Observation { session, overview, looked_at: now, known_at: now, said_bytes, is_elsewhere })
    }

    /// True where a request has to look again.
    fn is_old(&self, age_max: Duration) -> bool {
        match self.overview.observed.is_alive() {
            true => self.known_at.elapsed() > STATE_HOLDS || self.looked_at.elapsed() > LIVE_AGE_MAX,
            false if self.is_elsewhere => self.looked_at.elapsed() > LISTED_AGE_MAX,
            false => self.looked_at.elapsed() > age_max,
        }
    }

    /// True where its agent is gone since, or the process beside it, or where it is only being started.
    fn is_over(&self) -> bool {
        let Overview { agent, supervisor, observed, .. } = &*self.overview;
        agent.iter().chain(supervisor).any(|process| !process.is_alive()) || *observed == AgentState::Starting
    }

    /// True where more was said since in its conversation, of which no event has to come: hooks may not run.
    fn has_gone_on(&self) -> bool {
        self.overview.observed.is_alive() && said_bytes(&self.session) != self.said_bytes
    }
}

/// All sessions of a store.
#[derive(Default)]
pub struct Listing(Mutex<SessionCache>);

#[derive(Default)]
struct SessionCache {
    /// Sequence of the last record that is known; 0 where nothing is.
    end: u64,
    sessions: HashMap<String, Arc<Session>>,
    seen: HashMap<String, Observation>,
    /// Numbers of checkpoints, of those sessions that were asked for.
    counts: HashMap<String, u64>,
}

impl Listing {
    /// All sessions, in no order.
    pub fn sessions(&self, store: &Store, view: &View) -> Result<Vec<Arc<Session>>> {
        let mut known = self.lock();
        known.catch_up(store, view)?;
        Ok(known.sessions.values().cloned().collect())
    }

    /// Some sessions as they are seen, with the numbers of their checkpoints, in the same order.
    pub fn seen(&self, store: &Store, view: &View, sessions: &[Arc<Session>]) -> Result<Vec<(Observation, u64)>> {
        sessions
            .iter()
            .map(|session| {
                let (known, count) = {
                    let known = self.lock();
                    (known.seen_of(session), known.counts.get(&session.id).copied())
                };
                let seen = match known.filter(|seen| !seen.is_old(LISTED_AGE_MAX) && !seen.is_over() && !seen.has_gone_on()) {
                    Some(seen) => seen,
                    None => self.look(store, session)?,
                };
                let count = count.map_or_else(|| self.count(view, &session.id), Ok)?;
                Ok((seen, count))
            })
            .collect()
    }

    /// All sessions that have not ended, as they are seen.
    pub fn open(&self, store: &Store, view: &View) -> Result<Vec<Observation>> {
        self.looked(store, view, |seen| seen.is_old(COUNTED_AGE_MAX) || seen.is_over())
    }

    /// Looks again where a request would have to before the watch does this the next time.
    pub fn renew(&self, store: &Store, view: &View) -> Result<()> {
        let is_due = |seen: &Observation| seen.overview.observed.is_alive() && seen.looked_at.elapsed() > LIVE_HOLDS;
        self.looked(store, view, is_due).map(drop)
    }

    /// Takes in that the agent of a session is seen to do something.
    pub fn heard(&self, session: &str, observed: AgentState, why: Option<&String>) {
        let mut known = self.lock();
        let Some(seen) = known.seen.get_mut(session) else { return };
        match seen.overview.observed == observed && seen.overview.why.as_ref() == why {
            true => seen.known_at = Instant::now(),
            false => drop(known.seen.remove(session)),
        }
    }

    /// All sessions that have not ended, with another look at those of which it is wanted.
    fn looked(&self, store: &Store, view: &View, is_due: impl Fn(&Observation) -> bool) -> Result<Vec<Observation>> {
        let sessions = self.sessions(store, view)?;
        let open = sessions.into_iter().filter(|session| session.status != Status::Ended);
        let looked = open.map(|session| {
            let known = self.lock().seen_of(&session);
            known.filter(|seen| !is_due(seen)).map_or_else(|| self.look(store, &session), Ok)
        });
        looked.collect()
    }

    fn look(&self, store: &Store, session: &Arc<Session>) -> Result<Observation> {
        let seen = Observation::of(store, session.clone())?;
        let mut known = self.lock();
        // It may have changed meanwhile.
        if known.sessions.get(&session.id).is_some_and(|now| Arc::ptr_eq(now, session)) {
            known.seen.insert(session.id.clone(), seen.clone());
        }
        Ok(seen)
    }

    fn count(&self, view: &View, session: &str) -> Result<u64> {
        let count = view.count_of(session)?;
        let mut known = self.lock();
        // That of an older view is none of the present.
        if known.end == view.end().sequence {
            known.counts.insert(session.to_owned(), count);
        }
        Ok(count)
    }

    fn lock(&self) -> MutexGuard<'_, SessionCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionCache {
    /// A session as it was seen since its last change.
    fn seen_of(&self, session: &Arc<Session>) -> Option<Observation> {
        self.seen.get(&session.id).filter(|seen| Arc::ptr_eq(&seen.session, session)).cloned()
    }

    /// Reads the sessions that have changed.
    fn catch_up(&mut self, store: &Store, view: &View) -> Result<()> {
        let end = view.end().sequence;
        // Whoever asked before may have seen more of it.
        if end <= self.end {
            return Ok(());
        }
        let changed = match self.end > 0 && end - self.end <= BEHIND_MAX {
            true => Some(changed(store, view, self.end, end)?),
            false => None,
        };
        match changed {
            Some(ChangeSet { sessions, deleted }) => {
                if !deleted.is_empty() {
                    self.counts.clear();
                    let is_head = |seen: &Observation| {
                        seen.overview.last_checkpoint.as_ref().is_some_and(|last| deleted.contains(&last.id))
                    };
                    self.seen.retain(|_, seen| !is_head(seen));
                }
                for id in sessions {
                    match view.session(&id)? {
                        Some(session) => drop(self.sessions.insert(id.clone(), Arc::new(session))),
                        None => drop(self.sessions.remove(&id)),
                    }
                    self.seen.remove(&id);
                    self.counts.remove(&id);
                }
            }
            None => {
                self.sessions = view.all_sessions()?.into_iter().map(|session| (session.id.clone(), Arc::new(session))).collect();
                (self.seen, self.counts) = (HashMap::new(), HashMap::new());
            }
        }
        self.end = end;
        Ok(())
    }
}

/// Changes by some records.
#[derive(Default)]
struct ChangeSet {
    /// Sessions that they have to do with.
    sessions: BTreeSet<String>,
    /// Checkpoints that were deleted.
    deleted: BTreeSet<Ulid>,
}

/// The sessions that records behind a sequence, up to another, have to do with.
fn changed(store: &Store, view: &View, behind: u64, end: u64) -> Result<ChangeSet> {
    let journal = Journal::of(store.layout());
    let mut at = journal.place_behind(behind)?;
    let mut all = ChangeSet::default();
    let changed = &mut all.sessions;
    loop {
        let page = journal.read_page(&at, PAGE_RECORDS)?;
        let mut is_over = page.records.is_empty();
        for logged in page.records {
            if logged.sequence > end {
                is_over = true;
                break;
            }
            match logged.entry {
                Entry::Commit { record, .. } => {
                    if let Ok(checkpoint) = parhelia_store::record::Checkpoint::decode(logged.sequence, record, store.ids()) {
                        changed.insert(checkpoint.record.session);
                    }
                }
                entry @ (Entry::Event(_) | Entry::RemoteEvent { .. }) => {
                    let Some((event, _)) = entry.any_event() else { continue };
                    if event.kind == kind::CHECKPOINT_DELETED {
                        all.deleted.extend(event.subject.parse::<Ulid>());
                    }
                    let told = || event.data.get("session").and_then(Value::as_str).map(str::to_owned);
                    changed.extend(match event.kind.split_once('.') {
                        Some(("session", _)) => Some(event.subject.clone()),
                        Some(("run", _)) => match told() {
                            Some(session) => Some(session),
                            None => view.run(&event.subject)?.map(|run| run.session),
                        },
                        Some(("checkpoint", _)) => match event.subject.parse() {
                            Ok(id) => view.checkpoint(id)?.map(|found| found.record.session),
                            Err(_) => None,
                        },
                        _ => told(),
                    });
                }
                _ => {}
            }
        }
        if is_over {
            return Ok(all);
        }
        at = page.end;
    }
}
