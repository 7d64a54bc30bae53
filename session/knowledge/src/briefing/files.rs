//! Files in a briefing: those that the session has changed, and the content of the most important ones.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File as Opened,
    io::Read,
    path::Path,
};

use parhelia_store::{
    Store,
    diff::{
        ChangeKind, DiffOptions, Side, Text, TextOptions, TreeChange, compare, file_diff, is_binary, line_counts, store_content,
    },
    name,
    record::Checkpoint,
    tree::{Kind, Node},
};
use serde_json::Value;

use super::{ChangedFile, File};
use parhelia_host::Result;

/// More files are not read: a text of the usual length has room for a few.
const FILES_MAX: usize = 24;
/// Longer files are not given whole, in bytes.
const TEXT_BYTES_MAX: u64 = 32 << 10;
/// Of longer files no lines are compared, in bytes.
const DIFF_BYTES_MAX: u64 = 256 << 10;
/// The most changes whose lines are counted.
const COUNTED_MAX: usize = 100;

/// The changes between two checkpoints that a briefing lists.
pub(super) fn changes(store: &Store, first: &Checkpoint, checkpoint: &Checkpoint) -> Result<Vec<TreeChange>> {
    let (old, new) = (store.node_at(first, b"")?, store.node_at(checkpoint, b"")?);
    let mut changes = compare(Side::new(store, &old), Side::new(store, &new), DiffOptions::default())?;
    changes.retain(is_told);
    Ok(changes)
}

/// Checks whether a briefing lists a change. Folders are left out, as each of their files is listed; so is everything in `.git`.
pub(super) fn is_told(change: &TreeChange) -> bool {
    let is_folder = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.as_folder().is_some());
    !is_folder(&change.old) && !is_folder(&change.new) && !change.path.split(|b| *b == b'/').any(|part| part == b".git")
}

/// Folders and files that programs write.
const WRITTEN: [&str; 14] = [
    "target",
    "node_modules",
    "dist",
    "build",
    "out",
    "coverage",
    "__pycache__",
    ".venv",
    "venv",
    ".cache",
    ".next",
    ".pytest_cache",
    "vendor",
    ".idea",
];
const WRITTEN_ENDINGS: [&str; 12] =
    [".lock", ".log", ".tmp", ".pyc", ".o", ".so", ".class", ".map", ".min.js", ".sqlite", ".db", "-lock.json"];

/// Files that the agent's own tools have changed, from the workspace.
pub(super) fn edited(context: &Value) -> HashSet<Vec<u8>> {
    let listed = context["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_edited =
        |file: &&Value| file["reasons"].as_array().is_some_and(|reasons| reasons.iter().any(|reason| reason == "edited"));
    listed.iter().filter(is_edited).filter_map(|file| Some(name::parse(file["path"].as_str()?))).collect()
}

/// The rank of a changed path; the lowest comes first. 0: edited by the agent's tools; 1: other files; 2: files that programs write.
pub(super) fn rank(path: &[u8], edited: &HashSet<Vec<u8>>) -> u8 {
    if edited.contains(path) {
        return 0;
    }
    let is_written = path.split(|b| *b == b'/').any(|part| WRITTEN.iter().any(|name| name.as_bytes() == part))
        || WRITTEN_ENDINGS.iter().any(|ending| path.ends_with(ending.as_bytes()));
    if is_written { 2 } else { 1 }
}

/// Changes as they are told, with the lines of the first ones counted.
pub(super) fn told(store: &Store, changes: &[TreeChange]) -> Vec<ChangedFile> {
    let options = TextOptions { bytes_max: DIFF_BYTES_MAX, ..TextOptions::default() };
    let read = store_content(store);
    let mut told = Vec::with_capacity(changes.len());
    for (n, change) in changes.iter().enumerate() {
        let lines = match n < COUNTED_MAX {
            true => line_counts(change, &read, &read, options).ok(),
            false => None,
        };
        let lines = lines.and_then(|lines| if let Text::Lines(lines) = lines { Some(lines) } else { None });
        told.push(ChangedFile { path: path(change), mark: change.kind.letter(), lines });
    }
    told
}

fn path(change: &TreeChange) -> String {
    match &change.kind {
        ChangeKind::Renamed { from } => format!("{} -> {}", name::display(from), name::display(&change.path)),
        _ => name::display(&change.path),
    }
}

/// The files that `state/context.json` ranks first: their text as it is now, or where that is long, what the session changed in it. A file that
/// git alone calls changed is the session's if it has changed since the session began.
pub(super) fn ranked(
    store: &Store,
    checkpoint: &Checkpoint,
    context: &Value,
    changes: &[TreeChange],
    since: &[TreeChange],
    workspace: &Path,
) -> Vec<File> {
    let by_path: BTreeMap<String, &TreeChange> = changes.iter().map(|change| (name::display(&change.path), change)).collect();
    let newer: HashSet<String> = since.iter().map(|change| name::display(&change.path)).collect();
    let listed = context["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_used =
        |file: &Value| file["reasons"].as_array().is_some_and(|reasons| reasons.iter().any(|reason| reason != "modified"));
    let is_its = |file: &&Value| is_used(file) || file["path"].as_str().is_some_and(|path| by_path.contains_key(path));
    let fitting = listed.iter().filter(|file| file["fit"] == "fits").filter(is_its).take(FILES_MAX);
    fitting
        .filter_map(|file| {
            let path = file["path"].as_str()?;
            // A file that was replaced or removed while the list was made is not there.
            let node = store.node_at(checkpoint, path.as_bytes()).ok()?;
            let Kind::File { blob, size, .. } = node.kind else { return None };
            let is_newer = newer.contains(path);
            let text = match size {
                _ if is_newer => read_now(workspace, path),
                0..=TEXT_BYTES_MAX => store.blob(blob, size).and_then(|reader| reader.read_all()).ok(),
                _ => None,
            };
            let text = text.filter(|bytes| !is_binary(bytes)).and_then(|bytes| String::from_utf8(bytes).ok());
            let diff = by_path.get(path).filter(|_| !is_newer).and_then(|change| diff_of(store, change));
            let reason = file["reasons"][0].as_str().unwrap_or_default().to_owned();
            (text.is_some() || diff.is_some()).then(|| File { path: path.to_owned(), reason, text, diff, bytes: size })
        })
        .collect()
}

/// A file's bytes as they are now; none of one that is long, or that a link leads to.
fn read_now(workspace: &Path, path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file: Opened = crate::context::open(workspace, Path::new(path)).ok()?;
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= TEXT_BYTES_MAX).then_some(bytes)
}

fn diff_of(store: &Store, change: &TreeChange) -> Option<String> {
    let options = TextOptions { bytes_max: DIFF_BYTES_MAX, ..TextOptions::default() };
    let read = store_content(store);
    // All of an added file would be its text once more.
    let both = change.old.is_some() && change.new.is_some();
    match file_diff(change, &read, &read, options).ok().filter(|_| both)? {
        Text::Lines(lines) if !lines.is_empty() => String::from_utf8(lines).ok(),
        _ => None,
    }
}
