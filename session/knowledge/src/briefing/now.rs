//! The present state when an agent starts: its conversation to the end, the state of git, and the differences between workspace and
//! checkpoint. The agent waits meanwhile, so everything is read at the same time, each part within a time limit.

use std::{
    collections::HashSet,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use parhelia_ledger::{Conversation, LedgerView as _, Place, Session};
use parhelia_store::{
    OpenOptions, Store,
    create::{self, Options},
    diff::{DiffOptions, Side, TreeChange, compare},
    record::Checkpoint,
    tree::Node,
};
use serde_json::Value;

use super::files;
use crate::context::plain;
use parhelia_agent::{
    git::{self, State},
    transcript::TranscriptLocation,
};
use parhelia_host::{Result, conversation::summary_now, state::state_json};

/// So long an agent may wait for all of it.
const LIMIT: Duration = Duration::from_millis(1_800);
/// So many other sessions of the same folder are looked at.
const OTHERS_MAX: usize = 8;
/// So many of a session's last conversations are read.
const CONVERSATIONS_MAX: usize = 4;

/// The present state. A part that could not be read in time is none.
#[derive(Debug, Default)]
pub(super) struct PresentState {
    /// The conversation, as `conversation.json` sums it up.
    pub conversation: Option<Value>,
    /// The workspace's repository.
    pub git: Option<State>,
    /// The position of HEAD relative to the checkpoint's, in words that stand between the two.
    pub head: Option<String>,
    /// The changes in the workspace.
    pub changes: Option<Changes>,
}

/// The changes in a workspace.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Since the session's first checkpoint.
    pub session: Vec<TreeChange>,
    /// Since the checkpoint that is gone on from.
    pub since: Vec<TreeChange>,
    /// Files that are not listed, because the agent of another session has written them, by its id.
    pub of_others: Vec<(String, Vec<Vec<u8>>)>,
    /// Listed files that may be another session's as well, by its id.
    pub maybe_of: Vec<(String, Vec<Vec<u8>>)>,
}

/// The session and the places that are looked at.
pub(super) struct LookRequest<'a> {
    pub session: &'a Session,
    pub checkpoint: Option<&'a Checkpoint>,
    pub workspace: &'a Path,
    pub transcript: Option<&'a Path>,
    pub git: git::Environment,
}

/// Something that is done beside.
struct Task<T>(Option<Receiver<T>>);

impl<T: Send + 'static> Task<T> {
    fn begin(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (send, receive) = channel();
        let started = thread::Builder::new().spawn(move || {
            // Nobody may wait any more.
            let _ = send.send(work());
        });
        Task(started.ok().map(|_| receive))
    }

    fn by(self, until: Instant) -> Option<T> {
        self.0?.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }
}

/// Finds out the present state, in threads beside each other; a part that takes longer than `LIMIT` is none.
pub(super) fn look(store: &Store, wanted: LookRequest<'_>) -> PresentState {
    let until = Instant::now() + LIMIT;
    let cache = store.layout().cache();
    let conversation = wanted.transcript.and_then(|path| TranscriptLocation::from_hook(path).ok()).map(|located| {
        Task::begin(move || summary_now(located, &cache).ok().and_then(|summary| serde_json::to_value(summary).ok()))
    });
    let then = wanted.checkpoint.and_then(|checkpoint| checkpoint.record.git.as_ref()?.get("head")?.as_str().map(str::to_owned));
    let (workspace, environment) = (wanted.workspace.to_owned(), wanted.git);
    let git = Task::begin(move || {
        let state = git::state(&workspace, &environment, LIMIT).ok().flatten();
        let head = state.as_ref().and_then(|state| state.head.clone());
        let compared = then.zip(head).and_then(|(then, now)| git::compared(&workspace, &environment, &then, &now, LIMIT));
        (state, compared)
    });
    let place = store.path().to_owned();
    let (session, checkpoint, workspace) = (wanted.session.clone(), wanted.checkpoint.cloned(), wanted.workspace.to_owned());
    let changes = Task::begin(move || {
        // A view of its own, which does not end with the one that waits.
        let store = parhelia_ledger::open(&place, &OpenOptions::default()).ok()?;
        changes(&store, &session, checkpoint.as_ref()?, &workspace).ok()
    });
    let (git, head) = git.by(until).unwrap_or_default();
    PresentState {
        conversation: conversation.and_then(|beside| beside.by(until)).flatten(),
        git,
        head,
        changes: changes.by(until).flatten(),
    }
}

/// Compares the workspace as it is now with the session's first checkpoint and with this one.
fn changes(store: &Store, session: &Session, checkpoint: &Checkpoint, workspace: &Path) -> Result<Changes> {
    let options = Options { workspace: workspace.to_owned(), rules: checkpoint.record.rules.clone(), ..Options::default() };
    let (live, trees, omissions) = create::look(store, &options, &())?;
    let against = |old: &Node| -> Result<Vec<TreeChange>> {
        let new = Side::new(&trees, &live).with_omissions(&omissions);
        let mut found = compare(Side::new(store, old), new, DiffOptions::default())?;
        found.retain(files::is_told);
        Ok(found)
    };
    let first = store.view().oldest_of(&session.id)?;
    let mut found = Changes {
        session: first.map(|first| against(&store.workspace_node(&first)?)).transpose()?.unwrap_or_default(),
        since: against(&store.workspace_node(checkpoint)?)?,
        ..Changes::default()
    };
    found.leave_to_others(store, session, workspace)?;
    Ok(found)
}

impl Changes {
    /// Removes what is another session's: what the tools of its agent have written, and those of this session's agent have not. Of what
    /// was changed in another way, by commands or by a person, nobody knows whose it is: it stays, and sessions whose checkpoints differ in it
    /// are noted. What nobody's agent has written is thus left out of no session's list.
    pub fn leave_to_others(&mut self, store: &Store, session: &Session, workspace: &Path) -> Result<()> {
        let view = store.view();
        let is_same = |other: &Session| {
            let folder = other.workspace.as_ref().map(Place::folder);
            // Checkpoints of a folder without an agent are nobody's work.
            other.id != session.id && !other.conversations.is_empty() && folder.is_some_and(|folder: PathBuf| folder == workspace)
        };
        let mut others: Vec<Session> = view.sessions()?.into_iter().filter(is_same).collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.changed_at));
        let own = if others.is_empty() { HashSet::new() } else { written(store, session, workspace)? };
        for other in others.iter().take(OTHERS_MAX) {
            let theirs = written(store, other, workspace)?;
            let is_theirs = |change: &TreeChange| theirs.contains(&*change.path) && !own.contains(&*change.path);
            let left: Vec<Vec<u8>> =
                self.session.extract_if(.., |change| is_theirs(change)).map(|change| change.path.to_vec()).collect();
            self.since.retain(|change| !is_theirs(change));
            if !left.is_empty() {
                self.of_others.push((other.id.clone(), left));
            }
            let (Some(first), Some(head)) = (view.oldest_of(&other.id)?, view.head(&other.id)?) else { continue };
            let changed = files::changes(store, &first, &head)?;
            let changed: HashSet<&[u8]> = changed.iter().map(|change| &*change.path).collect();
            let is_both = |path: &&[u8]| theirs.contains(*path) || changed.contains(path) && !own.contains(*path);
            let both = self.session.iter().map(|change| &*change.path).filter(is_both).map(<[u8]>::to_vec).collect::<Vec<_>>();
            if !both.is_empty() {
                self.maybe_of.push((other.id.clone(), both));
            }
        }
        Ok(())
    }
}

/// Files that the tools of a session's agent have written, as paths from the workspace: by its last checkpoint, and by its conversations as they are now.
fn written(store: &Store, session: &Session, workspace: &Path) -> Result<HashSet<Vec<u8>>> {
    let head = store.view().head(&session.id)?;
    let context = head.map(|head| state_json(store, &head, "context.json")).transpose()?.flatten();
    let mut found = context.as_ref().map(files::edited).unwrap_or_default();
    for transcript in session.conversations.iter().rev().take(CONVERSATIONS_MAX).filter_map(Conversation::seen_at) {
        let Some(said) =
            TranscriptLocation::from_hook(&transcript).ok().and_then(|at| summary_now(at, &store.layout().cache()).ok())
        else {
            continue;
        };
        let inner = said.files_modified.iter().map(|path| plain(&workspace.join(path)));
        found.extend(inner.filter_map(|path| Some(path.strip_prefix(workspace).ok()?.as_os_str().as_bytes().to_vec())));
    }
    Ok(found)
}
