//! Sessions: showing, pausing, resuming, prompting and ending them, and making checkpoints of them.

mod create;
mod labels;
mod list;
mod question;

use axum::{
    Extension, Json,
    extract::State,
    http::{
        StatusCode,
        header::{ETAG, LOCATION},
    },
    response::{IntoResponse, Response},
    routing::{get, post},
};
use parhelia_host::{Refusal, Result};
use parhelia_ledger::{Goal, LedgerView as _, Session, Status};
use parhelia_life::{
    ending::{self, of_session},
    overview::{self, Overview},
    prompt,
    resume::{Alive, ResumeRequest, if_alive},
};
use parhelia_store::{
    Store,
    record::{Cause, Trigger},
    view::View,
};
use parhelia_wire::{checkpoint::Checkpoint, session as wire};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    checkpoints::shown,
    condition::etag,
    extract::{JsonBody, PathParameters},
    operation::{Answer, Operation},
    warnings::Warnings,
};
use crate::problem::Problem;
use crate::{
    app::{App, AppState, read, work},
    caller::{Caller, Peer},
    start,
};

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
struct SessionResponse {
    /// The session, as recorded and as found now.
    session: wire::Session,
    /// Its runs, in order.
    runs: Vec<wire::Run>,
}

/// Options of a session's pause.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pause {
    /// True to end a live agent; else it stays, and resuming it is a matter of milliseconds.
    #[serde(default)]
    end_agent: bool,
}

/// Options of a session's end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct End {
    /// True to leave a live agent alone, of which a last checkpoint is made; else a session with one is not ended.
    #[serde(default)]
    leave_agent: bool,
}

/// A prompt for the session's agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Prompt {
    /// Text of the prompt, as a person would type it.
    text: String,
}

/// A prompt that an agent was given.
#[derive(Debug, Serialize, JsonSchema)]
struct PromptResponse {
    /// The session as it is now.
    session: wire::Session,
    /// True if its agent was dead, and was started to be given it.
    resumed: bool,
}

/// Nothing more is to be said.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

/// A checkpoint that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
struct CheckpointResponse {
    /// The checkpoint; the last one, if the session is over and that has everything.
    checkpoint: Checkpoint,
    /// False if none was made, as the last one has everything.
    created: bool,
    /// Sentences that a person should read.
    warnings: Vec<String>,
}

pub fn operations() -> Vec<Operation> {
    vec![
        list::operation(),
        create::operation(),
        Operation::get("/v1/sessions/{session}", "getSession", "A session, by its id or name, and its runs.", get(show))
            .gives::<SessionResponse>(),
        Operation::post(
            "/v1/sessions/{session}/pause",
            "pauseSession",
            "Makes a checkpoint of an active session and sets it aside. Its agent stays, unless it is to end.",
            post(pause),
        )
        .takes::<Pause>()
        .gives::<One>(),
        Operation::post(
            "/v1/sessions/{session}/resume",
            "resumeSession",
            "Has a session go on: at once where its agent lives, else from its workspace or its newest good checkpoint.",
            post(resume),
        )
        .takes::<EmptyBody>()
        .gives::<One>(),
        Operation::post(
            "/v1/sessions/{session}/prompt",
            "promptSession",
            "Gives a prompt to an agent that has nothing to do, or is dead and then resumed for it.",
            post(prompt),
        )
        .takes::<Prompt>()
        .gives::<PromptResponse>(),
        question::question_operation(),
        question::answer_operation(),
        labels::operation(),
        Operation::post("/v1/sessions/{session}/end", "endSession", "Ends a session for good.", post(end))
            .takes::<End>()
            .gives::<One>(),
        Operation::post(
            "/v1/sessions/{session}/checkpoints",
            "createCheckpoint",
            "Makes a checkpoint of a session as it is now.",
            post(checkpoint),
        )
        .takes::<EmptyBody>()
        .gives::<CheckpointResponse>()
        .creates(),
    ]
}

/// A session as other programs see it.
fn of(store: &Store, view: &View, name: &str) -> Result<wire::Session> {
    let session = view.session_named(name)?;
    Ok(wire::Session::of(&session, &Overview::of(store, &session)?, view.count_of(&session.id)?))
}

async fn show(State(app): State<App>, PathParameters(name): PathParameters<String>) -> Result<Response, Problem> {
    read(&app, move |app, view| {
        let session = of(&app.store, view, &name)?;
        let runs = session.runs.iter().filter_map(|id| view.run(id).transpose()).collect::<Result<Vec<_>, _>>()?;
        let tag = etag(session.changed_sequence);
        Ok(([(ETAG, tag)], Json(SessionResponse { session, runs: runs.iter().map(Into::into).collect() })).into_response())
    })
    .await
}

async fn pause(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(name): PathParameters<String>,
    JsonBody(asked): JsonBody<Pause>,
) -> Answer<One> {
    work(&app, move |app| {
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let session = app.store.refresh()?.session_named(&name)?;
        ensure_may_pause(app, &session, asked.end_agent)?;
        let warnings = Warnings::default();
        ending::pause(&app.store, &caller, &session, asked.end_agent, &warnings)?;
        Ok(Json(One { session: of(&app.store, &*app.store.refresh()?, &session.id)?, warnings: warnings.said() }))
    })
    .await
}

/// Refuses to pause what is not active: a session that is paused already, unless its agent is to end, or whose agent has failed.
fn ensure_may_pause(app: &AppState, session: &Session, ends_agent: bool) -> Result<(), Problem> {
    let ends_agent = || Ok::<_, Problem>(ends_agent && overview::activity(&app.store, session)?.0.is_alive());
    if session.status == Status::Error {
        let why = session.status_reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        return Err(Problem::refused(format!("session {} has failed{why}, and is not active; resume or end it", session.id)));
    }
    if session.goal() == Goal::Paused && !ends_agent()? {
        return Err(Problem::refused(format!("session {} is set aside already; resume it first", session.id)));
    }
    Ok(())
}

async fn resume(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(name): PathParameters<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Answer<One> {
    let (id, is_alive, warnings) = work(&app, move |app| {
        let session = app.store.refresh()?.session_named(&name)?;
        if session.status == Status::Ended {
            return Err(Refusal::HasEnded { session: session.id }.into());
        }
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let alive = if_alive(&app.store, &caller, &session, &ResumeRequest::default())?;
        let warning =
            alive.as_ref().and_then(Alive::warning).map(|gone| format!("{gone}; end the agent, and resume again, to restore it"));
        Ok((session.id, alive.is_some(), warning.into_iter().collect::<Vec<_>>()))
    })
    .await?;
    if !is_alive {
        let (session, starter) = (id.clone(), app.clone());
        work(&app, move |_| start::resume(&starter, session, None)).await?;
    }
    read(&app, move |app, view| Ok(Json(One { session: of(&app.store, view, &id)?, warnings }))).await
}

async fn prompt(
    State(app): State<App>,
    PathParameters(name): PathParameters<String>,
    JsonBody(prompt): JsonBody<Prompt>,
) -> Answer<PromptResponse> {
    let starter = app.clone();
    work(&app, move |app| {
        let session = app.store.refresh()?.session_named(&name)?;
        if session.status == Status::Ended {
            return Err(Refusal::HasEnded { session: session.id }.into());
        }
        let resumed = !prompt::type_in(&app.store, &session, &prompt.text)?;
        if resumed {
            start::resume(&starter, session.id.clone(), Some(prompt.text))?;
        }
        Ok(Json(PromptResponse { session: of(&app.store, &*app.store.refresh()?, &session.id)?, resumed }))
    })
    .await
}

async fn end(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(name): PathParameters<String>,
    JsonBody(asked): JsonBody<End>,
) -> Answer<One> {
    work(&app, move |app| {
        let caller = Caller { service: &*app.host, store: &app.store, peer };
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
    PathParameters(name): PathParameters<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<Response, Problem> {
    let made = work(&app, move |app| {
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let view = app.store.refresh()?;
        let session = view.session_named(&name)?;
        let run = view.newest_run(&session)?.filter(|run| run.is_open());
        let warnings = Warnings::default();
        let made = of_session(&app.store, &caller, &session, run.as_ref(), (Trigger::Manual, Cause::Asked, "api"), &warnings)?;
        let view = app.store.refresh()?;
        let checkpoint = shown(&view, &made.outcome.checkpoint)?;
        Ok(CheckpointResponse { checkpoint, created: !made.outcome.skipped, warnings: warnings.said() })
    })
    .await?;
    if !made.created {
        return Ok(Json(made).into_response());
    }
    let place = format!("/v1/checkpoints/{}", made.checkpoint.id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(made)).into_response())
}
