//! The OpenAPI document (3.1), made of the operations and of the types that they take and give.

use schemars::{Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::operation::{Content, Operation, of};
use crate::problem::Problem;

/// The document as JSON, which `GET /openapi.json` answers with.
pub fn document() -> Value {
    // OpenAPI 3.1 takes JSON Schema as it is.
    let place = |settings: &mut SchemaSettings| settings.definitions_path = "/components/schemas".into();
    let mut generator = SchemaSettings::draft2020_12().for_serialize().with(place).into_generator();
    // What is taken may lack what has a default; nothing of it is shared.
    let taken = |settings: &mut SchemaSettings| settings.inline_subschemas = true;
    let mut taken = SchemaSettings::draft2020_12().with(taken).into_generator();
    let mut paths = Map::new();
    for operation in super::operations() {
        let mut parameters: Vec<Value> = in_path(operation.path);
        parameters.extend(in_header(&operation));
        parameters.extend(operation.query.map(|query| in_query(&query(&mut taken))).unwrap_or_default());
        let mut responses = Map::new();
        let good = match operation.content {
            Content::Json(schema) => json!({"application/json": {"schema": schema(&mut generator)}}),
            Content::Text(kind) => {
                let kind = kind.split(';').next().unwrap_or(kind);
                json!({kind: {"schema": {"type": "string"}}})
            }
            // No schema tells of the objects in a stream of text.
            Content::Events(schema) => {
                json!({"text/event-stream": {"schema": {"type": "string"}, "x-event-data": schema(&mut generator)}})
            }
            Content::Bytes => json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}),
        };
        if operation.creates {
            let place = json!({"description": "Place of what was made.", "schema": {"type": "string"}});
            responses.insert("201".into(), json!({"description": "Made", "headers": {"Location": place}, "content": good}));
        }
        if operation.is_probe {
            responses.insert("503".into(), json!({"description": "The verdict is bad", "content": good}));
        }
        let mut done = json!({"description": "Done", "content": good});
        if operation.by_parts {
            responses.insert("206".into(), json!({"description": "A part", "content": good}));
            responses.insert("304".into(), json!({"description": "The caller has it"}));
            done["headers"] = json!({"ETag": {"description": "Name of the content.", "schema": {"type": "string"}}});
        }
        if operation.id == "getSession" {
            let about = "Name of the session's last change, for If-Match: its changed_sequence in quotes.";
            done["headers"] = json!({"ETag": {"description": about, "schema": {"type": "string"}}});
        }
        responses.insert("200".into(), done);
        let problem = of::<Problem>(&mut generator);
        let more = [(operation.by_parts, 416), (operation.changes_session(), 412)];
        let more = more.iter().filter(|(has, _)| *has).map(|(_, status)| status);
        for status in operation.problems.iter().chain(more).chain(&operation.own_problem) {
            let content = json!({"application/problem+json": {"schema": problem}});
            responses.insert(status.to_string(), json!({"description": reason(*status), "content": content}));
        }
        let mut described = json!({
            "operationId": operation.id, "summary": operation.about, "parameters": parameters, "responses": responses,
        });
        if operation.is_probe {
            described["security"] = json!([]);
        }
        if let Some(body) = operation.body {
            let schema = body(&mut taken);
            // One without members stands for an object without members.
            let required = schema.get("required").is_some();
            described["requestBody"] = json!({"required": required, "content": {"application/json": {"schema": schema}}});
        }
        let path = operation.path.replace("{*", "{");
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[operation.method] = described;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": "parhelia", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "MIT OR Apache-2.0"}},
        "servers": [{"url": "/"}],
        // Over TCP the token is asked for; the socket asks for none.
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    });
    simplify(&mut document);
    document
}

/// Writes what generators stumble over in another way: `true` for any value, and formats that only schemars knows.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_own = fields.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint"));
            if is_own {
                fields.remove("format");
            }
            if fields.get("schema") == Some(&Value::Bool(true)) {
                fields.insert("schema".into(), json!({}));
            }
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                properties.values_mut().filter(|schema| **schema == Value::Bool(true)).for_each(|schema| *schema = json!({}));
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(entries) => entries.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// The parameters in headers.
fn in_header(operation: &Operation) -> Vec<Value> {
    let header = |name: &str, schema: Value, about: &str| json!({"name": name, "in": "header", "required": false, "schema": schema, "description": about});
    let mut found = Vec::new();
    if operation.method == "post" {
        let about = "Key of the request: sent again with it, it is done once, and its first answer comes again.";
        found.push(header("Idempotency-Key", json!({"type": "string", "minLength": 1, "maxLength": 255}), about));
    }
    if operation.changes_session() {
        let about = "ETag of the session: nothing is done if the session has changed since.";
        found.push(header("If-Match", json!({"type": "string"}), about));
    }
    if operation.by_parts {
        for (name, about) in [
            ("Range", "The part that is wanted, such as bytes=0-1023; of several the whole file comes."),
            ("If-Range", "ETag of the content of which a part is there already; the whole file comes if it has another one."),
            ("If-None-Match", "ETag of a content that is there already."),
        ] {
            found.push(header(name, json!({"type": "string"}), about));
        }
    }
    if matches!(operation.content, Content::Events(_)) {
        let about = "Sequence of the last event that was heard.";
        found.push(header("Last-Event-ID", json!({"type": "integer", "minimum": 0}), about));
    }
    found
}

/// The parameters in a path's braces.
fn in_path(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).map(|name| name.trim_start_matches('*'));
    let about = |name: &str| match name {
        "session" => "Session, by its id or its name.",
        "checkpoint" => "Checkpoint: its id, a part of it, SESSION@latest or tag:NAME.",
        "id" => "Whole id of a checkpoint.",
        _ => "Path in the checkpoint; slashes may be %2F.",
    };
    let schema = |name: &str| match name {
        "id" => json!({"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}),
        _ => json!({"type": "string", "minLength": 1}),
    };
    let parameter =
        |name| json!({"name": name, "in": "path", "required": true, "schema": schema(name), "description": about(name)});
    names.map(parameter).collect()
}

/// The parameters behind the question mark: the properties of a type.
fn in_query(schema: &Schema) -> Vec<Value> {
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        // No query can say null.
        if let Some(Value::Array(kinds)) = schema.as_object_mut().and_then(|schema| schema.get_mut("type")) {
            kinds.retain(|kind| kind != "null");
            let only = kinds.first().cloned();
            schema["type"] = only.unwrap_or(Value::Null);
        }
        json!({
            "name": name, "in": "query", "required": required.iter().any(|required| *required == name),
            "schema": schema, "description": about,
        })
    };
    properties.into_iter().map(parameter).collect()
}

fn reason(status: u16) -> &'static str {
    axum::http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Problem")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_operation_has_its_own_id() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let place = reference.split('"').next().unwrap();
            assert!(document.pointer(place).is_some(), "{place}");
        }
        let mut ids: Vec<_> = super::super::operations().iter().map(|operation| operation.id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
