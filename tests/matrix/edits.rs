//! Chosen edits: each has files of its own, whose names say what is done to them, so that a fault names the edit.

use parhelia_tests::{editor::Editor, filesystems::Kind};
use serde_json::json;

use super::cell::Cell;

const ROUNDS: u64 = 2;

/// Files that are edited in a way that has no other file.
const SINGLE: [&str; 20] = [
    "written",
    "rewritten",
    "patched",
    "patched, large",
    "rewritten, old time",
    "appended",
    "appended, large",
    "truncated",
    "lengthened",
    "replaced",
    "replaced, old time",
    "allocated",
    "punched",
    "cloned over",
    "copied over",
    "chmod",
    "xattr",
    "touched",
    "unlinked",
    "hidden in its second",
];

/// Fills the workspace with its first content.
pub fn fill(editor: &mut Editor) {
    for (i, name) in SINGLE.into_iter().enumerate() {
        let length = if name.ends_with("large") { 300_000 } else { 9_000 };
        editor.edit("write", json!([name, length, i]));
    }
    for (name, seed) in
        [("renamed", 1), ("swapped a", 2), ("swapped b", 3), ("folder/x", 4), ("folder/deep/y", 5), ("closed/x", 6)]
    {
        editor.edit("write", json!([format!("moves/{name}"), 5_000, seed]));
    }
    for (name, seed) in [("group a", 1), ("group c", 2), ("single", 3), ("swapped", 4), ("was single", 5)] {
        editor.edit("write", json!([format!("links/{name}"), 5_000, seed]));
    }
    for (from, to) in
        [("group a", "group b"), ("group c", "group d"), ("group c", "other/group e"), ("swapped", "other/swapped 2")]
    {
        editor.edit("link", json!([format!("links/{from}"), format!("links/{to}")]));
    }
    editor.edit("symlink", json!(["moves/renamed", "symlink"]));
    editor.edit("mkdir", json!(["becomes a file"]));
    editor.edit("write", json!(["becomes a folder", 100, 1]));
    // Not every filesystem keeps attributes.
    let _ = editor.try_to("setxattr", json!(["xattr", "old", 20, 1]));
    editor.edit("chmod", json!(["moves/closed", 0o555]));
}

/// Edits that some filesystems refuse; then the others stand in their place.
fn edit_content(cell: &mut Cell, seed: u64) {
    let e = &mut cell.editor;
    e.edit("write", json!(["written", 9_000, seed]));
    e.edit("rewrite", json!(["rewritten", seed]));
    e.edit("patch", json!(["patched", seed]));
    e.edit("patch", json!(["patched, large", seed]));
    e.edit("rewrite_old", json!(["rewritten, old time", seed]));
    e.edit("append", json!(["appended", 500, seed]));
    e.edit("append", json!(["appended, large", 70_000, seed]));
    e.edit("truncate", json!(["truncated", 4_000 / seed]));
    e.edit("truncate", json!(["lengthened", 20_000 * seed]));
    e.edit("replace", json!(["replaced", 9_000, seed]));
    e.edit("replace_old", json!(["replaced, old time", seed]));
    e.edit("copy_range", json!(["replaced", "copied over"]));
    e.edit("chmod", json!(["chmod", 0o600 + seed]));
    e.edit("touch", json!(["touched", 1_600_000_000_000_000_000 + seed * 1_000_000_000]));
    for (edit, arguments) in [
        ("setxattr", json!(["xattr", "new", 30, seed])),
        ("allocate", json!(["allocated", 8192])),
        ("punch", json!(["punched", 4096 * (seed - 1), 4096])),
        ("clone", json!(["rewritten", "cloned over"])),
    ] {
        if let Err(errno) = e.try_to(edit, arguments) {
            assert!(["EOPNOTSUPP", "ENOTSUP", "ENOTTY", "ENOSYS", "EXDEV", "EINVAL"].contains(&&*errno), "{edit}: {errno}");
        }
    }
}

fn edit_names(e: &mut Editor) {
    e.edit("rename", json!(["moves/renamed", "moves/new name"]));
    e.edit("write", json!(["moves/renamed", 5_000, 77]));
    e.edit("unlink", json!(["unlinked"]));
    let _ = e.try_to("removexattr", json!(["xattr", "old"]));
    e.edit("unlink", json!(["symlink"]));
    e.edit("symlink", json!(["elsewhere", "symlink"]));
    e.edit("fifo", json!(["pipe"]));
    e.edit("remove", json!(["becomes a file"]));
    e.edit("write", json!(["becomes a file", 100, 2]));
    e.edit("unlink", json!(["becomes a folder"]));
    e.edit("write", json!(["becomes a folder/file", 100, 2]));
    e.edit("chmod", json!(["moves/closed", 0o755]));
    e.edit("rewrite", json!(["moves/closed/x", 7]));
    e.edit("write", json!(["moves/closed/later", 100, 7]));
    e.edit("chmod", json!(["moves/closed", 0o555]));
    // A folder of an overlay's lower layer stays where it is.
    if e.try_to("rename", json!(["moves/folder", "moves/new folder"])).is_err() {
        e.edit("rename", json!(["moves/folder/deep/y", "moves/new folder/y"]));
    }
    // Not every filesystem can exchange two names.
    if e.try_to("exchange", json!(["moves/swapped a", "moves/swapped b"])).is_err() {
        e.edit("rename", json!(["moves/swapped a", "moves/swapped"]));
        e.edit("rename", json!(["moves/swapped b", "moves/swapped a"]));
        e.edit("rename", json!(["moves/swapped", "moves/swapped b"]));
    }
}

fn edit_links(e: &mut Editor) {
    // Through one name, content; another name is the same file.
    e.edit("rewrite", json!(["links/group b", 50]));
    e.edit("link", json!(["links/group a", "links/group of three"]));
    e.edit("link", json!(["links/single", "links/no longer single"]));
    // From one group to another.
    e.edit("link_over", json!(["links/was single", "links/group d"]));
    e.edit("rename", json!(["links/other/swapped 2", "links/between"]));
    e.edit("rename", json!(["links/swapped", "links/other/swapped 2"]));
    e.edit("rename", json!(["links/between", "links/swapped"]));
    e.edit("replace_old", json!(["links/other/group e", 51]));
}

/// Everything but mappings: created, edited, created again, restored to a new folder and in place, compared at each step.
pub fn story(mut cell: Cell, kind: Option<Kind>) {
    // What the cache holds of the first capture is believed; what it holds of the others may be too young.
    if let Some(kind) = kind.filter(|kind| *kind != Kind::Fuse) {
        cell.settle(kind);
    }
    cell.check_capture("at first");
    for round in 1..=ROUNDS {
        edit_content(&mut cell, round);
        cell.check_capture(&format!("content edited, {round}"));
    }
    edit_names(&mut cell.editor);
    cell.check_capture("names edited");
    edit_links(&mut cell.editor);
    cell.check_capture("links edited");
    cell.check_same_second("hidden in its second", kind.is_some_and(Kind::has_whole_seconds));
    cell.check_in_place("back to the first", 0);
    // What a restore has just written may change in the same second, too.
    cell.editor.edit("rewrite", json!(["rewritten", 90]));
    cell.editor.edit("rewrite_old", json!(["rewritten, old time", 90]));
    cell.editor.edit("chmod", json!(["chmod", 0o640]));
    cell.check_capture("edited right after a restore in place");
    cell.check_in_place("forward again", 4);
    if let Some(kind) = kind {
        let cloned = cell.editor.done.contains_key("clone");
        assert_eq!(cloned, kind.clones(), "{kind:?} clones files, or no longer does");
    }
    cell.finish();
}
