//! Changes of a session that are wanted only while it is as its caller has seen it.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::{Arc, PoisonError},
};

use axum::{
    extract::{RawPathParams, Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ETAG, IF_MATCH},
    },
    middleware::Next,
    response::Response,
};
use parhelia_ledger::{LedgerView as _, Session};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::app::{App, read};
use crate::problem::Problem;

/// Sessions share so many turns.
const TURNS: usize = 64;

/// Conditions of requests. Two requests with a condition on one session take turns, so that the second one sees what the first one has changed.
#[derive(Clone)]
pub struct Conditions {
    app: App,
    turns: Arc<[Arc<Mutex<()>>; TURNS]>,
}

impl Conditions {
    /// Those of a service.
    pub fn of(app: App) -> Self {
        Conditions { app, turns: Arc::new(std::array::from_fn(|_| Arc::default())) }
    }

    fn turn(&self, session: &str) -> Arc<Mutex<()>> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(session);
        self.turns[hash as usize % TURNS].clone()
    }
}

/// The name of a session's last change.
pub fn etag(sequence: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{sequence}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// The condition of a request. It counts once everything else about the request is right.
#[derive(Clone)]
pub struct Condition {
    conditions: Conditions,
    /// The session, as the path names it.
    session: String,
    headers: HeaderMap,
    judged: Arc<std::sync::Mutex<ConditionState>>,
}

/// A condition that was looked at.
#[derive(Default)]
struct ConditionState {
    /// The session's turn, until the request is answered.
    turn: Option<OwnedMutexGuard<()>>,
    /// The name of the session's last change, where it is another one than was given.
    now: Option<HeaderValue>,
}

impl Condition {
    /// Fails where it is not met.
    pub async fn ensure(&self) -> Result<(), Problem> {
        let find = |name: String| read(&self.conditions.app, move |_, view| Ok(view.session_named(&name)?));
        // The operation says that there is none.
        let Ok(known) = find(self.session.clone()).await else { return Ok(()) };
        let turn = self.conditions.turn(&known.id).lock_owned().await;
        let Ok(now) = find(known.id).await else { return Ok(()) };
        let is_met = is_met(&self.headers, &now);
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.turn = Some(turn);
        if is_met {
            return Ok(());
        }
        judged.now = Some(etag(now.changed_sequence));
        Err(Problem::changed(format!(
            "session {} has changed since: it is at {} now; look at it again",
            now.id, now.changed_sequence
        )))
    }
}

/// Notes the condition of a request that changes a session, and keeps the session's turn until it is answered.
pub async fn note(State(conditions): State<Conditions>, names: RawPathParams, mut request: Request, next: Next) -> Response {
    let session = names.iter().find(|(name, _)| *name == "session").map(|(_, value)| value.to_owned());
    let (Some(session), true, &Method::POST) = (session, request.headers().contains_key(IF_MATCH), request.method()) else {
        return next.run(request).await;
    };
    let judged = Arc::<std::sync::Mutex<ConditionState>>::default();
    let headers = request.headers().clone();
    request.extensions_mut().insert(Condition { conditions, session, headers, judged: judged.clone() });
    let mut response = next.run(request).await;
    let ConditionState { turn, now } = std::mem::take(&mut *judged.lock().unwrap_or_else(PoisonError::into_inner));
    drop(turn);
    if let Some(now) = now.filter(|_| response.status() == StatusCode::PRECONDITION_FAILED) {
        response.headers_mut().insert(ETAG, now);
    }
    response
}

fn is_met(headers: &HeaderMap, session: &Session) -> bool {
    let tag = etag(session.changed_sequence);
    let named = headers.get_all(IF_MATCH).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    named.map(str::trim).any(|named| named == "*" || named == tag)
}
