//! Operations of the API: each is described where it is routed, so that the OpenAPI document tells of all of them.

use axum::{Json, Router, routing::MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::problem::Problem;

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
    /// Bytes of any kind, as those of a file.
    Bytes,
}

/// A route of the API, with everything that the OpenAPI document says of it.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub about: &'static str,
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    pub content: Content,
    pub problems: &'static [u16],
    /// True if something may be made by it, whose place the answer names.
    pub creates: bool,
    /// True if it is answered without a token, and its content also comes with 503.
    pub is_probe: bool,
    /// True if a part of its bytes can be asked for.
    pub by_parts: bool,
    /// A problem that it has beside those of its method.
    pub own_problem: Option<u16>,
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
            creates: false,
            is_probe: false,
            by_parts: false,
            own_problem: None,
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

    /// The same, answered with 201 and the place where something was made.
    pub fn creates(self) -> Self {
        Operation { creates: true, ..self }
    }

    /// The same, answered without a token, and with 503 where the verdict is bad.
    pub fn answers_probes(self) -> Self {
        Operation { is_probe: true, problems: &[401, 403], ..self }
    }

    /// The same, of which a part can be asked for.
    pub fn by_parts(self) -> Self {
        Operation { by_parts: true, ..self }
    }

    /// The same, with a problem that others of its method do not have.
    pub fn with_problem(self, status: u16) -> Self {
        Operation { own_problem: Some(status), ..self }
    }

    /// True if it changes a session that its path names.
    pub fn changes_session(&self) -> bool {
        self.method == "post" && self.path.contains("{session}")
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

/// The first segment of the API's paths.
const VERSION: &str = "/v1/";
/// Another name of it.
const ALIAS: &str = "/api/";

/// A router of operations. Each of the API's is there by two paths.
pub fn router(operations: Vec<Operation>) -> Router<App> {
    operations.into_iter().fold(Router::new(), |router, operation| {
        let router = match operation.path.strip_prefix(VERSION) {
            Some(rest) => router.route(&format!("{ALIAS}{rest}"), operation.handler.clone()),
            None => router,
        };
        router.route(operation.path, operation.handler)
    })
}
