//! The intent of a rollback: its plan, kept with the session until it is done.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parhelia_ledger::{Session, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    files::{self, How},
    id::Ulid,
    name::session_file,
    progress::Progress,
};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Error, Result, conversation, error::IoContext};

/// The field of a session that holds the intent of a rollback under way.
pub const INTENT: &str = "rollback";
/// The field of a session that holds the last rollback.
pub const LAST: &str = "last_rollback";

/// A conversation that a rollback takes along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoesBack {
    /// The agent's id of it.
    pub id: String,
    /// The agent's own folder.
    #[serde(with = "parhelia_store::name::shown")]
    pub config: PathBuf,
}

/// A rollback under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The checkpoint that the workspace is put back to.
    pub target: Ulid,
    /// The safety checkpoint, made before anything was changed.
    pub safety: Ulid,
    /// Commit sequence of that: what came later is told by it, not by ids, which follow a clock.
    #[serde(default)]
    pub sequence: Option<u64>,
    /// The session's head before.
    pub head: Option<Ulid>,
    /// The session's head afterwards.
    pub head_after: Ulid,
    /// Absolute path of the folder that is rolled back.
    #[serde(with = "parhelia_store::name::shown")]
    pub workspace: PathBuf,
    /// Commit of the stash entry, where one was made.
    pub stash: Option<String>,
    /// Paths that are spared, as bytes in hex.
    pub spare: Vec<String>,
    /// True if what cannot be put back is left as it is.
    #[serde(default)]
    pub leave_unwritable: bool,
    /// True if no person has asked for it.
    #[serde(default)]
    pub by_agent: bool,
    /// The conversation that goes back, too.
    pub conversation: Option<GoesBack>,
    /// The conversation that the session was in before.
    #[serde(default)]
    pub conversation_before: Option<String>,
    /// The conversation that the session is in afterwards, where it is another one.
    #[serde(default)]
    pub conversation_after: Option<String>,
    /// True if the rollback has failed and is being taken back.
    #[serde(default)]
    pub goes_back: bool,
}

/// A rollback that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// The checkpoint that the workspace was put back to.
    pub target: Ulid,
    /// The safety checkpoint, made before anything was changed; undo goes back to it.
    pub safety: Ulid,
    /// Commit sequence of that.
    #[serde(default)]
    pub sequence: Option<u64>,
    /// The session's head before.
    pub head: Option<Ulid>,
    /// True if no person has asked for it.
    #[serde(default)]
    pub by_agent: bool,
    /// True if the conversation was rolled back, too.
    pub with_conversation: bool,
    /// The conversation that the session was in before.
    #[serde(default)]
    pub conversation: Option<String>,
}

fn field<T: DeserializeOwned>(session: &Session, name: &str) -> Option<T> {
    session.extra.get(name).filter(|value| !value.is_null()).and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// The rollback that is under way in a session.
pub fn open(session: &Session) -> Option<Intent> {
    field(session, INTENT)
}

/// The rollback that is under way in a session, as it goes on in a workspace that was moved.
pub fn moved_with(session: &Session, workspace: &Path) -> Option<Intent> {
    open(session).map(|intent| Intent { workspace: workspace.to_owned(), ..intent })
}

/// The last rollback of a session.
pub fn last(session: &Session) -> Option<Last> {
    field(session, LAST)
}

/// The one of these sessions whose rollback, done or interrupted, began last in the order of commits: ids and times follow clocks, which may
/// be set back.
pub fn last_rolled_back(store: &Store, sessions: Vec<Session>) -> Result<Option<Session>> {
    let view = store.view();
    let mut found: Option<(u64, Session)> = None;
    for session in sessions {
        let newest = open(&session).map(|intent| (intent.safety, intent.sequence));
        let Some((safety, sequence)) = newest.or_else(|| last(&session).map(|last| (last.safety, last.sequence))) else {
            continue;
        };
        // Earlier releases did not note the sequence.
        let of_safety = || Ok::<_, Error>(view.checkpoint(safety)?.map_or(0, |checkpoint| checkpoint.sequence));
        let sequence = sequence.map_or_else(of_safety, Ok)?;
        if found.as_ref().is_none_or(|(newest, _)| sequence > *newest) {
            found = Some((sequence, session));
        }
    }
    Ok(found.map(|(_, session)| session))
}

/// Checkpoints of a session that a rollback needs which is under way, or which may be undone.
pub fn needed(session: &Session) -> Vec<Ulid> {
    let under_way = open(session).map(|intent| [Some(intent.target), Some(intent.safety), intent.head, Some(intent.head_after)]);
    let done = last(session).map(|last| [Some(last.safety), last.head]);
    under_way.into_iter().flatten().chain(done.into_iter().flatten()).flatten().collect()
}

/// Records a rollback as under way, in one synced event; its files are changed only afterwards.
pub fn commit(store: &Store, session: &str, intent: &Intent, actor: &Actor) -> Result<()> {
    let value = serde_json::to_value(intent).map_err(|e| Error::Invalid(e.to_string()))?;
    store.append_events(&[NewEvent::new(kind::SESSION_CHANGED, session, actor.clone()).with(INTENT, value)], &())?;
    Ok(())
}

/// Clears an intent, and says what came of it, in one commit.
pub fn clear(store: &Store, session: &str, intent: &Intent, is_done: bool, actor: &Actor) -> Result<()> {
    let mut cleared = NewEvent::new(kind::SESSION_CHANGED, session, actor.clone()).with(INTENT, Value::Null);
    let mut events = Vec::new();
    if is_done {
        let last = Last {
            target: intent.target,
            safety: intent.safety,
            sequence: intent.sequence,
            head: intent.head,
            by_agent: intent.by_agent,
            with_conversation: intent.conversation.is_some(),
            conversation: intent.conversation_before.clone(),
        };
        cleared = cleared.with(LAST, json!(last));
        events.push(NewEvent::new(kind::SESSION_HEAD, session, actor.clone()).with("checkpoint", intent.head_after.to_string()));
        events.extend(intent.conversation_after.as_ref().map(|id| conversation::seen(id, session, None, None, actor.clone())));
    }
    events.push(cleared);
    store.append_events(&events, &())?;
    Ok(())
}

/// Nobody else makes a checkpoint of the session, or rolls it back, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Turn(File);

/// Waits for a session's turn, at most so long, and says so. `None` where somebody else has it still.
pub fn turn(store: &Store, session: &str, limit: Duration, progress: &dyn Progress) -> Result<Option<Turn>> {
    wait(store, session, limit, FlockOperation::NonBlockingLockExclusive, progress)
}

/// Whoever waits for longer than this says what for.
const SILENCE: Duration = Duration::from_millis(500);

fn wait(store: &Store, session: &str, limit: Duration, how: FlockOperation, progress: &dyn Progress) -> Result<Option<Turn>> {
    let folder = store.path().join("turns");
    files::make_folder(&folder).at("create folder", &folder)?;
    let path = folder.join(&*session_file(session));
    let file = files::open(&path, How::Make).at("open", &path)?;
    let began = Instant::now();
    let mut is_said = false;
    loop {
        match rustix::fs::flock(&file, how) {
            Ok(()) => return Ok(Some(Turn(file))),
            Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < limit => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e).at("lock", &path),
        }
        if progress.is_cancelled() {
            return Err(parhelia_store::Error::Cancelled.into());
        }
        if began.elapsed() > SILENCE && !is_said {
            progress
                .notice(&format!("waiting for another process that makes a checkpoint of session {session}, or rolls it back"));
            is_said = true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Turn {
    /// The file that holds it.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// The turn of a session, or an error that says that somebody else has it. It is waited for as long as the store's lock is.
pub fn held(store: &Store, session: &str, progress: &dyn Progress) -> Result<Turn> {
    turn(store, session, store.lock_timeout(), progress)?.ok_or_else(|| busy(session))
}

/// A turn that others may have as well who only make checkpoints; nobody rolls the session back meanwhile.
pub fn shared(store: &Store, session: &str, progress: &dyn Progress) -> Result<Turn> {
    wait(store, session, store.lock_timeout(), FlockOperation::NonBlockingLockShared, progress)?.ok_or_else(|| busy(session))
}

/// True while a process makes a checkpoint of the session, or rolls it back.
pub fn is_in_turn(store: &Store, session: &str) -> bool {
    matches!(wait(store, session, Duration::ZERO, FlockOperation::NonBlockingLockShared, &()), Ok(None))
}

/// The error of a session whose turn another process holds.
pub fn busy(session: &str) -> Error {
    Error::Busy(format!("another process makes a checkpoint of session {session}, or rolls it back; try again when it is done"))
}
