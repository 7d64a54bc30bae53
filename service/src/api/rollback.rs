//! Rolling a session back, and undoing that: shown first, then done.

use axum::{Extension, Json, extract::State, routing::post};
use parhelia_host::{Observer, Refusal};
use parhelia_ledger::LedgerView as _;
use parhelia_life::rollback::{self, Last, Options, Rollback};
use parhelia_store::{name, record::Checkpoint};
use parhelia_wire::{summary::RolledBack, tree::Action};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    checkpoints::{pinned, whole},
    extract::{JsonBody, PathParameters},
    operation::{Answer, Operation},
    warnings::Warnings,
};
use crate::problem::Problem;
use crate::{
    app::{App, AppState, work},
    caller::{Caller, Peer},
};

/// So many changed paths are handed out.
const ACTIONS_MAX: usize = 10_000;

/// A rollback, or its undoing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct How {
    /// True to say what would be done, and to do nothing.
    #[serde(default)]
    dry_run: bool,
    /// True to leave the conversation where it is.
    #[serde(default)]
    files_only: bool,
    /// True to end a live agent first; else a session with one is not rolled back.
    #[serde(default)]
    stop: bool,
    /// True to roll back whatever git is in the middle of.
    #[serde(default)]
    any_git_state: bool,
    /// True not to wait for another machine or container that may still have the session.
    #[serde(default)]
    take_over: bool,
    /// Paths from the workspace that are left as they are, with all that is in them.
    #[serde(default)]
    leave: Vec<String>,
    /// True to leave as it is what cannot be put back.
    #[serde(default)]
    leave_unwritable: bool,
}

/// The effect of a rollback.
#[derive(Debug, Serialize, JsonSchema)]
struct Effect {
    /// Everything but the paths.
    rollback: RolledBack,
    /// Paths that are, or would be, changed: the first 10,000.
    actions: Vec<Action>,
    /// True if there are more of them.
    truncated: bool,
    /// Sentences that a person should read.
    warnings: Vec<String>,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::post(
            "/v1/checkpoints/{id}/rollback",
            "rollBack",
            "Puts files and conversation of a session back to a checkpoint, behind a safety checkpoint; with dry_run, says what that would do.",
            post(roll_back),
        )
        .takes::<How>()
        .gives::<Effect>(),
        Operation::post(
            "/v1/sessions/{session}/undo",
            "undoRollback",
            "Undoes the last rollback of a session; with dry_run, says what that would do.",
            post(undo),
        )
        .takes::<How>()
        .gives::<Effect>(),
    ]
}

async fn roll_back(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(id): PathParameters<String>,
    JsonBody(how): JsonBody<How>,
) -> Answer<Effect> {
    whole(&id)?;
    work(&app, move |app| {
        let (target, _pin) = pinned(&app.store, &id)?;
        rollback::ensure_folder(&app.store, &target)?;
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let warnings = Warnings::default();
        let _turn = rollback::begin(&app.store, &caller, &target.record.session, how.dry_run, &warnings)?;
        roll(app, &caller, &target, None, &how, warnings)
    })
    .await
}

async fn undo(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(name): PathParameters<String>,
    JsonBody(how): JsonBody<How>,
) -> Answer<Effect> {
    work(&app, move |app| {
        let session = app.store.refresh()?.session_named(&name)?;
        if rollback::last(&session).is_none() && rollback::open(&session).is_none() {
            return Err(Refusal::NotRolledBack { session: session.id }.into());
        }
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let warnings = Warnings::default();
        // One that was interrupted is finished first, and is then the one that is undone.
        let _turn = rollback::begin(&app.store, &caller, &session.id, how.dry_run, &warnings)?;
        let (last, target) = rollback::to_undo(&app.store, &session.id, how.dry_run)?;
        let (target, _pin) = pinned(&app.store, &target.id())?;
        let how = How { files_only: how.files_only || !last.with_conversation, ..how };
        roll(app, &caller, &target, Some(last), &how, warnings)
    })
    .await
}

/// Shows it or does it. The caller holds the session's turn.
fn roll(
    app: &AppState,
    caller: &Caller<'_>,
    target: &Checkpoint,
    undone: Option<Last>,
    how: &How,
    warnings: Warnings,
) -> Result<Json<Effect>, Problem> {
    let options = Options {
        files_only: how.files_only,
        stop: how.stop,
        any_git_state: how.any_git_state,
        take_over: how.take_over,
        recreate_workspace: false,
        leave: how.leave.iter().map(|path| name::as_path(&name::parse(path)).to_owned()).collect(),
        leave_unwritable: how.leave_unwritable,
        dry_run: how.dry_run,
    };
    let mut rollback = Rollback::plan(&app.store, caller, target, undone, options)?;
    rollback.ensure_whole(&warnings)?;
    rollback.look().notices.iter().for_each(|notice| warnings.warn(notice));
    let (rolled, changes) = if how.dry_run {
        let mut preview = rollback.preview(&warnings)?;
        if let Some(refusal) = preview.refused.take() {
            return Err(refusal.into());
        }
        (RolledBack::of_preview(target, rollback.look(), &preview, Vec::new()), preview.changes)
    } else {
        let rolled = rollback.execute(&warnings)?;
        let shown = RolledBack::of(&rolled);
        rolled.spared?;
        (shown, rolled.done.changes)
    };
    let actions = changes.iter().take(ACTIONS_MAX).map(|(change, path)| Action::of(path, *change)).collect();
    let truncated = changes.len() > ACTIONS_MAX;
    Ok(Json(Effect { rollback: rolled, actions, truncated, warnings: warnings.said() }))
}
