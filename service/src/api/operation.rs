//! Operations of the API: each is described where it is routed, so that the OpenAPI document tells of all of them.

use axum::{Json, Router, routing::MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::problem::Problem;
use crate::app::App;

/// The answer of most handlers.
pub type Answer<T> = Result<Json<T>, Problem>;

/// Makes the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The content of a good answer.
#[derive(Clone, Copy)]
pub enum Content {
    /// JSON of a type.
    Json(SchemaOf),
    /// Text of a kind, such as `text/plain`.
    Text(&'static str),
    /// Server-sent events, each with JSON of a type.
    Events(SchemaOf),
    /// Bytes.
    Bytes,
}

/// An operation.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub about: &'static str,
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    pub content: Content,
    pub problems: &'static [u16],
    pub handler: MethodRouter<App>,
}

impl Operation {
    /// An operation that changes nothing.
    pub fn get(path: &'static str, id: &'static str, about: &'static str, handler: MethodRouter<App>) -> Self {
        Operation {
            method: "get",
            path,
            id,
            about,
            query: None,
            body: None,
            content: Content::Bytes,
            problems: &[400, 401, 403, 404, 500, 503],
            handler,
        }
    }

    /// An operation that changes something.
    pub fn post(path: &'static str, id: &'static str, about: &'static str, handler: MethodRouter<App>) -> Self {
        Operation {
            method: "post",
            problems: &[400, 401, 403, 404, 408, 409, 410, 413, 422, 500, 503],
            ..Self::get(path, id, about, handler)
        }
    }

    /// The same, with parameters behind the question mark.
    pub fn query<T: JsonSchema>(self) -> Self {
        Operation { query: Some(inlined::<T>), ..self }
    }

    /// The same, with a JSON body.
    pub fn takes<T: JsonSchema>(self) -> Self {
        Operation { body: Some(of::<T>), ..self }
    }

    /// The same, answered with JSON.
    pub fn gives<T: JsonSchema>(self) -> Self {
        Operation { content: Content::Json(of::<T>), ..self }
    }

    /// The same, answered with server-sent events.
    pub fn gives_events<T: JsonSchema>(self) -> Self {
        Operation { content: Content::Events(of::<T>), ..self }
    }

    /// The same, answered with text.
    pub fn gives_text(self, kind: &'static str) -> Self {
        Operation { content: Content::Text(kind), ..self }
    }
}

/// A reference to a type's schema.
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn inlined<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// A router of operations.
pub fn router(operations: Vec<Operation>) -> Router<App> {
    operations.into_iter().fold(Router::new(), |router, operation| router.route(operation.path, operation.handler))
}
