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
