//! Problems: the answers where a request cannot be served, by RFC 9457.

mod next_step;
mod plain;

use std::io;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use parhelia_host::{Error, Refusal};
use parhelia_store::ErrorKind;
use schemars::JsonSchema;
use serde::Serialize;

use self::plain::plain;

/// Marks an answer that is a problem though something was done.
#[derive(Clone, Copy, Debug)]
pub struct SideEffect;

/// The answer to a request that could not be served, as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Kind of the problem: failed, usage, refused, not_found, locked, corrupt, cancelled, gone.
    #[schemars(extend("enum" = ["failed", "usage", "refused", "not_found", "locked", "corrupt", "cancelled", "gone"]))]
    pub title: &'static str,
    /// HTTP status of the answer.
    pub status: u16,
    /// The thing, the cause and the next step.
    pub detail: String,
    /// Exit code of the command line for the same problem.
    pub exit_code: u8,
    /// True if something was done all the same.
    #[serde(skip)]
    pub has_begun: bool,
}

/// The one table from kinds of errors to their names, HTTP statuses and exit codes.
const TABLE: [(ErrorKind, &str, StatusCode, u8); 7] = [
    (ErrorKind::Failed, "failed", StatusCode::INTERNAL_SERVER_ERROR, 1),
    (ErrorKind::Usage, "usage", StatusCode::BAD_REQUEST, 2),
    (ErrorKind::Refused, "refused", StatusCode::CONFLICT, 4),
    (ErrorKind::NotFound, "not_found", StatusCode::NOT_FOUND, 10),
    (ErrorKind::Locked, "locked", StatusCode::SERVICE_UNAVAILABLE, 11),
    (ErrorKind::Corrupt, "corrupt", StatusCode::INTERNAL_SERVER_ERROR, 12),
    (ErrorKind::Cancelled, "cancelled", StatusCode::SERVICE_UNAVAILABLE, 130),
];

impl Problem {
    fn of_kind(kind: ErrorKind, detail: String) -> Self {
        let row = TABLE.into_iter().find(|row| row.0 == kind).unwrap_or(TABLE[0]);
        Problem { title: row.1, status: row.2.as_u16(), detail: plain(&detail), exit_code: row.3, has_begun: false }
    }

    /// An agent could not be started. Where it is no other problem, it is the agent's.
    pub fn of_start(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Failed => Problem { has_begun: true, ..Self::refused(error.to_string()) },
            _ => error.into(),
        }
    }

    fn with_status(self, status: StatusCode) -> Self {
        Problem { status: status.as_u16(), ..self }
    }

    /// The request makes no sense.
    pub fn usage(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Usage, detail.into())
    }

    /// Nothing is there.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::NotFound, detail.into())
    }

    /// A state is against it.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Refused, detail.into())
    }

    /// A problem of the kind `failed`, with status 500.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Failed, detail.into())
    }

    /// Too much is under way.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Locked, detail.into())
    }

    /// The caller may not ask for this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Refused, detail.into()).with_status(StatusCode::FORBIDDEN)
    }

    /// The caller has not said who it is.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Refused, detail.into()).with_status(StatusCode::UNAUTHORIZED)
    }

    /// The path is known, and not for this method.
    pub fn not_allowed(detail: impl Into<String>) -> Self {
        Self::usage(detail).with_status(StatusCode::METHOD_NOT_ALLOWED)
    }

    /// A file has no such part.
    pub fn no_such_part(size: u64) -> Self {
        Self::usage(format!("the file has {size} bytes, and no such part")).with_status(StatusCode::RANGE_NOT_SATISFIABLE)
    }

    /// The session has changed since its caller looked at it.
    pub fn changed(detail: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Refused, detail.into()).with_status(StatusCode::PRECONDITION_FAILED)
    }

    /// A key was given to two requests.
    pub fn other_request() -> Self {
        Self::usage("this Idempotency-Key was given with another request").with_status(StatusCode::UNPROCESSABLE_ENTITY)
    }

    /// The request took too long.
    pub fn timeout(detail: impl Into<String>) -> Self {
        Self::usage(detail).with_status(StatusCode::REQUEST_TIMEOUT)
    }

    /// The request is too large.
    pub fn too_large(bytes_max: usize) -> Self {
        Self::usage(format!("the request's body is longer than {bytes_max} bytes, or was cut off"))
            .with_status(StatusCode::PAYLOAD_TOO_LARGE)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let next = if let Error::Refused(refusal) = &error { next_step::behind(refusal) } else { "" };
        let kind = if is_read_only(&error) { ErrorKind::Refused } else { error.kind() };
        let problem = Self::of_kind(kind, format!("{error}{next}"));
        match error {
            // For good: there is no use in trying again.
            Error::Refused(Refusal::HasEnded { .. }) => Problem { title: "gone", ..problem.with_status(StatusCode::GONE) },
            // It is there again once somebody has moved it back.
            Error::Store(parhelia_store::Error::NoStore { .. }) => problem.with_status(StatusCode::SERVICE_UNAVAILABLE),
            // It is there, more than once.
            Error::Store(parhelia_store::Error::AmbiguousSession { .. }) => {
                Problem { title: "refused", ..problem.with_status(StatusCode::CONFLICT) }
            }
            _ => problem,
        }
    }
}

/// True of an error that a read-only filesystem is the cause of: to ask again is of no use until that changes.
fn is_read_only(error: &Error) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

impl From<parhelia_store::Error> for Problem {
    fn from(error: parhelia_store::Error) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            // Whoever may not ask keeps no connection.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.has_begun {
            response.extensions_mut().insert(SideEffect);
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
