//! The service itself: its health, its numbers, its description.

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{openapi, operation::Operation};
use crate::problem::Problem;
use crate::{
    app::{App, read},
    guard::Stranger,
    metrics,
    verdict::Status,
};

/// The verdict on the service.
#[derive(Debug, Serialize, JsonSchema)]
struct Verdict {
    /// ok, degraded (something is not done), failing (then the answer's status is 503).
    #[schemars(extend("enum" = ["ok", "degraded", "failing"]))]
    status: &'static str,
    /// Reasons, where it is not ok.
    reasons: Vec<String>,
}

/// The health of the service: the verdict on it, and more for those who may use it. Without the token there is the verdict alone, as there is where
/// the store cannot be read.
#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    /// The verdict, which comes without a token as well.
    #[serde(flatten)]
    verdict: Verdict,
    /// The rest.
    #[serde(flatten)]
    details: Option<Details>,
}

/// Facts about the service for those who may use it.
#[derive(Debug, Serialize, JsonSchema)]
struct Details {
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
    /// Number of sessions that the store knows.
    sessions: u64,
    /// Time of its start.
    #[schemars(extend("format" = "date-time"))]
    started_at: String,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/health", "health", "Whether the service is well. Needs no token.", get(health))
            .gives::<Health>()
            .answers_probes(),
        Operation::get("/ready", "ready", "Whether the service looks after sessions. Needs no token.", get(ready))
            .gives::<Verdict>()
            .answers_probes(),
        Operation::get("/metrics", "metrics", "Numbers for a monitor, as OpenMetrics text.", get(numbers))
            .gives_text(metrics::CONTENT_TYPE),
        Operation::get("/openapi.json", "openapi", "This description.", get(async || Json(openapi::document()).into_response()))
            .gives::<serde_json::Value>(),
    ]
}

async fn health(State(app): State<App>, stranger: Option<Extension<Stranger>>) -> Response {
    let asked = read(&app, |app, view| {
        let (status, reasons) = app.verdicts.status(&app.store, Ok(view));
        let details = Details {
            version: env!("CARGO_PKG_VERSION"),
            store: parhelia_wire::shown(app.store.path().as_os_str().as_encoded_bytes()),
            sequence: view.end().sequence,
            read_only: app.store.is_read_only(),
            free_bytes: app.store.free_bytes(),
            sessions: app.listing.sessions(&app.store, view)?.len() as u64,
            started_at: app.started_at.to_string(),
        };
        Ok((status, reasons, details))
    });
    let (status, reasons, details) = match asked.await {
        Ok((status, reasons, details)) => (status, reasons, Some(details)),
        Err(problem) => {
            let (status, reasons) = app.verdicts.status(&app.store, Err(problem.detail));
            (status, reasons, None)
        }
    };
    let verdict = Verdict { status: status.name(), reasons };
    (code(status), Json(Health { verdict, details: details.filter(|_| stranger.is_none()) })).into_response()
}

async fn ready(State(app): State<App>) -> Response {
    let (status, reasons) = match app.verdicts.is_ready() {
        true => {
            let asked = read(&app, |app, view| Ok(app.verdicts.status(&app.store, Ok(view)))).await;
            asked.unwrap_or_else(|problem| app.verdicts.status(&app.store, Err(problem.detail)))
        }
        false => (Status::Failing, vec!["the service has just begun, and has not looked at its sessions yet".to_owned()]),
    };
    (code(status), Json(Verdict { status: status.name(), reasons })).into_response()
}

fn code(status: Status) -> StatusCode {
    if status == Status::Failing { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn numbers(State(app): State<App>) -> Result<Response, Problem> {
    let written = |text: Result<String, std::fmt::Error>| text.map_err(|e| Problem::failed(e.to_string()));
    let read = read(&app, move |app, _| written(app.metrics.text(&app.store, &app.listing, &app.verdicts)?)).await;
    let text = match read {
        Err(_) if app.store.absence().is_some() => written(app.metrics.text_without_store())?,
        read => read?,
    };
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
