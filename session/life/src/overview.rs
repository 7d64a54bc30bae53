//! A session at one glance: what is wanted of it, how it is found, and how much of it is saved.

mod activity;
pub mod attention;
pub mod observed;

pub use activity::activity;
pub(crate) use activity::own_word;

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use parhelia_ledger::{ApprovalStatus, Conversation, Goal, LedgerView as _, Place, Run, Session, Status};
use parhelia_store::{
    Store,
    id::Ulid,
    lock::has_service,
    record::{Brief, Checkpoint},
    view::View,
};

use self::activity::{Activity, observed};
use crate::{
    overview::{attention::Attention, observed::AgentState},
    resume, rollback,
    workspace::{place::FolderIdentity, position},
};
use parhelia_agent::{open::open_by, process::Identity, transcript::TranscriptLocation};
use parhelia_host::{
    Result,
    conversation::summary_now,
    run::{self, FailureStreak, Life, RunHooks},
    state::state_json,
};
use schemars::JsonSchema;
use serde::Serialize;

/// No prompt is shown further, in characters.
const PROMPT_CHARACTERS_MAX: usize = 200;

/// A checkpoint and its time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LastCheckpoint {
    /// The checkpoint.
    #[schemars(with = "String")]
    pub id: Ulid,
    /// End of its capture.
    pub created_at: Timestamp,
}

/// The interval between checkpoints that a service makes of a live agent without a supervisor, where something has changed.
pub const SERVICE_INTERVAL: Duration = Duration::from_secs(300);

/// An agent without its supervisor, the process that makes its checkpoints.
// Programs count as well, and agents that were started by hand and whose hooks do not run any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnsupervisedAgent {
    /// Process id of the live agent.
    pub process: i32,
    /// True if an event of its hooks has come: these make checkpoints.
    pub has_hooks: bool,
    /// Seconds between checkpoints that the store's service makes of it, where something has changed; null where none does.
    pub service_interval_seconds: Option<u64>,
    /// A sentence about hooks of it of which no event has come; none where it has none.
    #[serde(skip)]
    pub silent: Option<String>,
}

impl UnsupervisedAgent {
    fn of(store: &Store, session: &Session, run: &Run) -> Result<Option<Self>> {
        let Life::Agent(agent) = run::life(run) else { return Ok(None) };
        // Of an agent that was started by hand, its hooks alone make checkpoints.
        let is_by_hand = run::launcher_of(run).is_none() && !run::is_elsewhere(run);
        if !is_by_hand && !run::is_orphaned(run) {
            return Ok(None);
        }
        let hooks = run::hooks_of(store, session, run)?;
        if is_by_hand && !matches!(hooks, RunHooks::Over { .. }) {
            return Ok(None);
        }
        let silent = match &hooks {
            RunHooks::Silent { why } => {
                let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                Some(format!("no event of its hooks has come{why}"))
            }
            RunHooks::Over { why } => Some(format!("its hooks do not run any more ({why})")),
            RunHooks::Heard | RunHooks::None => None,
        };
        // A service leaves alone what was set aside.
        let is_served = session.goal() == Goal::Running && has_service(store.path());
        let service_interval_seconds = is_served.then_some(SERVICE_INTERVAL.as_secs());
        Ok(Some(UnsupervisedAgent {
            process: agent.process,
            has_hooks: hooks == RunHooks::Heard,
            service_interval_seconds,
            silent,
        }))
    }
}

/// What a session needs of a person, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// Resuming it failed: a person has to find out why.
    ResumeFailed,
    /// Its agent died, and is not resumed unless a person does it.
    LeftAlone,
    /// Checkpoints of it fail.
    Failing,
    /// Its agent waits for an answer.
    Waiting,
    /// Its agent was resumed after its turn had been cut off, and waits to be told how to go on.
    CutOff,
    /// A checkpoint of it waits for a decision, or its last one was rejected.
    Review,
}

impl Need {
    /// All of them.
    pub const ALL: [Need; 6] = [Need::ResumeFailed, Need::LeftAlone, Need::Failing, Need::Waiting, Need::CutOff, Need::Review];

    /// Its name, as printed.
    pub fn name(self) -> &'static str {
        match self {
            Need::ResumeFailed => "resume_failed",
            Need::LeftAlone => "left_alone",
            Need::Failing => "failing",
            Need::Waiting => "waiting",
            Need::CutOff => "cut_off",
            Need::Review => "review",
        }
    }
}

/// A session at one glance.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The wanted state; none for a session that never had a run.
    pub wanted: Option<Goal>,
    /// The state of its agent, as seen from this machine.
    pub observed: AgentState,
    /// The reason for the observed state, if it is known.
    pub why: Option<String>,
    /// The process of its agent, if it lives here.
    pub agent: Option<Identity>,
    /// The process that started its live agent and stands beside it, while that lives, too.
    pub supervisor: Option<Identity>,
    /// Its head.
    pub last_checkpoint: Option<LastCheckpoint>,
    /// The decision about that, or about the newest before it that is no safety checkpoint, if it was rejected; pending if that or one before it
    /// waits for a person, and no person has approved a later one.
    pub review: Option<ApprovalStatus>,
    /// The last prompt of its user, shortened.
    pub last_prompt: Option<String>,
    /// Its conversations, the one that was seen last at the end, each with its turns as they are now.
    pub conversations: Vec<Conversation>,
    /// Checkpoints that have failed since.
    pub failing: Option<FailureStreak>,
    /// Set where it lives and no checkpoint of it can be made, which cannot be recorded either: its store takes no writes.
    pub store_is_read_only: bool,
    /// Set where it lives and its store has no room for a checkpoint, which cannot be recorded either.
    pub store_is_full: bool,
    /// A process that says that it has the conversation open of this one, whose agent is dead, or not known: then it may be that.
    pub open_in: Option<i32>,
    /// A sentence about an agent outside of this container that may have the conversation of this dead one open.
    pub unseen: Option<String>,
    /// Set where it lives without its supervisor.
    pub unsupervised: Option<UnsupervisedAgent>,
    /// The sentence that no event of a live agent's hooks has come though it works.
    pub hooks_silent: Option<String>,
    /// A warning where another folder has taken the place of its own.
    pub another_folder: Option<String>,
    /// True unless nothing is at its folder's path here, and no other machine has it.
    pub workspace_exists: bool,
    /// The reason for which it is not resumed by itself since its agent died, so that it waits for a person.
    pub set_aside: Option<String>,
    /// The verdict on its agent that holds.
    pub attention: Option<Attention>,
    /// The checkpoint that a rollback was to go back to which was interrupted, so that files of two states stand in the workspace.
    pub interrupted_rollback: Option<Ulid>,
}

impl Overview {
    /// The state of a session in a word, for people: of one that shall not run, what was asked for.
    pub fn state(&self, session: &Session) -> &'static str {
        match (self.observed, self.wanted) {
            (AgentState::Dead | AgentState::Unknown, Some(Goal::Paused)) => "paused",
            _ if session.status == Status::Ended => "ended",
            (observed, _) => observed.name(),
        }
    }

    /// The reason for which it is as it is: what its agent says, or that its turn was cut off.
    pub fn reason(&self) -> Option<&str> {
        let cut_off = || self.attention.as_ref().filter(|attention| attention.state == attention::State::CutOff);
        self.why.as_deref().or_else(|| cut_off()?.why.as_deref())
    }

    /// True if checkpoints of it fail, or could not be made now.
    pub fn is_failing(&self) -> bool {
        self.failing.is_some() || self.store_is_read_only || self.store_is_full
    }

    /// The need of a person; none of a session that has ended.
    pub fn needs(&self, session: &Session) -> Option<Need> {
        if session.status == Status::Ended {
            return None;
        }
        let has = |state| self.attention.as_ref().is_some_and(|attention| attention.state == state);
        match () {
            () if has(attention::State::ResumeFailed) => Some(Need::ResumeFailed),
            () if self.set_aside.is_some() => Some(Need::LeftAlone),
            () if self.is_failing() => Some(Need::Failing),
            () if self.observed == AgentState::Waiting => Some(Need::Waiting),
            () if has(attention::State::CutOff) => Some(Need::CutOff),
            () if self.review.is_some() => Some(Need::Review),
            () => None,
        }
    }

    /// Looks at a session.
    pub fn of(store: &Store, session: &Session) -> Result<Self> {
        let view = store.view();
        let run = view.newest_run(session)?;
        let Activity { observed, why, agent } = observed(store, session, run.as_ref())?;
        let head = view.head(&session.id)?;
        // One that was made since, by whomever, is as good.
        let is_over = |failing: &FailureStreak| match (&head, &failing.head) {
            (Some(head), Some(then)) => head.record.id.to_string() != *then,
            (Some(head), None) => head.record.created_at > failing.since,
            (None, _) => false,
        };
        let failing = run::failing(session).filter(|failing| !is_over(failing));
        let conversations = position::conversations(session, head.as_ref());
        let last_prompt = last_prompt(store, session, &conversations, head.as_ref()).map(|prompt| shortened(&prompt));
        let is_unseen = matches!(observed, AgentState::Dead | AgentState::Unknown);
        let attention = attention::holding(session, observed, head.as_ref()).filter(|_| session.status != Status::Ended);
        let supervisor = run.as_ref().filter(|run| agent.is_some() && run.is_open()).and_then(run::launcher_of);
        Ok(Overview {
            supervisor: supervisor.filter(Identity::is_alive),
            wanted: session.run.as_ref().map(|_| session.goal()),
            observed,
            why,
            agent,
            review: head.as_ref().map(|head| review(&view, head)).transpose()?.flatten(),
            last_checkpoint: head.map(|head| LastCheckpoint { id: head.record.id, created_at: head.record.created_at }),
            last_prompt,
            conversations,
            failing,
            store_is_read_only: observed.is_alive() && store.is_read_only(),
            store_is_full: observed.is_alive() && store.free_when_full().is_some(),
            open_in: is_unseen.then(|| open_in(store, session)).transpose()?.flatten(),
            unseen: is_unseen.then(|| unseen(store, session)).transpose()?.flatten(),
            unsupervised: run.as_ref().map(|run| UnsupervisedAgent::of(store, session, run)).transpose()?.flatten(),
            hooks_silent: run.as_ref().filter(|_| observed.is_alive()).and_then(run::silent_hooks),
            another_folder: another_folder(session),
            workspace_exists: observed == AgentState::Elsewhere || workspace_exists(session),
            set_aside: resume::why_set_aside(session).or_else(|| why_left(session, attention.as_ref())),
            attention,
            interrupted_rollback: rollback::interrupted(store, session).map(|intent| intent.target),
        })
    }
}

/// The decision of a person that a session's head, or one that it came from, waits for or has got. A safety checkpoint says nothing of what it is
/// a copy of. Whoever approved a checkpoint has looked at those before it.
fn review(view: &View, head: &Checkpoint) -> Result<Option<ApprovalStatus>> {
    let briefs = view.briefs_of(&head.record.session, 0)?;
    let known: HashMap<Ulid, &Brief> = briefs.iter().map(|brief| (brief.id, brief)).collect();
    let (mut next, mut is_newest) = (Some(head.record.id), true);
    while let Some(id) = next {
        let marks = view.marks(id)?;
        let Some(brief) = known.get(&id) else {
            next = marks.deleted.and_then(|deleted| deleted.parent);
            continue;
        };
        next = brief.parent;
        if brief.is_safety {
            continue;
        }
        match marks.approval.map(|approval| approval.status) {
            Some(ApprovalStatus::Pending) => return Ok(Some(ApprovalStatus::Pending)),
            Some(ApprovalStatus::Rejected) if is_newest => return Ok(Some(ApprovalStatus::Rejected)),
            Some(ApprovalStatus::Approved) => return Ok(None),
            Some(ApprovalStatus::Rejected | ApprovalStatus::AutoApproved) | None => {}
        }
        is_newest = false;
    }
    Ok(None)
}

/// The reason for which a dead session that is wanted running is not resumed by itself.
fn why_left(session: &Session, attention: Option<&Attention>) -> Option<String> {
    let left = attention.filter(|attention| !attention.state.is_of_life() && session.goal() == Goal::Running)?;
    Some(left.why.clone().unwrap_or_else(|| left.state.name().replace('_', " ")))
}

/// The last prompt of a session: of its last conversation in which something was said. None where that cannot be read: an older prompt is
/// not the last one.
fn last_prompt(store: &Store, session: &Session, conversations: &[Conversation], head: Option<&Checkpoint>) -> Option<String> {
    let SavedPrompt { conversation: saved_in, prompt } = head.map(|head| saved_prompt(store, head)).unwrap_or_default();
    let (saved_in, saved) = (saved_in.as_deref(), || prompt.clone());
    let is_only = conversations.len() < 2;
    for known in conversations.iter().rev() {
        let is_saved = saved_in == Some(known.id.as_str());
        let found = prompt_since(store, known, head.filter(|_| is_saved)).or_else(|| saved().filter(|_| is_saved));
        let turns = known.turn_count.unwrap_or_default();
        if found.is_some() || turns > u64::from(is_only) {
            return found;
        }
    }
    // A rollback may have gone back to before it.
    let first = || session.first_prompt.clone().filter(|_| !position::is_gone_back(session));
    if is_only { saved().filter(|_| saved_in.is_none()).or_else(first) } else { None }
}

/// The last prompt that a checkpoint has.
#[derive(Clone, Debug, Default)]
struct SavedPrompt {
    conversation: Option<String>,
    prompt: Option<String>,
}

/// So many prompts of checkpoints are remembered.
const PROMPTS_MAX: usize = 4096;

/// The last prompt that a checkpoint has. It stays the same, and is read once by a process that asks again and again.
fn saved_prompt(store: &Store, head: &Checkpoint) -> SavedPrompt {
    static KNOWN: Mutex<BTreeMap<(Ulid, PathBuf), SavedPrompt>> = Mutex::new(BTreeMap::new());
    let key = (head.record.id, store.path().to_owned());
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return known.clone();
    }
    // A checkpoint that cannot be read is no reason to show nothing.
    let Ok(state) = state_json(store, head, "conversation.json") else { return SavedPrompt::default() };
    let text = |name: &str| {
        let state = state.as_ref()?;
        Some(state.get("summary").unwrap_or(state)[name].as_str()?.to_owned())
    };
    let found = SavedPrompt { conversation: text("agent_session_id"), prompt: text("last_prompt") };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= PROMPTS_MAX {
        // The oldest checkpoints have the lowest ids.
        known.pop_first();
    }
    known.insert(key, found.clone());
    found
}

/// The last prompt of a conversation that is not as the checkpoint has it, as far as it can be read.
fn prompt_since(store: &Store, known: &Conversation, head: Option<&Checkpoint>) -> Option<String> {
    let located = TranscriptLocation::from_hook(&known.seen_at()?).ok()?;
    // Transcripts grow. Times would say less: clocks are set back.
    let saved_bytes = head.and_then(|head| head.record.conversation.as_ref()?.get("transcript_bytes")?.as_u64());
    if saved_bytes.is_some_and(|bytes| fs::metadata(&located.transcript).is_ok_and(|now| now.len() == bytes)) {
        return None;
    }
    summary_now(located, &store.layout().cache()).ok()?.last_prompt
}

/// An agent that says that it has the newest conversation of a session open; none of a session that has ended.
fn open_in(store: &Store, session: &Session) -> Result<Option<i32>> {
    let Some(newest) = session.conversations.last().filter(|_| session.status != Status::Ended) else { return Ok(None) };
    let config = run::config_of_session(store, session)?;
    Ok(config.and_then(|config| open_by(&config.path, &newest.id)))
}

/// An agent that may have the newest conversation of a session open where nothing can be seen of it; none of a session that has ended.
fn unseen(store: &Store, session: &Session) -> Result<Option<String>> {
    let Some(newest) = session.conversations.last().filter(|_| session.status != Status::Ended) else { return Ok(None) };
    let config = run::config_of_session(store, session)?;
    Ok(config.map(|config| run::unseen_in(store, session, &config.path, &newest.id)).transpose()?.flatten())
}

/// The warning; none of a session that has ended.
fn another_folder(session: &Session) -> Option<String> {
    let standing =
        Some(FolderIdentity::of(session)).filter(|standing| session.status != Status::Ended && standing.is_another())?;
    standing.text(session)
}

/// False where nothing is at the path. What cannot be looked at may be there.
fn workspace_exists(session: &Session) -> bool {
    let is_gone = |place: &Place| place.folder().symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    !session.workspace.as_ref().is_some_and(is_gone)
}

/// Sessions that are wanted running, and do not run as they should.
#[derive(Clone, Debug, Default)]
pub struct Shortfall {
    /// Those whose agent has died, the one that changed last first.
    pub dead: Vec<Session>,
    /// Ids of those among them that cannot be seen from here, and whose lease has run out.
    pub unheard: Vec<String>,
    /// Ids of those whose live agent was started by hand, and whose hooks do not run any more: nobody will see how it ends.
    pub unseen: Vec<String>,
    /// Those of which it is not known whether their agent lives, and why, in the same order.
    pub unknown: Vec<(Session, String)>,
    /// Those that another machine or container may have, in the same order: which one, and until when its lease holds.
    pub elsewhere: Vec<(Session, String, Timestamp)>,
    /// Those that live without their supervisor, in the same order.
    pub unsupervised: Vec<(Session, UnsupervisedAgent)>,
}

/// Looks for sessions that are wanted running, and whose agent is not seen to live here, or lives without its supervisor.
pub fn missing(store: &Store) -> Result<Shortfall> {
    let view = store.refresh()?;
    let mut found = Shortfall::default();
    for session in view.sessions()?.into_iter().filter(|session| session.goal() == Goal::Running) {
        let Some(run) = view.newest_run(&session)? else { continue };
        match run::life(&run) {
            Life::Over => match run::why_unknown(&run) {
                Some(why) => found.unknown.push((session, why)),
                None => {
                    found.unheard.extend(run::why_unheard(&run).map(|_| session.id.clone()));
                    found.dead.push(session);
                }
            },
            Life::Elsewhere { host, until } => found.elsewhere.push((session, host, until)),
            Life::Agent(_) => {
                let unsupervised = UnsupervisedAgent::of(store, &session, &run)?;
                let is_by_hand = run::launcher_of(&run).is_none();
                found.unseen.extend(unsupervised.as_ref().filter(|_| is_by_hand).map(|_| session.id.clone()));
                found.unsupervised.extend(unsupervised.map(|found| (session, found)));
            }
            Life::Starting(_) => {}
        }
    }
    found.unsupervised.sort_by_key(|(session, _)| std::cmp::Reverse(session.changed_at));
    found.dead.sort_by_key(|session| std::cmp::Reverse(session.changed_at));
    found.unknown.sort_by_key(|(session, _)| std::cmp::Reverse(session.changed_at));
    found.elsewhere.sort_by_key(|(session, ..)| std::cmp::Reverse(session.changed_at));
    Ok(found)
}

/// A prompt on one line, without what fills it up.
fn shortened(prompt: &str) -> String {
    let words: Vec<&str> = prompt.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(PROMPT_CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_one_line_and_not_long() {
        assert_eq!(shortened(" fix\n\tthe   bug\n"), "fix the bug");
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), PROMPT_CHARACTERS_MAX + 1);
    }
}
