//! Requests that are sent again because their answer got lost: with the header `Idempotency-Key`, what they ask for is done once
//! (draft-ietf-httpapi-idempotency-key-header).
//!
//! Answers are kept in memory: a service that was started anew knows no earlier keys.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{api::problem::Problem, caller::Peer};

/// The header that names a request.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;
/// So many answers are kept; the oldest go first.
const ANSWERS_MAX: usize = 4096;
/// An answer that is longer is not kept.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A key, and the user whose it is.
type Name = (Option<u32>, String);

/// Requests that had a key.
#[derive(Clone, Default)]
pub struct Repeated(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    requests: HashMap<Name, Asked>,
    /// Names of those that are answered, oldest first.
    answered: VecDeque<Name>,
}

/// A request that had a key.
struct Asked {
    /// Everything that it asked for.
    request: Bytes,
    /// Its answer; none as long as it is under way.
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
}

impl Repeated {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request that is known by its name; none of a new one, which is under way from now on.
    fn begin(&self, name: &Name, request: &Bytes) -> Option<Response> {
        let mut known = self.lock();
        let Some(asked) = known.requests.get(name) else {
            known.requests.insert(name.clone(), Asked { request: request.clone(), answer: None });
            return None;
        };
        if asked.request != *request {
            return Some(Problem::other_request().into_response());
        }
        Some(match &asked.answer {
            None => Problem::refused("a request with this Idempotency-Key is under way; ask again later").into_response(),
            Some((status, headers, body)) => {
                let mut response = (*status, headers.clone(), body.clone()).into_response();
                response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
                response
            }
        })
    }

    /// Keeps the answer, unless it is one after which the same may be tried again.
    fn end(&self, name: &Name, answer: Option<(StatusCode, HeaderMap, Bytes)>) {
        let mut known = self.lock();
        match known.requests.get_mut(name) {
            Some(asked) if answer.is_some() => asked.answer = answer,
            _ => {
                known.requests.remove(name);
                return;
            }
        }
        known.answered.push_back(name.clone());
        if known.answered.len() > ANSWERS_MAX
            && let Some(oldest) = known.answered.pop_front()
        {
            known.requests.remove(&oldest);
        }
    }
}

/// Has a request with a key done once, and to its end though its caller may be gone. Bodies were read whole before.
pub async fn once(State(repeated): State<Repeated>, request: Request, next: Next) -> Response {
    let key =
        request.headers().get(KEY).filter(|_| *request.method() == Method::POST).map(|key| key.to_str().unwrap_or_default());
    let Some(key) = key.map(str::to_owned) else { return next.run(request).await };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Problem::usage(format!("Idempotency-Key must have 1 to {KEY_BYTES_MAX} printable characters")).into_response();
    }
    let name = (request.extensions().get::<Peer>().and_then(Peer::user), key);
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Problem::usage("the request's body was cut off").into_response();
    };
    let asked = Bytes::from([parts.uri.to_string().as_bytes(), b"\n", &body].concat());
    if let Some(answer) = repeated.begin(&name, &asked) {
        return answer;
    }
    let done = tokio::spawn(async move {
        let (parts, body) = next.run(Request::from_parts(parts, Body::from(body))).await.into_parts();
        (parts, to_bytes(body, ANSWER_BYTES_MAX).await)
    });
    let ended = tokio::spawn(async move {
        let done = done.await;
        let kept = match &done {
            Ok((parts, Ok(bytes))) if !parts.status.is_server_error() => {
                Some((parts.status, parts.headers.clone(), bytes.clone()))
            }
            _ => None,
        };
        repeated.end(&name, kept);
        match done {
            Ok((parts, Ok(bytes))) => Response::from_parts(parts, Body::from(bytes)),
            Ok((_, Err(e))) => Problem::failed(format!("it is done, and its answer is too long: {e}")).into_response(),
            Err(_) => cut_off(),
        }
    });
    ended.await.unwrap_or_else(|_| cut_off())
}

fn cut_off() -> Response {
    Problem::failed("the request could not be worked on to its end").into_response()
}
