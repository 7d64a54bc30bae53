//! The API over HTTP: what requests ask for, and what they are answered.

mod agents;
mod checkpoints;
mod condition;
mod contents;
mod cursor;
mod events;
mod extract;
mod files;
mod health;
pub mod openapi;
mod operation;
mod outbox;
mod own;
mod rollback;
mod runs;
mod search;
mod sessions;
mod warnings;

use std::time::Instant;

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue},
    middleware::{Next, from_fn, from_fn_with_state},
    response::Response,
};

use parhelia_store::id::Ulid;

use self::{condition::Conditions, operation::Operation};
use crate::problem::Problem;
use crate::{
    app::App,
    guard, gzip, page,
    repeated::{self, Idempotency},
};

fn operations() -> Vec<Operation> {
    let parts = [
        sessions::operations(),
        checkpoints::operations(),
        contents::operations(),
        files::operations(),
        rollback::operations(),
        agents::operations(),
        runs::operations(),
        search::operations(),
        events::operations(),
        outbox::operations(),
        health::operations(),
    ];
    parts.into_iter().flatten().collect()
}

/// The header that names a request: as its caller does, or else as the service does.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// No longer name of a request is taken, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

fn request_id(request: &Request) -> HeaderValue {
    let given = request.headers().get(REQUEST_ID).cloned();
    let is_name = |id: &HeaderValue| {
        let bytes = id.as_bytes();
        !bytes.is_empty() && bytes.len() <= REQUEST_ID_BYTES_MAX && bytes.iter().all(u8::is_ascii_graphic)
    };
    let own = || HeaderValue::try_from(Ulid::generate().to_string()).unwrap_or(HeaderValue::from_static("unknown"));
    given.filter(is_name).unwrap_or_else(own)
}

/// Answers a request, names it, and counts that.
async fn measured(State(app): State<App>, path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(&request);
    let mut answer = next.run(request).await;
    answer.headers_mut().insert(REQUEST_ID, id);
    // Whoever asks for what is not there does not choose a name of a series.
    let path = path.as_ref().map_or("none", MatchedPath::as_str);
    app.metrics.answered(path, answer.status().as_u16(), began.elapsed());
    answer
}

/// A router of them, behind the guard.
pub fn router(app: App) -> Router {
    operation::router(operations())
        .merge(page::routes())
        .fallback(async || Problem::not_found("there is nothing here; /openapi.json lists what there is"))
        .method_not_allowed_fallback(async || Problem::not_allowed("this path is not for this method; /openapi.json lists both"))
        .layer(from_fn_with_state(Conditions::of(app.clone()), condition::note))
        .layer(from_fn_with_state(app.clone(), own::check))
        .layer(from_fn_with_state(Idempotency::of(app.clone()), repeated::once))
        .layer(from_fn(guard::check))
        .layer(from_fn(gzip::compressed))
        .layer(from_fn_with_state(app.clone(), measured))
        .with_state(app)
}
