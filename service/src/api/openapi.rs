//! The OpenAPI document (3.1), made of the operations and of the types that they take and give.

use schemars::{Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    operation::{Content, of},
    problem::Problem,
};

/// The document.
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
        parameters.extend(operation.query.map(|query| in_query(&query(&mut taken))).unwrap_or_default());
        let mut responses = Map::new();
        let good = match operation.content {
            Content::Json(schema) => json!({"application/json": {"schema": schema(&mut generator)}}),
            Content::Text(kind) => json!({kind: {"schema": {"type": "string"}}}),
            Content::Bytes => json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}),
        };
        responses.insert("200".into(), json!({"description": "Done", "content": good}));
        let problem = of::<Problem>(&mut generator);
        for status in operation.problems {
            let content = json!({"application/problem+json": {"schema": problem}});
            responses.insert(status.to_string(), json!({"description": reason(*status), "content": content}));
        }
        let mut described = json!({
            "operationId": operation.id, "summary": operation.about, "parameters": parameters, "responses": responses,
        });
        if let Some(body) = operation.body {
            described["requestBody"] = json!({"required": false, "content": {"application/json": {"schema": body(&mut taken)}}});
        }
        let path = operation.path.replace("{*", "{");
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[operation.method] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "parhelia", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "MIT OR Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": generator.take_definitions(true)},
    })
}

/// The parameters in a path's braces.
fn in_path(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).map(|name| name.trim_start_matches('*'));
    names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}))
        .collect()
}

/// The parameters behind the question mark: the properties of a type.
fn in_query(schema: &Schema) -> Vec<Value> {
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
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
