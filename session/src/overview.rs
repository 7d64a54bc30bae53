//! A session at one glance: what is wanted of it, how it is found, and how much of it is saved.

use std::{fs, os::unix::net::UnixStream};

use jiff::Timestamp;
use parhelia_store::{
    Store,
    id::Ulid,
    projection::{ApprovalStatus, Conversation, Goal, Run, Session, Status},
    record::Checkpoint,
};

use crate::{
    capture::summary_now,
    error::Result,
    place::Standing,
    resume, rollback,
    run::{self, Failing, Life},
    state::state_json,
};
use parhelia_agent::{
    open::{live, said_by},
    process::{Identity, boot_id},
    transcript::Located,
};

/// No prompt is shown further, in characters.
const PROMPT_CHARACTERS_MAX: usize = 200;

/// The observed state of a session's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It had no agent yet.
    None,
    /// Its agent is being started.
    Starting,
    /// It lives.
    Live,
    /// It lives, and has nothing to do until it is told something.
    Idle,
    /// It lives, and waits for an answer.
    Waiting,
    /// It cannot be seen from here, and counts as alive until its lease runs out.
    Elsewhere,
    /// No process of it is left.
    Dead,
}

impl Observed {
    /// True if its agent may act.
    pub fn is_alive(self) -> bool {
        !matches!(self, Observed::None | Observed::Dead)
    }

    /// Its name, as printed.
    pub fn name(self) -> &'static str {
        match self {
            Observed::None => "none",
            Observed::Starting => "starting",
            Observed::Live => "live",
            Observed::Idle => "idle",
            Observed::Waiting => "waiting",
            Observed::Elsewhere => "elsewhere",
            Observed::Dead => "dead",
        }
    }
}

/// A checkpoint, and when it was made.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Its id.
    pub id: Ulid,
    /// Time of its making.
    pub created_at: Timestamp,
}

/// A live agent or program without its supervisor, the process that started it and makes its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupervised {
    /// Its process.
    pub process: i32,
    /// True if it is an agent that may run hooks: these make checkpoints at its events alone.
    pub has_hooks: bool,
}

impl Unsupervised {
    fn of(store: &Store, session: &Session, run: &Run) -> Result<Option<Self>> {
        let Life::Agent(agent) = run::life(run) else { return Ok(None) };
        if !run::is_orphaned(run) {
            return Ok(None);
        }
        let has_hooks = run::hooked_agent_of(run).is_some() || run::calls_hooks(store, session, run)?;
        Ok(Some(Unsupervised { process: agent.process, has_hooks }))
    }
}

/// A session at one glance.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The wanted state; none for a session that never had a run.
    pub wanted: Option<Goal>,
    /// The observed state.
    pub observed: Observed,
    /// The reason for the observed state, if it is known.
    pub why: Option<String>,
    /// Its head.
    pub last_checkpoint: Option<Saved>,
    /// The decision about that, if it waits for a person or was rejected.
    pub review: Option<ApprovalStatus>,
    /// The last prompt of its user, shortened.
    pub last_prompt: Option<String>,
    /// Checkpoints that have failed since.
    pub failing: Option<Failing>,
    /// Set where it lives and no checkpoint of it can be made, which cannot be recorded either: its store takes no writes.
    pub store_is_read_only: bool,
    /// A process that is not its agent, and says that it has the conversation of this dead one open.
    pub open_in: Option<i32>,
    /// A sentence about an agent outside of this container that may have the conversation of this dead one open.
    pub unseen: Option<String>,
    /// Set where it lives without its supervisor.
    pub unsupervised: Option<Unsupervised>,
    /// A warning where another folder has taken the place of its own.
    pub another_folder: Option<String>,
    /// The reason for which a policy has set it aside since its agent died, so that it waits for a person.
    pub set_aside: Option<String>,
    /// The checkpoint that a rollback was to go back to which was interrupted, so that files of two states stand in the workspace.
    pub interrupted_rollback: Option<Ulid>,
}

impl Overview {
    /// Looks at a session.
    pub fn of(store: &Store, session: &Session) -> Result<Self> {
        let view = store.view();
        let run = view.newest_run(session)?;
        let (observed, why) = observed(store, session, run.as_ref())?;
        let head = view.head(&session.id)?;
        // One that was made since, by whomever, is as good.
        let is_over = |failing: &Failing| head.as_ref().is_some_and(|head| head.record.created_at > failing.since);
        let failing = run::failing(session).filter(|failing| !is_over(failing));
        let decided = head.as_ref().map(|head| view.marks(head.record.id)).transpose()?.and_then(|marks| marks.approval);
        let is_open = |status: &ApprovalStatus| matches!(status, ApprovalStatus::Pending | ApprovalStatus::Rejected);
        let last_prompt = last_prompt(store, session, head.as_ref()).map(|prompt| shortened(&prompt));
        Ok(Overview {
            wanted: session.run.as_ref().map(|_| session.goal()),
            observed,
            why,
            last_checkpoint: head.map(|head| Saved { id: head.record.id, created_at: head.record.created_at }),
            review: decided.map(|approval| approval.status).filter(is_open),
            last_prompt,
            failing,
            store_is_read_only: observed.is_alive() && store.is_read_only(),
            open_in: (observed == Observed::Dead).then(|| open_in(store, session)).transpose()?.flatten(),
            unseen: (observed == Observed::Dead).then(|| unseen(store, session)).transpose()?.flatten(),
            unsupervised: run.as_ref().map(|run| Unsupervised::of(store, session, run)).transpose()?.flatten(),
            another_folder: another_folder(session),
            set_aside: resume::why_set_aside(session),
            interrupted_rollback: rollback::interrupted(store, session).map(|intent| intent.target),
        })
    }
}

/// The last prompt of a session: of its last conversation in which something was said. None where that cannot be read: an older prompt is
/// not the last one.
fn last_prompt(store: &Store, session: &Session, head: Option<&Checkpoint>) -> Option<String> {
    // A checkpoint that cannot be read is no reason to show nothing.
    let state = head.and_then(|head| state_json(store, head, "conversation.json").ok().flatten());
    let saved = state.as_ref().map(|state| state.get("summary").unwrap_or(state));
    let saved_in = saved.and_then(|saved| saved["agent_session_id"].as_str());
    let saved = || saved.and_then(|saved| saved["last_prompt"].as_str()).map(str::to_owned);
    let is_only = session.conversations.len() < 2;
    for known in session.conversations.iter().rev() {
        let is_saved = saved_in == Some(known.id.as_str());
        let found = prompt_since(store, known, head.filter(|_| is_saved)).or_else(|| saved().filter(|_| is_saved));
        let turns = known.turn_count.unwrap_or_default();
        if found.is_some() || turns > u64::from(is_only) {
            return found;
        }
    }
    let first = || session.first_prompt.clone();
    if is_only { saved().filter(|_| saved_in.is_none()).or_else(first) } else { None }
}

/// The last prompt of a conversation that has gone on since the checkpoint, as far as it can be read.
fn prompt_since(store: &Store, known: &Conversation, head: Option<&Checkpoint>) -> Option<String> {
    let located = Located::from_hook(&known.seen_at()?).ok()?;
    let changed = Timestamp::try_from(fs::metadata(&located.transcript).ok()?.modified().ok()?).ok()?;
    if head.is_some_and(|head| changed < head.record.created_at) {
        return None;
    }
    summary_now(located, &store.layout().cache()).ok()?.last_prompt
}

/// An agent that says that it has the newest conversation of a session open; none of a session that has ended.
fn open_in(store: &Store, session: &Session) -> Result<Option<i32>> {
    let Some(newest) = session.conversations.last().filter(|_| session.status != Status::Ended) else { return Ok(None) };
    let config = run::config_of_session(store, session)?;
    let said = config.and_then(|config| live(&config.path, &newest.id).into_iter().next());
    Ok(said.map(|said| said.process.process))
}

/// An agent that may have the newest conversation of a session open where nothing can be seen of it; none of a session that has ended.
fn unseen(store: &Store, session: &Session) -> Result<Option<String>> {
    let Some(newest) = session.conversations.last().filter(|_| session.status != Status::Ended) else { return Ok(None) };
    let config = run::config_of_session(store, session)?;
    Ok(config.map(|config| run::unseen_in(store, session, &config.path, &newest.id)).transpose()?.flatten())
}

/// The warning; none of a session that has ended.
fn another_folder(session: &Session) -> Option<String> {
    let standing = Some(Standing::of(session)).filter(|standing| session.status != Status::Ended && standing.is_another())?;
    standing.text(session)
}

/// Sessions that are wanted running, and do not run as they should.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// Those whose agent has died, the one that changed last first.
    pub dead: Vec<Session>,
    /// Those that another machine or container may have, in the same order: which one, and until when its lease holds.
    pub elsewhere: Vec<(Session, String, Timestamp)>,
    /// Those that live without their supervisor, in the same order.
    pub unsupervised: Vec<(Session, Unsupervised)>,
}

/// Looks for sessions that are wanted running, and whose agent is not seen to live here, or lives without its supervisor.
pub fn missing(store: &Store) -> Result<Missing> {
    let view = store.refresh()?;
    let mut found = Missing::default();
    for session in view.sessions()?.into_iter().filter(|session| session.goal() == Goal::Running) {
        let Some(run) = view.newest_run(&session)? else { continue };
        match run::life(&run) {
            Life::Over => found.dead.push(session),
            Life::Elsewhere { host, until } => found.elsewhere.push((session, host, until)),
            Life::Agent(_) => {
                let unsupervised = Unsupervised::of(store, &session, &run)?;
                found.unsupervised.extend(unsupervised.map(|found| (session, found)));
            }
            Life::Starting(_) => {}
        }
    }
    found.unsupervised.sort_by_key(|(session, _)| std::cmp::Reverse(session.changed_at));
    found.dead.sort_by_key(|session| std::cmp::Reverse(session.changed_at));
    found.elsewhere.sort_by_key(|(session, ..)| std::cmp::Reverse(session.changed_at));
    Ok(found)
}

fn observed(store: &Store, session: &Session, run: Option<&Run>) -> Result<(Observed, Option<String>)> {
    let Some(run) = run else { return Ok((Observed::None, None)) };
    // One whose session was ended while it lived is still there to be seen.
    let life = run::left_alive(run).map_or_else(|| run::life(run), Life::Agent);
    let why_ended = || {
        let is_set_aside = run.is_open() && session.goal() == Goal::Paused;
        if is_set_aside { Some(SET_ASIDE.to_owned()) } else { session.status_reason.clone().filter(|_| !run.is_open()) }
    };
    Ok(match life {
        Life::Starting(_) => (Observed::Starting, None),
        Life::Elsewhere { host, until } => (Observed::Elsewhere, Some(format!("on {host}, until {until}"))),
        Life::Over => (Observed::Dead, why_dead(session, run)),
        Life::Agent(process) => {
            let config = run::config_of_session(store, session)?;
            let said = config.and_then(|config| {
                let its = || live(&config.path, &run::conversation_of(session, &run.id)?).into_iter().next();
                said_by(&config.path, process.process).filter(|said| said.process.is_same(&process)).or_else(its)
            });
            match said.as_ref().map(|said| (said.status.as_deref(), said.waits_for.clone())) {
                Some((Some("idle"), _)) => (Observed::Idle, why_ended()),
                Some((Some("waiting"), what)) => (Observed::Waiting, what.or_else(why_ended)),
                _ => (Observed::Live, why_ended()),
            }
        }
    })
}

fn why_dead(session: &Session, run: &Run) -> Option<String> {
    if !run.is_open() {
        return session.status_reason.clone().or_else(|| run.exit_reason.clone());
    }
    if let Some(why) = run::why_unheard(run) {
        return Some(why);
    }
    let is_this_boot = boot_id().is_ok_and(|own| run.boot_id.as_ref() == Some(&own));
    let is_server_gone = run.tmux.as_ref().is_some_and(|tmux| !has_run_since(&tmux.socket, run));
    let is_supervised = run::launcher_of(run).is_some_and(|launcher| launcher.is_alive());
    Some(match () {
        () if is_supervised => "its process is gone, and its last checkpoint is being made".to_owned(),
        () if !is_this_boot => "its machine was started anew".to_owned(),
        () if is_server_gone => "its tmux server is gone".to_owned(),
        () => "its process is gone, and nothing says why".to_owned(),
    })
}

/// The reason why a live session is not resumed when its agent dies.
const SET_ASIDE: &str = "paused: it is not resumed if it dies";

/// True if the server of a tmux socket was there when a run began. Another one may have taken its place.
fn has_run_since(socket: &str, run: &Run) -> bool {
    let Ok(connection) = UnixStream::connect(socket) else { return false };
    let server = rustix::net::sockopt::socket_peercred(&connection).ok().map(|peer| peer.pid.as_raw_nonzero().get());
    let server = server.and_then(|process| Identity::of(process).ok());
    server.zip(run.start_time).is_none_or(|(server, began)| server.start_time <= began)
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
