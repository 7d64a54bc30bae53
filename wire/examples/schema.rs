//! Writes what the documentation has of the types: `cargo run --release -p parhelia-wire --example schema`.

#![allow(clippy::disallowed_methods)]

fn main() -> std::io::Result<()> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    std::fs::write(docs.join("json.schema.json"), format!("{:#}\n", parhelia_wire::schema()))?;
    std::fs::write(docs.join("json-reference.md"), parhelia_wire::reference())
}
