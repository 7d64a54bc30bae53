//! New sessions, whose agents start in tmux.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::post,
};
use parhelia_host::Host as _;
use parhelia_ledger::{Goal, LedgerView as _, Session, Status};
use parhelia_life::{
    checkpoint::session_name::check_given,
    overview,
    supervise::{LaunchRequest, policy_of_outer, prompted},
};
use parhelia_oversight::{labels, review::acts::note_begun};
use parhelia_store::{
    name::{self, NameExt as _},
    view::View,
};
use parhelia_wire::session as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{labels::labels_of, of};
use crate::problem::Problem;
use crate::{
    api::{extract::JsonBody, operation::Operation, own, warnings::Warnings},
    app::{App, AppState, work},
    caller::{Caller, Peer},
    start,
};

/// The longest interval between checkpoints, in seconds.
const INTERVAL_MAX: u64 = 31_536_000;

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
    /// The first prompt, which the agent gets behind its command line.
    prompt: Option<String>,
    /// Its labels: a value for each key.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// True to begin none if a session of this name is there that has not ended: that one is the answer, whether its agent lives or not.
    #[serde(default)]
    if_absent: bool,
    /// True to begin it beside a session that has the same name, or whose agent lives in the same folder; without, that is refused (409).
    #[serde(default)]
    beside: bool,
}

/// A session that was begun, or was there.
#[derive(Debug, Serialize, JsonSchema)]
struct BegunSession {
    /// The session as it is now.
    session: wire::Session,
    /// False if it was there already.
    created: bool,
    /// Sentences that a person should read.
    warnings: Vec<String>,
}

/// Route and description of `createSession`.
pub fn operation() -> Operation {
    Operation::post(
        "/v1/sessions",
        "createSession",
        "Begins a session: starts its agent in tmux, in a folder that is there or in a new copy of an agent folder.",
        post(create),
    )
    .takes::<NewSession>()
    .gives::<BegunSession>()
    .creates()
}

async fn create(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    JsonBody(new): JsonBody<NewSession>,
) -> Result<Response, Problem> {
    let place = match (&new.workspace, &new.agent_folder) {
        (Some(folder), None) => start::Place::Workspace(absolute(folder)?),
        (None, Some(folder)) => start::Place::CopyOf(absolute(folder)?),
        _ => return Err(Problem::usage("give either a workspace or an agent_folder")),
    };
    if new.command.is_empty() {
        return Err(Problem::usage("there is no command line of an agent"));
    }
    new.name.as_deref().map(check_given).transpose()?;
    let labels = labels_of(&new.labels)?;
    let NewSession { name, policy, interval_seconds: interval, command, prompt, if_absent, beside, .. } = new;
    if interval.is_some_and(|seconds| seconds > INTERVAL_MAX) {
        return Err(Problem::usage(format!("interval_seconds is more than {INTERVAL_MAX}, a year")));
    }
    if command.iter().chain(&name).chain(&policy).any(|word| word.contains('\0')) {
        return Err(Problem::usage("a word with a zero byte cannot be given to a program"));
    }
    let interval = interval.map_or(Some(start::INTERVAL), |seconds| (seconds > 0).then(|| Duration::from_secs(seconds)));
    let command: Vec<OsString> = command.into_iter().map(Into::into).collect();
    if let Some(prompt) = &prompt {
        prompted(&command, prompt)?;
    }
    let mut new = LaunchRequest { name, interval, command, prompt, ..LaunchRequest::default() };
    let starter = app.clone();
    let begun = work(&app, move |app| {
        if let Some(name) = &new.name {
            own::ensure(app, &peer, "session run", name)?;
        }
        // Of two requests at the same time, one sees what the other has begun.
        let _turn = app.beginning.take(format!("name {}", named(&new, &place)));
        let _folder = folder(&place).map(|folder| app.beginning.take(format!("folder {}", folder.to_string_lossy())));
        let view = app.store.refresh()?;
        if let Some(there) = there(app, &view, (&new, &place), if_absent, beside)? {
            let warnings = differences(&view, &there, (&new, &place), !labels.is_empty())?;
            return Ok(BegunSession { session: of(&app.store, &view, &there)?, created: false, warnings });
        }
        let (caller, warnings) = (Caller { service: &*app.host, store: &app.store, peer }, Warnings::default());
        // The process that begins it is no agent's, so that nobody else looks at who asks.
        let options = caller.config(place.folder())?.approval;
        new.policy = policy_of_outer(&app.store, &caller, &options, policy, &warnings)?;
        let id = start::begin(&starter, new, place)?;
        note_begun(&app.store, &caller, &id)?;
        if let Some(begun) = app.store.refresh()?.session(&id)? {
            labels::change(&app.store, &caller, &begun, (&labels, &[]), &warnings)?;
        }
        let view = app.store.refresh()?;
        let warnings = warnings.said().into_iter().chain(namesakes(&view, &id)?).collect();
        Ok(BegunSession { session: of(&app.store, &view, &id)?, created: true, warnings })
    })
    .await?;
    if !begun.created {
        return Ok(Json(begun).into_response());
    }
    let place = format!("/v1/sessions/{}", begun.session.id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(begun)).into_response())
}

/// The name that a new session will have: that of its folder, if it is given none.
fn named(new: &LaunchRequest, place: &start::Place) -> String {
    let of_folder = || place.folder().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    new.name.clone().unwrap_or_else(of_folder)
}

/// The folder that is there already in which a new session is to work.
fn folder(place: &start::Place) -> Option<PathBuf> {
    match place {
        start::Place::Workspace(folder) => Some(folder.canonicalize().unwrap_or_else(|_| folder.clone())),
        start::Place::CopyOf(_) => None,
    }
}

/// The session that is there instead of a new one, where such a one is wanted. Fails where a new one would be one too many.
fn there(
    app: &AppState,
    view: &View,
    (new, place): (&LaunchRequest, &start::Place),
    if_absent: bool,
    beside: bool,
) -> Result<Option<String>, Problem> {
    let open: Vec<Session> = view.sessions()?.into_iter().filter(|one| one.goal() != Goal::Ended && one.run.is_some()).collect();
    let name = named(new, place);
    let namesakes: Vec<&Session> = open.iter().filter(|one| one.name == name || one.id == name).collect();
    match &namesakes[..] {
        [only] if if_absent => return Ok(Some(only.id.clone())),
        [_, ..] if if_absent => return Ok(Some(view.session_named(&name)?.id)),
        [first, ..] if !beside && new.name.is_some() => {
            return Err(Problem::refused(format!(
                "session {} has the name {name} and has not ended; give if_absent to be answered with it, or beside to begin another one",
                first.id
            )));
        }
        _ => {}
    }
    let Some(folder) = folder(place).filter(|_| !beside) else { return Ok(None) };
    for other in open.iter().filter(|one| one.workspace.as_ref().is_some_and(|place| place.folder() == folder)) {
        if overview::activity(&app.store, other)?.0.is_alive() {
            return Err(Problem::refused(format!(
                "the agent of session {} lives in {}; give beside to begin another one there",
                other.id,
                parhelia_wire::shown(folder.as_os_str().as_encoded_bytes())
            )));
        }
    }
    Ok(None)
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

/// Whatever was asked for that the session which is there instead of a new one does not have.
fn differences(
    view: &View,
    id: &str,
    (new, place): (&LaunchRequest, &start::Place),
    has_labels: bool,
) -> Result<Vec<String>, Problem> {
    let Some(there) = view.session(id)? else { return Ok(Vec::new()) };
    let works_in = there.workspace.as_ref().map(|place| place.folder());
    let is_elsewhere = folder(place).is_some_and(|asked| works_in.as_ref().is_some_and(|folder| *folder != asked));
    let command = view.newest_run(&there)?.map(|run| run.command()).unwrap_or_default();
    let texts = [
        is_elsewhere.then(|| format!("session {id} works in {}, which is another folder", works_in.unwrap_or_default().shown())),
        (command != new.command).then(|| format!("session {id} was begun with another command line")),
        new.prompt
            .is_some()
            .then(|| format!("the prompt was not given to session {id}; POST /v1/sessions/{id}/prompt does that")),
        has_labels.then(|| format!("session {id} keeps its own labels")),
    ];
    Ok(texts.into_iter().flatten().collect())
}

/// The path of a folder on this machine.
fn absolute(text: &str) -> Result<PathBuf, Problem> {
    let path = name::as_path(&name::parse(text)).to_owned();
    match path.is_absolute() {
        true => Ok(path),
        false => Err(Problem::usage(format!("'{text}' is no absolute path"))),
    }
}
