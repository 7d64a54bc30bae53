//! The service itself: its health, its numbers, its description.

use axum::{
    Json,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    openapi,
    operation::{Answer, Operation},
    problem::Problem,
};
use crate::{
    app::{App, read},
    metrics,
};

/// The service, while it is well.
#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    /// Always ok: one that is not well answers with a problem, or not at all.
    status: &'static str,
    /// Release of the service.
    version: &'static str,
    /// The store's folder.
    store: String,
    /// Sequence of the journal's last entry.
    sequence: u64,
    /// True if the store takes no writes.
    read_only: bool,
    /// Bytes that are free on the store's filesystem; null where that cannot be told.
    free_bytes: Option<u64>,
    /// Number of sessions.
    sessions: u64,
    /// Time of its start.
    started_at: String,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/health", "health", "Whether the service can read its store.", get(health)).gives::<Health>(),
        Operation::get("/metrics", "metrics", "Numbers for a monitor, as OpenMetrics text.", get(numbers))
            .gives_text(metrics::CONTENT_TYPE),
        Operation::get("/openapi.json", "openapi", "This description.", get(async || Json(openapi::document()).into_response()))
            .gives::<serde_json::Value>(),
    ]
}

async fn health(State(app): State<App>) -> Answer<Health> {
    read(&app, |app, view| {
        Ok(Json(Health {
            status: "ok",
            version: env!("CARGO_PKG_VERSION"),
            store: parhelia_wire::shown(app.store.path().as_os_str().as_encoded_bytes()),
            sequence: view.end().sequence,
            read_only: app.store.is_read_only(),
            free_bytes: app.store.free_bytes(),
            sessions: view.sessions()?.len() as u64,
            started_at: app.started_at.to_string(),
        }))
    })
    .await
}

async fn numbers(State(app): State<App>) -> Result<Response, Problem> {
    let text = read(&app, |app, _| app.metrics.text(&app.store)?.map_err(|e| Problem::failed(e.to_string()))).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
