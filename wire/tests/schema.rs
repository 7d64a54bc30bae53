//! The documentation has the schema of the types, and the page that is made of it.

use std::{fs, path::Path};

#[track_caller]
fn has(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/{name} is another one: cargo run --release -p parhelia-wire --example schema");
}

#[test]
fn the_documents_have_the_types_of_this_release() {
    has("json.schema.json", &format!("{:#}\n", parhelia_wire::schema()));
    has("json-reference.md", &parhelia_wire::reference());
}

/// The fields of all types, with the name of each.
fn fields(schema: &serde_json::Value) -> Vec<(String, serde_json::Value)> {
    let types = schema["$defs"].as_object().into_iter().flatten();
    let of = |(of, one): (&String, &serde_json::Value)| {
        let fields = one["properties"].as_object().cloned().unwrap_or_default();
        fields.into_iter().map(move |(name, field)| (format!("{of}.{name}"), field)).collect::<Vec<_>>()
    };
    types.flat_map(of).collect()
}

#[test]
fn ids_of_other_things_stand_under_their_names() {
    let all = fields(&parhelia_wire::schema());
    let ids: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).filter(|name| name.ends_with("_id")).collect();
    // The kernel's, and nothing of ours.
    assert_eq!(ids, ["Run.boot_id"]);
}

#[test]
fn times_have_a_format() {
    for (name, field) in fields(&parhelia_wire::schema()) {
        let last = name.rsplit('.').next().unwrap_or_default();
        let about = field["description"].as_str().unwrap_or_default();
        let is_time = last.ends_with("_at") || last == "mtime" || about.starts_with("Time ") || about.starts_with("The time ");
        // A text of a filesystem, and one of an agent.
        let is_others = ["Place.born", "Message.at"].contains(&name.as_str());
        if is_time && !is_others && !field.to_string().contains("integer") {
            assert_eq!(field["format"], "date-time", "{name}: {about}");
        }
    }
}
