//! Labels of sessions.

use parhelia_ledger::LedgerView as _;
use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State, routing::post};
use parhelia_host::{Refusal, Result};
use parhelia_oversight::labels::{self, Key, Label};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{One, of};
use crate::{
    api::{
        extract::{JsonBody, PathParameters},
        operation::{Answer, Operation},
        warnings::Warnings,
    },
    app::{App, note},
    caller::{Caller, Peer},
};

/// Labels that are to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Labels {
    /// Labels to set: a value for each key.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Keys of labels to remove.
    #[serde(default)]
    remove: Vec<String>,
}

/// Route and description of `labelSession`.
pub fn operation() -> Operation {
    Operation::post("/v1/sessions/{session}/labels", "labelSession", "Sets and removes labels, all or none.", post(label))
        .takes::<Labels>()
        .gives::<One>()
}

/// Labels, as a request gives them.
pub(super) fn labels_of(given: &BTreeMap<String, String>) -> Result<Vec<Label>, Refusal> {
    given.iter().map(|(key, value)| Label::new(key, value)).collect()
}

async fn label(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(name): PathParameters<String>,
    JsonBody(asked): JsonBody<Labels>,
) -> Answer<One> {
    let remove = asked.remove.iter().map(|key| key.parse()).collect::<Result<Vec<Key>, Refusal>>()?;
    let set = labels_of(&asked.set)?;
    note(&app, move |app| {
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let session = app.store.refresh()?.session_named(&name)?;
        let warnings = Warnings::default();
        labels::change(&app.store, &caller, &session, (&set, &remove), &warnings)?;
        Ok(Json(One { session: of(&app.store, &*app.store.refresh()?, &session.id)?, warnings: warnings.said() }))
    })
    .await
}
