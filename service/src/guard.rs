//! Conditions of every request, whatever it asks for: no web page may make a browser send it, and its body is bounded in length and time.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{
        Method,
        header::{CONTENT_TYPE, ORIGIN},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time;

use crate::api::problem::Problem;

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// A body takes no longer.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Lets a request pass, with its body read whole, or answers with what is wrong.
pub async fn check(request: Request, next: Next) -> Response {
    match checked(request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn checked(request: Request) -> Result<Request, Problem> {
    let headers = request.headers();
    if headers.contains_key(ORIGIN) {
        // Browsers alone send it, and no page of anybody's has business here.
        return Err(Problem::forbidden("requests of web pages are not answered"));
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let has_json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    let (parts, body) = request.into_parts();
    let read = time::timeout(BODY_LIMIT, to_bytes(body, BODY_BYTES_MAX)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(Problem::too_large(BODY_BYTES_MAX)),
        Err(_) => return Err(Problem::timeout("the request's body took too long")),
    };
    if changes && !bytes.is_empty() && !has_json {
        return Err(Problem::usage("the body must be JSON, with Content-Type: application/json"));
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
