#![allow(clippy::unwrap_used)]

mod lines;
mod model;
mod renames;
mod trees;
