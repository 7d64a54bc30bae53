//! The reach of requests: what changes a session is asked for by persons, by the session's own agent, or by one that has begun it.

use axum::{
    Extension,
    extract::{MatchedPath, RawPathParams, Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};
use parhelia_oversight::review::acts::{Act, ensure_may_act};

use super::warnings::Warnings;
use crate::problem::Problem;
use crate::{
    app::{App, AppState, note},
    caller::{Caller, Peer},
};
use parhelia_ledger::LedgerView as _;

/// Fails where an agent, by a request, would act on a session that is not its own.
pub fn ensure(app: &AppState, peer: &Peer, words: &str, session: &str) -> Result<(), Problem> {
    let caller = Caller { service: &*app.host, store: &app.store, peer: peer.clone() };
    match app.store.refresh()?.session_named(session) {
        Ok(session) => Ok(ensure_may_act(&app.store, &caller, Act::of_upkeep(words), Some(&session.id), &Warnings::default())?),
        // The operation says so.
        Err(_) => Ok(()),
    }
}

/// Lets a request pass that changes a session named in its path, if its sender may.
pub async fn check(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    path: Option<MatchedPath>,
    names: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let named = |what: &str| names.iter().find(|(name, _)| *name == what).map(|(_, value)| value.to_owned());
    let (session, run) = (named("session"), named("run"));
    let (true, Some(Extension(peer)), false) = (session.is_some() || run.is_some(), peer, request.method() == Method::GET) else {
        return next.run(request).await;
    };
    let words = path
        .as_ref()
        .and_then(|path| path.as_str().rsplit('/').next())
        .map_or_else(String::new, |verb| format!("session {verb}"));
    let checked = note(&app, move |app| {
        let of_run = run.map(|run| app.store.refresh()?.run(&run)).transpose()?.flatten().map(|run| run.session);
        session.or(of_run).map_or(Ok(()), |session| ensure(app, &peer, &words, &session))
    });
    match checked.await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
