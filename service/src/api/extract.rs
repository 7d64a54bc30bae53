//! Parts of requests, with problems in place of axum's words.

use axum::{
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use super::condition::Condition;
use crate::problem::Problem;

/// Parameters behind the question mark.
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::try_from_uri(&parts.uri).map_err(|e| Problem::usage(e.body_text()))?;
        Ok(Parameters(query.0))
    }
}

/// Parameters in the path.
pub struct PathParameters<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await.map_err(|e| Problem::usage(e.body_text()))?;
        Ok(PathParameters(path.0))
    }
}

/// A JSON body; an empty one stands for an object without members.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let condition = request.extensions().get::<Condition>().cloned();
        // It was bounded, and read whole, before.
        let bytes = to_bytes(request.into_body(), usize::MAX).await.map_err(|e| Problem::usage(e.to_string()))?;
        let body = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        // Serde would take a list for the members in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::usage("the body must be a JSON object"));
        }
        let given = serde_json::from_slice(body).map_err(|e| Problem::usage(format!("the body is not as it should be: {e}")))?;
        if let Some(condition) = condition {
            condition.ensure().await?;
        }
        Ok(JsonBody(given))
    }
}
