//! The checked-in schema is the one of the types.

use std::{fs, path::Path};

#[test]
fn the_documents_have_the_schema_of_this_release() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/json.schema.json");
    let found = fs::read_to_string(&path).unwrap();
    let expected = format!("{:#}\n", parhelia_wire::schema());
    assert!(found == expected, "cargo run --release -p parhelia-wire --example schema > docs/json.schema.json");
}
