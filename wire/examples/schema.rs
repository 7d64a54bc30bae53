//! Prints the JSON Schema of every line: `cargo run --release -p parhelia-wire --example schema > docs/json.schema.json`.

#![allow(clippy::print_stdout)]

fn main() {
    println!("{:#}", parhelia_wire::schema());
}
