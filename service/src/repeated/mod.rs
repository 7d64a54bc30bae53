//! Requests that are sent again because their answer got lost: with the header `Idempotency-Key`, what they ask for is done once
//! (draft-ietf-httpapi-idempotency-key-header).
//!
//! Answers are kept in a file of the store's folder (`file`), so that a service that was started anew knows them. A service that dies after it
//! has done something, and before the answer is kept, does it again: the two are in different places, and nothing writes both at once.

mod file;

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header::RETRY_AFTER},
    middleware::Next,
    response::{IntoResponse, Response},
};
use jiff::{SignedDuration, Timestamp};
use parhelia_store::clock;
use tokio::task::spawn_blocking;

use self::file::{Answers, Name, StoredAnswer};
use crate::{
    app::App,
    caller::Peer,
    log::say,
    problem::{Problem, SideEffect},
};

/// The header that names a request.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;
/// So many answers are kept; the oldest go first.
const ANSWERS_MAX: usize = 4096;
/// So many bytes of answers are kept, as they stand in the file; the oldest go first.
const ANSWERS_BYTES_MAX: u64 = 16 << 20;
/// An answer that is longer is not kept.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Answers are kept for so long.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Requests that had a key.
#[derive(Clone)]
pub struct Idempotency {
    requests: Arc<Requests>,
}

struct Requests {
    known: Mutex<AnswerCache>,
    /// None where the file cannot be used; then answers are known as long as the service runs.
    file: Mutex<Option<Answers>>,
}

#[derive(Default)]
struct AnswerCache {
    requests: HashMap<Name, RequestState>,
    /// Names of those that are answered, oldest first, with the lengths of their lines.
    answered: VecDeque<(Name, u64)>,
    /// Sum of these lengths.
    bytes: u64,
}

/// A request that had a key.
enum RequestState {
    /// It is under way; the hash of everything that it asked for.
    UnderWay(String),
    Answered(Arc<StoredAnswer>),
}

impl AnswerCache {
    fn insert(&mut self, kept: StoredAnswer, bytes: u64) {
        // The file may have an older answer of the same name, which was forgotten.
        self.remove(&kept.name);
        self.answered.push_back((kept.name.clone(), bytes));
        self.bytes += bytes;
        self.requests.insert(kept.name.clone(), RequestState::Answered(Arc::new(kept)));
    }

    fn remove(&mut self, name: &Name) {
        if let Some(RequestState::Answered(_)) = self.requests.remove(name)
            && let Some(place) = self.answered.iter().position(|(answered, _)| answered == name)
            && let Some((_, bytes)) = self.answered.remove(place)
        {
            self.bytes -= bytes;
        }
    }

    /// Forgets what is too old, and the oldest of what is too much.
    fn prune(&mut self, now: Timestamp) {
        while let Some((name, bytes)) = self.answered.front() {
            let is_old = match self.requests.get(name) {
                Some(RequestState::Answered(kept)) => now.duration_since(kept.at) > AGE_MAX,
                _ => true,
            };
            if !is_old && self.answered.len() <= ANSWERS_MAX && self.bytes <= ANSWERS_BYTES_MAX {
                break;
            }
            self.bytes -= bytes;
            if let Some((name, _)) = self.answered.pop_front() {
                self.requests.remove(&name);
            }
        }
    }

    /// Everything that is kept, oldest first.
    fn kept(&self) -> Vec<Arc<StoredAnswer>> {
        let answers = self.answered.iter().filter_map(|(name, _)| match self.requests.get(name) {
            Some(RequestState::Answered(kept)) => Some(kept.clone()),
            _ => None,
        });
        answers.collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Requests {
    /// Those of a store, with the answers that its file has.
    fn of(store: &Path, now: Timestamp) -> Self {
        let (file, found) = match Answers::open(store) {
            Ok((file, found)) => (Some(file), found),
            Err(e) => {
                say(&format!("answers to requests with a key do not outlast the service: {e}"));
                (None, Vec::new())
            }
        };
        let mut known = AnswerCache::default();
        found.into_iter().for_each(|(kept, bytes)| known.insert(kept, bytes));
        known.prune(now);
        Requests { known: Mutex::new(known), file: Mutex::new(file) }
    }

    /// The answer to a request that is known by its name; none of a new one, which is under way from now on.
    fn begin(&self, name: &Name, request: &str, now: Timestamp) -> Option<Response> {
        let mut known = lock(&self.known);
        known.prune(now);
        let Some(asked) = known.requests.get(name) else {
            known.requests.insert(name.clone(), RequestState::UnderWay(request.to_owned()));
            return None;
        };
        Some(match asked {
            RequestState::UnderWay(first) if first == request => {
                let problem = Problem::refused("a request with this Idempotency-Key is under way; ask again later");
                let mut response = problem.into_response();
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
            RequestState::Answered(kept) if kept.request == request => replayed(kept),
            _ => Problem::other_request().into_response(),
        })
    }

    /// Keeps an answer. Blocks.
    fn keep(&self, kept: StoredAnswer) {
        let line = kept.line();
        let mut file = lock(&self.file);
        let written = line.and_then(|line| {
            if let Some(file) = &mut *file {
                file.append(&line)?;
            }
            Ok(line.len() as u64)
        });
        let bytes = written.unwrap_or_else(|e| {
            say(&format!("an answer to a request with a key does not outlast the service: {e}"));
            kept.body.len() as u64
        });
        let at = kept.at;
        let mut known = lock(&self.known);
        known.insert(kept, bytes);
        known.prune(at);
        let (useful, answers) = (known.bytes, known.kept());
        drop(known);
        if let Some(file) = &mut *file
            && file.is_wasteful(useful)
            && let Err(e) = file.replace(answers.iter().map(|kept| &**kept))
        {
            say(&format!("the answers to requests with a key could not be written anew: {e}"));
        }
    }

    /// Forgets a request, after which the same may be tried again.
    fn forget(&self, name: &Name) {
        lock(&self.known).remove(name);
    }
}

/// An answer that was given before.
fn replayed(kept: &StoredAnswer) -> Response {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers = HeaderMap::new();
    for (name, value) in &kept.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    (status, headers, kept.body.clone()).into_response()
}

/// True of an answer that comes again. The others say that nothing was done, for a reason that may go away.
fn is_kept(status: StatusCode, extensions: &Extensions) -> bool {
    status.is_success() || extensions.get::<SideEffect>().is_some()
}

/// A hash of everything that a request asks for.
fn hash(uri: &Uri, body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(uri.to_string().as_bytes()).update(b"\n").update(body);
    hasher.finalize().to_hex().to_string()
}

impl Idempotency {
    /// Those of the service's store.
    pub fn of(app: App) -> Self {
        let requests = Arc::new(Requests::of(app.store.path(), clock::timestamp()));
        Idempotency { requests }
    }

    /// The name of a request: its key, among those of its user and run.
    fn name(&self, peer: Option<&Peer>, key: String) -> Name {
        let run = peer.and_then(Peer::marker);
        Name { user: peer.and_then(Peer::user), run: run.map(|run| run.to_string_lossy().into_owned()), key }
    }

    /// Keeps an answer, or forgets the request; either way it is not under way any more.
    async fn end(&self, name: Name, request: String, answer: Option<(StatusCode, HeaderMap, Bytes)>) {
        let answer = answer.filter(|(_, _, body)| body.len() <= ANSWER_BYTES_MAX);
        let text = answer.and_then(|(status, headers, body)| Some((status, headers, String::from_utf8(body.into()).ok()?)));
        let Some((status, headers, body)) = text else { return self.requests.forget(&name) };
        let header = |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
        let headers = headers.iter().filter_map(header).collect();
        let kept = StoredAnswer { name: name.clone(), request, at: clock::timestamp(), status: status.as_u16(), headers, body };
        let requests = self.requests.clone();
        if spawn_blocking(move || requests.keep(kept)).await.is_err() {
            self.requests.forget(&name);
        }
    }
}

/// Has a request with a key done once, and to its end though its caller may be gone. Bodies were read whole before.
pub async fn once(State(repeated): State<Idempotency>, request: Request, next: Next) -> Response {
    let key =
        request.headers().get(KEY).filter(|_| *request.method() == Method::POST).map(|key| key.to_str().unwrap_or_default());
    let Some(key) = key.map(str::to_owned) else { return next.run(request).await };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Problem::usage(format!("Idempotency-Key must have 1 to {KEY_BYTES_MAX} printable characters")).into_response();
    }
    let name = repeated.name(request.extensions().get::<Peer>(), key);
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Problem::usage("the request's body was cut off").into_response();
    };
    let hash = hash(&parts.uri, &body);
    if let Some(answer) = repeated.requests.begin(&name, &hash, clock::timestamp()) {
        return answer;
    }
    let done = tokio::spawn(async move {
        let (parts, body) = next.run(Request::from_parts(parts, Body::from(body))).await.into_parts();
        (parts, to_bytes(body, usize::MAX).await)
    });
    let ended = tokio::spawn(async move {
        let done = done.await;
        let answer = match &done {
            Ok((parts, Ok(bytes))) if is_kept(parts.status, &parts.extensions) => {
                Some((parts.status, parts.headers.clone(), bytes.clone()))
            }
            _ => None,
        };
        repeated.end(name, hash, answer).await;
        match done {
            Ok((parts, Ok(bytes))) => Response::from_parts(parts, Body::from(bytes)),
            Ok((_, Err(_))) | Err(_) => cut_off(),
        }
    });
    ended.await.unwrap_or_else(|_| cut_off())
}

fn cut_off() -> Response {
    Problem::failed("the request could not be worked on to its end").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str) -> Name {
        Name { user: Some(7), run: None, key: key.into() }
    }

    fn kept(key: &str, at: Timestamp) -> StoredAnswer {
        let headers = vec![("content-type".into(), "application/json".into())];
        StoredAnswer { name: name(key), request: "asked".into(), at, status: 200, headers, body: "{}".into() }
    }

    fn status(answer: Option<Response>) -> u16 {
        answer.map_or(0, |answer| answer.status().as_u16())
    }

    #[test]
    fn a_request_that_is_under_way_is_to_be_asked_for_again_in_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let requests = Requests::of(folder.path(), now);
        assert!(requests.begin(&name("a"), "asked", now).is_none());
        let second = requests.begin(&name("a"), "asked", now).unwrap();
        assert_eq!((second.status(), &second.headers()[RETRY_AFTER]), (StatusCode::CONFLICT, &HeaderValue::from_static("1")));
        assert_eq!(second.headers()["content-type"], "application/problem+json");
        assert_eq!(status(requests.begin(&name("a"), "other", now)), 422);
        let other = Name { run: Some("run".into()), ..name("a") };
        assert!(requests.begin(&other, "asked", now).is_none(), "keys of an agent are its own");
        requests.forget(&name("a"));
        assert!(requests.begin(&name("a"), "asked", now).is_none());
    }

    #[test]
    fn answers_are_kept_for_a_day_whatever_becomes_of_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let (now, day) = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(24));
        let requests = Requests::of(folder.path(), now);
        requests.begin(&name("a"), "asked", now);
        requests.keep(kept("a", now));
        for requests in [requests, Requests::of(folder.path(), now + day)] {
            let again = requests.begin(&name("a"), "asked", now + day).unwrap();
            assert_eq!((again.status(), &again.headers()[REPLAYED]), (StatusCode::OK, &HeaderValue::from_static("true")));
            assert_eq!(again.headers()["content-type"], "application/json");
            assert_eq!(status(requests.begin(&name("a"), "other", now + day)), 422);
        }
        let later = now + day + SignedDuration::from_secs(1);
        assert!(Requests::of(folder.path(), later).begin(&name("a"), "asked", later).is_none());
    }

    #[test]
    fn the_oldest_of_too_many_answers_go_and_the_file_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let requests = Requests::of(folder.path(), now);
        let text = "x".repeat(ANSWER_BYTES_MAX);
        let longest = |n: u64| StoredAnswer { body: text.clone(), ..kept(&format!("k{n}"), now) };
        let number = ((2 * ANSWERS_BYTES_MAX) >> 20) + 8;
        (0..number).for_each(|n| requests.keep(longest(n)));
        let bytes = std::fs::metadata(folder.path().join("service.requests")).unwrap().len();
        assert!(bytes < 2 * ANSWERS_BYTES_MAX, "{bytes}");
        let requests = Requests::of(folder.path(), now);
        assert!(lock(&requests.known).bytes <= ANSWERS_BYTES_MAX);
        assert_eq!(status(requests.begin(&name(&format!("k{}", number - 1)), "asked", now)), 200);
        assert_eq!(status(requests.begin(&name("k0"), "asked", now)), 0);
    }

    #[test]
    fn answers_that_say_that_nothing_was_done_are_not_kept() {
        for (code, kept) in [(200, true), (400, false), (409, false), (410, false), (500, false), (503, false)] {
            assert_eq!(is_kept(StatusCode::from_u16(code).unwrap(), &Extensions::new()), kept, "{code}");
        }
        let begun = Problem::of_start(parhelia_host::Error::Background("the agent has ended".into())).into_response();
        assert!(is_kept(begun.status(), begun.extensions()), "a session has begun");
    }
}
