//! Sessions: listing and showing them, pausing, resuming and ending them, and making checkpoints of them.

use std::{cmp::Reverse, collections::HashMap, num::NonZeroUsize, path::PathBuf};

use axum::{
    Extension, Json,
    extract::State,
    routing::{get, post},
};
use parhelia_session::{
    Refusal, Result,
    ending::{self, of_session},
    overview::Overview,
    prompt,
    resume::{ResumeRequest, if_alive},
};
use parhelia_store::{
    Store, name,
    projection::{Goal, Session, Status},
    record::{Cause, Trigger},
    view::View,
};
use parhelia_wire::{checkpoint::Checkpoint, session as wire};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    checkpoints::shown,
    extract::{Given, Named, Parameters},
    operation::{Answer, Operation},
    problem::Problem,
    warnings::Warnings,
};
use crate::{
    app::{App, read, work},
    caller::{Caller, Peer},
    start,
};

/// So many sessions are listed at a time, unless fewer are asked for.
const LISTED_MAX: usize = 1000;

/// The longest interval between checkpoints, in seconds.
const INTERVAL_MAX: u64 = 31_536_000;

/// A session about which something was done.
#[derive(Debug, Serialize, JsonSchema)]
struct One {
    /// The session as it is now.
    session: wire::Session,
    /// Sentences that a person should read.
    warnings: Vec<String>,
}

/// A session and its runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Shown {
    /// The session.
    session: wire::Session,
    /// Its runs, in order.
    runs: Vec<wire::Run>,
}

/// Sessions.
#[derive(Debug, Serialize, JsonSchema)]
struct Sessions {
    /// Sessions, the one that changed last first.
    sessions: Vec<wire::Session>,
    /// The next page's `before`; null on the last page.
    before: Option<u64>,
}

/// The sessions that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// True to leave out sessions that have ended.
    #[serde(default)]
    open: bool,
    /// At most so many; 1000 is the most.
    limit: Option<NonZeroUsize>,
    /// Only those that changed last before this sequence, which the page before names.
    before: Option<u64>,
}

/// A pause.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pause {
    /// True to end a live agent; else it stays, and resuming it is a matter of milliseconds.
    #[serde(default)]
    end_agent: bool,
}

/// An end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct End {
    /// True to leave a live agent alone, of which a last checkpoint is made; else a session with one is not ended.
    #[serde(default)]
    leave_agent: bool,
}

/// A session that is to begin.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewSession {
    /// Its name; that of its folder, if none is given.
    name: Option<String>,
    /// Its policy of approval; the configured one, if none is given.
    policy: Option<String>,
    /// Absolute path of the folder that its agent works in. Either this or an agent folder is given.
    workspace: Option<String>,
    /// Absolute path of a folder with instructions and tools of an agent, in a new copy of which its agent works.
    agent_folder: Option<String>,
    /// Seconds between checkpoints, made where something has changed; 0 for never, 300 if none are given.
    interval_seconds: Option<u64>,
    /// The agent's command line.
    command: Vec<String>,
}

/// A prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Prompt {
    /// Its text.
    text: String,
}

/// A prompt that an agent was given.
#[derive(Debug, Serialize, JsonSchema)]
struct Prompted {
    /// The session as it is now.
    session: wire::Session,
    /// True if its agent was dead, and was started to be given it.
    resumed: bool,
}

/// Nothing more is to be said.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// A checkpoint that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
struct Made {
    /// The checkpoint; the last one, if the session is over and that has everything.
    checkpoint: Checkpoint,
    /// False if none was made, as the last one has everything.
    created: bool,
    /// Sentences that a person should read.
    warnings: Vec<String>,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/sessions", "listSessions", "Sessions, the one that changed last first, by pages.", get(list))
            .query::<Listed>()
            .gives::<Sessions>(),
        Operation::post(
            "/api/sessions",
            "createSession",
            "Begins a session: starts its agent in tmux, in a folder that is there or in a new copy of an agent folder.",
            post(create),
        )
        .takes::<NewSession>()
        .gives::<One>(),
        Operation::get("/api/sessions/{session}", "getSession", "A session, by its id or name, and its runs.", get(show))
            .gives::<Shown>(),
        Operation::post(
            "/api/sessions/{session}/pause",
            "pauseSession",
            "Makes a checkpoint of an active session and sets it aside. Its agent stays, unless it is to end.",
            post(pause),
        )
        .takes::<Pause>()
        .gives::<One>(),
        Operation::post(
            "/api/sessions/{session}/resume",
            "resumeSession",
            "Has a session go on: at once where its agent lives, else from its workspace or its newest good checkpoint.",
            post(resume),
        )
        .takes::<Nothing>()
        .gives::<One>(),
        Operation::post(
            "/api/sessions/{session}/prompt",
            "promptSession",
            "Gives a prompt to an agent that has nothing to do, or is dead and then resumed for it.",
            post(prompt),
        )
        .takes::<Prompt>()
        .gives::<Prompted>(),
        Operation::post("/api/sessions/{session}/end", "endSession", "Ends a session for good.", post(end))
            .takes::<End>()
            .gives::<One>(),
        Operation::post(
            "/api/sessions/{session}/checkpoints",
            "createCheckpoint",
            "Makes a checkpoint of a session as it is now.",
            post(checkpoint),
        )
        .takes::<Nothing>()
        .gives::<Made>(),
    ]
}

/// A session as other programs see it.
fn of(store: &Store, view: &View, name: &str) -> Result<wire::Session> {
    let session = view.session_named(name)?;
    let checkpoints = view.newest_first_of(&session.id)?.count() as u64;
    Ok(wire::Session::of(&session, &Overview::of(store, &session)?, checkpoints))
}

async fn list(State(app): State<App>, Parameters(listed): Parameters<Listed>) -> Answer<Sessions> {
    read(&app, move |app, view| {
        let mut sessions = view.sessions()?;
        sessions.retain(|session| !listed.open || session.status != Status::Ended);
        sessions.retain(|session| listed.before.is_none_or(|before| session.changed_sequence < before));
        sessions.sort_by_key(|session| Reverse(session.changed_sequence));
        let limit = listed.limit.map_or(LISTED_MAX, |limit| limit.get().min(LISTED_MAX));
        let before = sessions.get(limit).map(|_| sessions[limit - 1].changed_sequence);
        sessions.truncate(limit);
        let mut counts: HashMap<String, u64> = HashMap::new();
        for outline in view.outlines()? {
            *counts.entry(outline.session).or_default() += 1;
        }
        let one = |session| -> Result<wire::Session> {
            let overview = Overview::of(&app.store, session)?;
            Ok(wire::Session::of(session, &overview, counts.get(&session.id).copied().unwrap_or(0)))
        };
        Ok(Json(Sessions { sessions: sessions.iter().map(one).collect::<Result<_>>()?, before }))
    })
    .await
}

async fn show(State(app): State<App>, Named(name): Named<String>) -> Answer<Shown> {
    read(&app, move |app, view| {
        let session = of(&app.store, view, &name)?;
        let runs = session.runs.iter().filter_map(|id| view.run(id).transpose()).collect::<Result<Vec<_>, _>>()?;
        Ok(Json(Shown { session, runs: runs.iter().map(Into::into).collect() }))
    })
    .await
}

async fn pause(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Named(name): Named<String>,
    Given(asked): Given<Pause>,
) -> Answer<One> {
    work(&app, move |app| {
        let caller = Caller { service: &*app.host, peer };
        let session = app.store.refresh()?.session_named(&name)?;
        if session.goal() == Goal::Paused {
            return Err(Problem::refused(format!("session {} is set aside already; resume it first", session.id)));
        }
        let warnings = Warnings::default();
        ending::pause(&app.store, &caller, &session, !asked.end_agent, &warnings)?;
        Ok(Json(One { session: of(&app.store, &*app.store.refresh()?, &session.id)?, warnings: warnings.said() }))
    })
    .await
}

async fn resume(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Named(name): Named<String>,
    Given(Nothing {}): Given<Nothing>,
) -> Answer<One> {
    let (id, is_alive) = work(&app, move |app| {
        let session = app.store.refresh()?.session_named(&name)?;
        if session.status == Status::Ended {
            return Err(Refusal::HasEnded { session: session.id }.into());
        }
        let caller = Caller { service: &*app.host, peer };
        let alive = if_alive(&app.store, &caller, &session, &ResumeRequest::default())?;
        Ok((session.id, alive.is_some()))
    })
    .await?;
    if !is_alive {
        let session = id.clone();
        work(&app, move |app| start::resume(app, session, None)).await?;
    }
    read(&app, move |app, view| Ok(Json(One { session: of(&app.store, view, &id)?, warnings: Vec::new() }))).await
}

async fn create(State(app): State<App>, Given(new): Given<NewSession>) -> Answer<One> {
    let place = match (&new.workspace, &new.agent_folder) {
        (Some(folder), None) => start::Place::Workspace(absolute(folder)?),
        (None, Some(folder)) => start::Place::CopyOf(absolute(folder)?),
        _ => return Err(Problem::usage("give either a workspace or an agent_folder")),
    };
    if new.command.is_empty() {
        return Err(Problem::usage("there is no command line of an agent"));
    }
    let NewSession { name, policy, interval_seconds: interval, command, .. } = new;
    if interval.is_some_and(|seconds| seconds > INTERVAL_MAX) {
        return Err(Problem::usage(format!("interval_seconds is more than {INTERVAL_MAX}, a year")));
    }
    if command.iter().chain(&name).chain(&policy).any(|word| word.contains('\0')) {
        return Err(Problem::usage("a word with a zero byte cannot be given to a program"));
    }
    let new = start::NewSession { name, policy, place, interval, command };
    work(&app, move |app| {
        let id = start::begin(app, new)?;
        let view = app.store.refresh()?;
        Ok(Json(One { session: of(&app.store, &view, &id)?, warnings: namesakes(&view, &id)?.into_iter().collect() }))
    })
    .await
}

/// A warning where another session that has not ended has the same name, so that it names neither.
fn namesakes(view: &View, id: &str) -> Result<Option<String>, Problem> {
    let sessions = view.sessions()?;
    let Some(own) = sessions.iter().find(|session| session.id == id) else { return Ok(None) };
    let is_other = |other: &&Session| other.id != id && other.name == own.name && other.status != Status::Ended;
    let warning =
        |other: &Session| format!("session {} is called {} as well; give their ids to mean one of them", other.id, own.name);
    Ok(sessions.iter().find(is_other).map(warning))
}

/// The path of a folder on this machine.
fn absolute(text: &str) -> Result<PathBuf, Problem> {
    let path = name::as_path(&name::parse(text)).to_owned();
    match path.is_absolute() {
        true => Ok(path),
        false => Err(Problem::usage(format!("'{text}' is no absolute path"))),
    }
}

async fn prompt(State(app): State<App>, Named(name): Named<String>, Given(prompt): Given<Prompt>) -> Answer<Prompted> {
    work(&app, move |app| {
        let session = app.store.refresh()?.session_named(&name)?;
        if session.status == Status::Ended {
            return Err(Refusal::HasEnded { session: session.id }.into());
        }
        let resumed = !prompt::type_in(&app.store, &session, &prompt.text)?;
        if resumed {
            start::resume(app, session.id.clone(), Some(prompt.text))?;
        }
        Ok(Json(Prompted { session: of(&app.store, &*app.store.refresh()?, &session.id)?, resumed }))
    })
    .await
}

async fn end(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Named(name): Named<String>,
    Given(asked): Given<End>,
) -> Answer<One> {
    work(&app, move |app| {
        let caller = Caller { service: &*app.host, peer };
        let session = app.store.refresh()?.session_named(&name)?;
        let warnings = Warnings::default();
        ending::end(&app.store, &caller, &session, asked.leave_agent, &warnings)?;
        Ok(Json(One { session: of(&app.store, &*app.store.refresh()?, &session.id)?, warnings: warnings.said() }))
    })
    .await
}

async fn checkpoint(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Named(name): Named<String>,
    Given(Nothing {}): Given<Nothing>,
) -> Answer<Made> {
    work(&app, move |app| {
        let caller = Caller { service: &*app.host, peer };
        let view = app.store.refresh()?;
        let session = view.session_named(&name)?;
        let run = view.newest_run(&session)?.filter(|run| run.is_open());
        let warnings = Warnings::default();
        let made = of_session(&app.store, &caller, &session, run.as_ref(), (Trigger::Manual, Cause::Asked, "api"), &warnings)?;
        let view = app.store.refresh()?;
        let checkpoint = shown(&view, &made.outcome.checkpoint)?;
        Ok(Json(Made { checkpoint, created: !made.outcome.skipped, warnings: warnings.said() }))
    })
    .await
}
