//! Edits through shared mappings. A stamp moves at the first store after a page was made clean, not at the others.

use parhelia_tests::{editor::Editor, filesystems::Kind};
use serde_json::json;

use super::cell::{Cell, Times};

/// A file, what is done to it before its first checkpoint, and what after it.
const FILES: [(&str, &[&str], &[&str]); 8] = [
    ("mapped after", &[], &["map", "store"]),
    ("mapped after, msync", &[], &["map", "store", "msync"]),
    ("mapped after, closed", &[], &["map", "store", "unmap"]),
    ("mapped before", &["map"], &["store"]),
    ("stored before", &["map", "store"], &["store"]),
    ("stored before, msync", &["map", "store"], &["store", "msync"]),
    ("stored before, closed", &["map", "store"], &["store", "unmap"]),
    ("stored before, msync, closed", &["map", "store"], &["store", "msync", "unmap"]),
];

pub fn fill(editor: &mut Editor) {
    for (i, (name, ..)) in FILES.into_iter().enumerate() {
        editor.edit("write", json!([name, 9_000, i]));
    }
    editor.edit("write", json!(["never mapped", 9_000, 99]));
}

fn do_each(cell: &mut Cell, name: &str, edits: &[&str], seed: u64) {
    for edit in edits {
        let arguments = match *edit {
            "map" => json!([name, name]),
            "store" => json!([name, seed]),
            _ => json!([name]),
        };
        cell.editor.edit(edit, arguments);
    }
}

/// Stores through mappings before, between and after checkpoints.
pub fn story(mut cell: Cell, kind: Kind) {
    cell.times = Times::of(kind, true);
    cell.restores_beside = true;
    for (name, before, _) in FILES {
        do_each(&mut cell, name, before, 1);
    }
    cell.settle(kind);
    cell.check_capture("at first");
    for (name, _, after) in FILES {
        do_each(&mut cell, name, after, 2);
    }
    cell.settle(kind);
    cell.check_capture("stored after the first checkpoint");
    for (name, ..) in FILES {
        do_each(&mut cell, name, &["store"], 3);
    }
    cell.check_capture("stored where a mapping is left");
    for (name, ..) in FILES {
        do_each(&mut cell, name, &["store", "msync", "store", "unmap"], 4);
    }
    cell.check_capture("stored, and all closed");
    cell.check_in_place("back to the second", 1);
    cell.finish();
}
