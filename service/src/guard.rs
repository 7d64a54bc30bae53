//! Conditions of every request, whatever it asks for: it comes from somebody who may use the store, no page of anybody else makes a browser send
//! it, and its body is bounded in length and time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{
        HeaderMap, Method,
        header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN},
        request::Parts,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::{task::spawn_blocking, time};

use crate::{
    browsers::{self, SignedRequest},
    caller::Peer,
    origin, page,
    problem::Problem,
    token::Token,
};

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// A body takes no longer.
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// The relation of the page that has a browser send a request to this service, as browsers alone say it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The way by which a request came.
#[derive(Clone)]
pub enum Door {
    /// The socket, which only who may use the store can connect to.
    Socket(Peer),
    /// TCP, to which every user of the machine, every page that a browser shows, and perhaps other machines can connect.
    Tcp {
        /// The other end's address.
        client: SocketAddr,
        /// This end's.
        server: SocketAddr,
        /// The token that is asked for.
        token: Arc<Token>,
        /// True behind TLS.
        is_encrypted: bool,
    },
}

/// Lets a request pass, with its body read whole and its peer known, or answers with what is wrong.
pub async fn check(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let redirect = match parts.extensions.get() {
        Some(Door::Tcp { server, is_encrypted: false, .. }) => origin::redirect(&parts, *server),
        _ => None,
    };
    if let Some(response) = origin::last_worker(&parts).or(redirect) {
        return response;
    }
    match checked(parts, body).await {
        Ok(AdmittedRequest { request, signed: None }) => next.run(request).await,
        Ok(AdmittedRequest { request, signed: Some((signed, token)) }) => {
            let answer = match browsers::is_own(request.method(), request.uri().path()) {
                true => answered(&token, &signed, request).await.unwrap_or_else(Problem::into_response),
                false => next.run(request).await,
            };
            signed.proven(answer)
        }
        Err(EarlyResponse::Answered(response)) => response,
        Err(EarlyResponse::Refused(problem)) => problem.into_response(),
    }
}

/// A request that may be answered.
struct AdmittedRequest {
    request: Request,
    /// The page's signature, where there is one, and the token by which its keys are known.
    signed: Option<(SignedRequest, Arc<Token>)>,
}

/// A request that is not answered, or was already.
enum EarlyResponse {
    Answered(Response),
    Refused(Problem),
}

impl From<Problem> for EarlyResponse {
    fn from(problem: Problem) -> Self {
        EarlyResponse::Refused(problem)
    }
}

/// Answers a request of the page about its own key.
async fn answered(token: &Token, signed: &SignedRequest, request: Request) -> Result<Response, Problem> {
    let path = request.uri().path().to_owned();
    let body = to_bytes(request.into_body(), BODY_BYTES_MAX).await.map_err(|_| Problem::too_large(BODY_BYTES_MAX))?;
    token.browsers().answer(&path, signed, &body)
}

/// Marks a request of somebody who has not said who it is: they hear whether the service is well, and nothing else.
#[derive(Clone)]
pub struct Stranger;

/// True of a path that probes ask, which have no token. Of methods that it does not have, they are told so.
fn is_probe(path: &str) -> bool {
    matches!(path, "/health" | "/ready")
}

async fn checked(mut parts: Parts, body: Body) -> Result<AdmittedRequest, EarlyResponse> {
    let door = parts.extensions.remove::<Door>().ok_or_else(|| Problem::failed("nobody knows how the request came"))?;
    if let Door::Tcp { server, token, is_encrypted, .. } = &door
        && browsers::is_hello(&parts.method, parts.uri.path())
    {
        is_meant(&parts.headers, *server, *is_encrypted)?;
        let bytes = bytes_of(&parts, body).await?;
        return Err(EarlyResponse::Answered(token.browsers().hello(&origin_of(&parts.headers, *is_encrypted), &bytes)?));
    }
    if let Door::Tcp { token, .. } = &door
        && !browsers::is_signed(&parts.headers)
        && !is_known(&parts.headers, token)
    {
        parts.extensions.insert(Stranger);
    }
    let (peer, signed) = pass(&parts, door).await?;
    parts.extensions.insert(peer);
    let bytes = bytes_of(&parts, body).await?;
    if let Some((signed, _)) = &signed {
        signed.ensure_body(&bytes)?;
    }
    Ok(AdmittedRequest { request: Request::from_parts(parts, Body::from(bytes)), signed })
}

/// The origin that a page has which asks for this.
fn origin_of(headers: &HeaderMap, is_encrypted: bool) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{}{host}", scheme(is_encrypted))
}

fn scheme(is_encrypted: bool) -> &'static str {
    if is_encrypted { "https://" } else { "http://" }
}

/// The peer whose request it is, if it may be answered, and a page's signature.
async fn pass(
    Parts { headers, method, uri, .. }: &Parts,
    door: Door,
) -> Result<(Peer, Option<(SignedRequest, Arc<Token>)>), Problem> {
    match door {
        Door::Socket(_) if headers.contains_key(ORIGIN) => {
            // Browsers alone send it, and none of them gets here by itself.
            Err(Problem::forbidden("requests of web pages are not answered"))
        }
        Door::Socket(peer) => Ok((peer, None)),
        Door::Tcp { client, server, token, is_encrypted } => {
            is_meant(headers, server, is_encrypted)?;
            let signed = match browsers::is_signed(headers) {
                true => Some(token.browsers().signed(&origin_of(headers, is_encrypted), method, uri, headers)?),
                false => None,
            };
            if signed.is_none() && !is_for_all(method, uri.path()) && !is_known(headers, &token) {
                return Err(Problem::unauthorized("the token is missing or wrong; send it as `Authorization: Bearer TOKEN`"));
            }
            let signed = signed.map(|signed| (signed, token));
            if !changes(method) {
                return Ok((Peer::unknown(), signed));
            }
            let found = spawn_blocking(move || Peer::over_tcp(client, server)).await;
            found.map(|peer| (peer, signed)).map_err(|_| Problem::failed("the caller could not be looked at"))
        }
    }
}

/// True of a request that is answered without the token.
fn is_for_all(method: &Method, path: &str) -> bool {
    page::is_public(method, path) || is_probe(path)
}

/// True of a method that may change something.
fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// Refuses requests that a page of another site, or another name for this machine (DNS rebinding), has a browser send. Behind TLS any name
/// will do: the certificate tells the browser whether the service is meant.
fn is_meant(headers: &HeaderMap, server: SocketAddr, is_encrypted: bool) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).unwrap_or_default();
    if is_encrypted && host.is_empty() {
        return Err(Problem::forbidden("the header Host is missing"));
    }
    if !is_encrypted && !origin::is_named(headers, server) {
        return Err(Problem::forbidden(format!("the header Host must be {server}, the address that the service listens at")));
    }
    let is_same = |origin: &str| origin.strip_prefix(scheme(is_encrypted)) == Some(host);
    let is_from_elsewhere = text(ORIGIN).is_some_and(|origin| !is_same(origin))
        || text(FETCH_SITE).is_some_and(|site| !["same-origin", "none"].contains(&site));
    match is_from_elsewhere {
        true => Err(Problem::forbidden("requests of other web pages are not answered")),
        false => Ok(()),
    }
}

fn is_known(headers: &HeaderMap, token: &Token) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|text| text.split_once(' '));
    given.is_some_and(|(scheme, text)| scheme.eq_ignore_ascii_case("bearer") && token.is(text.trim()))
}

/// The body, read whole; that of a request that only reads means nothing, and is not waited for.
async fn bytes_of(parts: &Parts, body: Body) -> Result<Bytes, Problem> {
    if !changes(&parts.method) {
        return Ok(Bytes::new());
    }
    let has_json = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    let read = time::timeout(BODY_LIMIT, to_bytes(body, BODY_BYTES_MAX)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(Problem::too_large(BODY_BYTES_MAX)),
        Err(_) => return Err(Problem::timeout("the request's body took too long")),
    };
    if !bytes.is_empty() && !has_json {
        return Err(Problem::usage("the body must be JSON, with Content-Type: application/json"));
    }
    Ok(bytes)
}

fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
