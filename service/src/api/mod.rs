//! The API over HTTP: what requests ask for, and what they are answered.

mod checkpoints;
mod contents;
mod events;
mod extract;
mod files;
mod health;
mod next_step;
pub mod openapi;
mod operation;
mod plain;
pub mod problem;
mod rollback;
mod runs;
mod search;
mod sessions;
mod warnings;

use std::time::Instant;

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::Response,
};

use self::{operation::Operation, problem::Problem};
use crate::{
    app::App,
    guard, page,
    repeated::{self, Repeated},
};

/// All operations.
fn operations() -> Vec<Operation> {
    let parts = [
        sessions::operations(),
        checkpoints::operations(),
        contents::operations(),
        files::operations(),
        rollback::operations(),
        runs::operations(),
        search::operations(),
        events::operations(),
        health::operations(),
    ];
    parts.into_iter().flatten().collect()
}

/// Answers a request, and counts that.
async fn measured(State(app): State<App>, path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let answer = next.run(request).await;
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
        .layer(from_fn_with_state(Repeated::of(app.clone()), repeated::once))
        .layer(from_fn(guard::check))
        .layer(from_fn_with_state(app.clone(), measured))
        .with_state(app)
}
