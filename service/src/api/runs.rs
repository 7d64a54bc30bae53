//! Runs of machines that do not share the store's disk: they say that they live, and who is silent for too long counts as dead.

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use parhelia_host::{
    Host as _, Refusal, RunRefusal,
    run::{self, Begin, Current, Life, RemoteLocation},
};
use parhelia_ledger::{End, Goal, LedgerView as _, Place, Run, Session, Status};
use parhelia_store::{id::Ulid, name};
use parhelia_wire::session as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    extract::{JsonBody, PathParameters},
    operation::{Answer, Operation},
    own,
};
use crate::problem::Problem;
use crate::{
    app::{App, AppState, note, read},
    caller::{Caller, Peer},
};

/// The longest name of a session, a machine or a container, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The longest heartbeat, in bytes of its JSON.
const SAID_BYTES_MAX: usize = 16 << 10;

/// A run that begins elsewhere.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewRun {
    /// The session by its id or name; a new one begins if there is none of that name.
    session: String,
    /// Its machine.
    host: String,
    /// Name of the container there; none outside of one.
    container: Option<String>,
    /// Absolute path of the workspace there: a new session needs it.
    workspace: Option<String>,
    /// The agent's command line, by which it is resumed: a new session needs it.
    #[serde(default)]
    command: Vec<String>,
    /// The agent's own id of the conversation that the run begins with, where it is known.
    conversation: Option<String>,
}

/// A run that has begun.
#[derive(Debug, Serialize, JsonSchema)]
struct BegunRun {
    /// The run, with the id and epoch that heartbeats name.
    run: wire::Run,
    /// Seconds within which it must be heard of again; 30 between two heartbeats are usual.
    ttl_seconds: u64,
}

/// A sign of life.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    /// The run's epoch, as it was answered at its beginning: one that another run has taken over from is told so.
    epoch: u64,
    /// State of the agent, in a word of the sender's own, such as idle.
    state: Option<String>,
    /// Time of its last activity, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    last_activity: Option<String>,
    /// Numbers that the sender wants shown.
    #[serde(default)]
    metrics: Map<String, Value>,
}

/// The lease of a run that was heard of.
#[derive(Debug, Serialize, JsonSchema)]
struct LeaseResponse {
    /// The lease as it was renewed.
    lease: wire::Lease,
}

/// The end of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunEnd {
    /// The run's epoch, as it was answered at its beginning.
    epoch: u64,
    /// The agent's exit code: 0 has done its work. Any other has the session go on here, if its policy lets it.
    exit_code: i32,
}

/// The run that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
struct OneRun {
    /// The run, as it is recorded now.
    run: wire::Run,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/v1/runs", "beginRun", "Begins a run of a session on a machine that this one does not see.", post(begin))
            .takes::<NewRun>()
            .gives::<BegunRun>()
            .creates(),
        Operation::get("/v1/runs/{run}", "getRun", "A run, by its id.", get(show)).gives::<OneRun>(),
        Operation::post(
            "/v1/runs/{run}/heartbeat",
            "heartbeat",
            "Says that a run lives which began so. One that is silent for 90 seconds counts as dead, and its session goes on here.",
            post(heartbeat),
        )
        .takes::<Heartbeat>()
        .gives::<LeaseResponse>(),
        Operation::post("/v1/runs/{run}/end", "endRun", "Ends a run that began so.", post(end))
            .takes::<RunEnd>()
            .gives::<OneRun>(),
    ]
}

async fn begin(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    JsonBody(new): JsonBody<NewRun>,
) -> Result<Response, Problem> {
    let begun = note(&app, move |app| {
        for (what, name) in [("session", Some(&new.session)), ("host", Some(&new.host)), ("container", new.container.as_ref())] {
            check_name(what, name)?;
        }
        own::ensure(app, &peer, "session run", &new.session)?;
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let view = app.store.refresh()?;
        let known = match view.session_named(&new.session) {
            Ok(session) => Some(session),
            Err(parhelia_store::Error::NoSession { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        let mut begin = match &known {
            Some(session) => again(session, view.newest_run(session)?, run::commands_of(&app.store, session)?.own)?,
            None => first(&new)?,
        };
        begin.elsewhere = Some(RemoteLocation { host: new.host, container: new.container });
        begin.conversation = new.conversation.or(begin.conversation);
        if !new.command.is_empty() {
            begin.argv = new.command.into_iter().map(Into::into).collect();
        }
        if begin.argv.is_empty() {
            return Err(Problem::usage("this session has had no agent; give the command line of its first one"));
        }
        begin.actor = caller.actor();
        let run = run::begin(&app.store, &begin)?.run;
        let run = app.store.refresh()?.run(&run)?.ok_or_else(|| Problem::failed("the run is not there"))?;
        Ok(BegunRun { run: (&run).into(), ttl_seconds: run::WATCHED.as_secs() })
    })
    .await?;
    let place = format!("/v1/runs/{}", begun.run.id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(begun)).into_response())
}

async fn show(State(app): State<App>, PathParameters(id): PathParameters<String>) -> Answer<OneRun> {
    read(&app, move |_, view| {
        let run = view.run(&id)?.ok_or(parhelia_store::Error::NoRun { run: id })?;
        Ok(Json(OneRun { run: (&run).into() }))
    })
    .await
}

/// Refuses a name that people could not read.
fn check_name(what: &str, name: Option<&String>) -> Result<(), Problem> {
    let is_good = |name: &String| !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    match name.is_none_or(is_good) {
        true => Ok(()),
        false => Err(Problem::usage(format!(
            "the name of the {what} is empty, has control characters, or is longer than {NAME_BYTES_MAX} bytes"
        ))),
    }
}

/// The first run of a new session.
fn first(new: &NewRun) -> Result<Begin, Problem> {
    let workspace = new.workspace.as_deref().ok_or_else(|| Problem::usage("a new session needs a workspace"))?;
    let workspace = name::as_path(&name::parse(workspace)).to_owned();
    if !workspace.is_absolute() {
        return Err(Problem::usage("the workspace must be an absolute path"));
    }
    if new.command.is_empty() {
        return Err(Problem::usage("a new session needs the command line of its agent, by which it is resumed"));
    }
    let session = run::new_session_id(&workspace);
    Ok(Begin { session, name: Some(new.session.clone()), folder: workspace.clone(), workspace, ..Begin::default() })
}

/// Another run of a session whose last one is over.
fn again(session: &Session, newest: Option<Run>, own: Option<Run>) -> Result<Begin, Problem> {
    if session.status == Status::Ended {
        return Err(Refusal::HasEnded { session: session.id.clone() }.into());
    }
    let id = || session.id.clone();
    match newest.as_ref().map_or(Life::Over, run::life) {
        Life::Over => {}
        Life::Elsewhere { host, until } => return Err(Refusal::AliveElsewhere { session: id(), host, until }.into()),
        Life::Agent(process) | Life::Starting(process) => {
            return Err(Problem::refused(format!("session {} is alive here (process {})", session.id, process.process)));
        }
    }
    let workspace = session.workspace.as_ref().map(Place::folder);
    let workspace = workspace.ok_or_else(|| Refusal::NoWorkspace { session: id() })?;
    Ok(Begin {
        session: id(),
        folder: workspace.clone(),
        workspace,
        argv: own.as_ref().map(Run::command).unwrap_or_default(),
        conversation: session.conversations.last().map(|conversation| conversation.id.clone()),
        permission_mode: newest.and_then(|run| run.permission_mode),
        resumed_from: session.head,
        seen_epoch: Some(session.epoch),
        ..Begin::default()
    })
}

async fn heartbeat(
    State(app): State<App>,
    PathParameters(run): PathParameters<String>,
    JsonBody(beat): JsonBody<Heartbeat>,
) -> Answer<LeaseResponse> {
    // Not among what takes long: whoever is not heard in time counts as dead.
    note(&app, move |app| {
        if let Some(time) = &beat.last_activity {
            time.parse::<jiff::Timestamp>().map_err(|e| Problem::usage(format!("last_activity is no time: {e}")))?;
        }
        let said = json!({"state": beat.state, "last_activity": beat.last_activity, "metrics": beat.metrics});
        if said.to_string().len() > SAID_BYTES_MAX {
            return Err(Problem::usage(format!("a heartbeat has at most {SAID_BYTES_MAX} bytes")));
        }
        of_epoch(app, ensure_elsewhere(app, &run)?, beat.epoch)?;
        let lease = run::heard(&app.store, &run, beat.epoch, said)?;
        Ok(Json(LeaseResponse { lease: (&lease).into() }))
    })
    .await
}

async fn end(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(run): PathParameters<String>,
    JsonBody(ended): JsonBody<RunEnd>,
) -> Answer<OneRun> {
    note(&app, move |app| {
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let found = of_epoch(app, ensure_elsewhere(app, &run)?, ended.epoch)?;
        if !found.is_open() {
            return Err(Refusal::from(RunRefusal::IsOver { run: found.id }).into());
        }
        let end = End::exited(ended.exit_code);
        let became = if ended.exit_code == 0 { (Status::Paused, Some(Goal::Paused)) } else { (Status::Error, None) };
        run::end(&app.store, &Current::of(&found, None), (end, &end.reason()), became, caller.actor())?;
        let run = app.store.refresh()?.run(&found.id)?.unwrap_or(found);
        Ok(Json(OneRun { run: (&run).into() }))
    })
    .await
}

/// A run, if that is its epoch and no newer run has taken over.
fn of_epoch(app: &AppState, run: Run, epoch: u64) -> Result<Run, Problem> {
    let newest = app.store.view().session(&run.session)?.map_or(0, |session| session.epoch);
    match run.epoch == epoch && newest <= epoch {
        true => Ok(run),
        false => Err(Problem::refused(format!(
            "run {} has epoch {}, and its session has epoch {newest} by now; epoch {epoch} says nothing any more: stop that agent",
            run.id, run.epoch
        ))),
    }
}

/// The run, if it is one that this machine does not see: others are watched over here.
fn ensure_elsewhere(app: &AppState, run: &str) -> Result<Run, Problem> {
    let unknown = || parhelia_store::Error::NoRun { run: run.to_owned() };
    run.parse::<Ulid>().map_err(|_| unknown())?;
    let found = app.store.refresh()?.run(run)?.ok_or_else(unknown)?;
    match run::is_elsewhere(&found) {
        true => Ok(found),
        false => Err(Problem::refused(format!("run {run} was not begun over the API; it is watched over where it runs"))),
    }
}
