//! What a resumed agent is told of files: what the session has changed, and the files that matter most, as they are in a checkpoint.

use std::collections::BTreeMap;

use parhelia_store::{
    Store,
    diff::{Change, ChangeKind, DiffOptions, Side, Text, TextOptions, compare, file_diff, is_binary, line_counts, store_content},
    name,
    record::Checkpoint,
    tree::{Kind, Node},
};
use serde_json::Value;

use crate::{
    error::Result,
    inject::{Changed, File},
};

/// More files are not read: a text of the usual length has room for a few.
const FILES_MAX: usize = 24;
/// Longer files are not given whole, in bytes.
const TEXT_BYTES_MAX: u64 = 32 << 10;
/// Of longer files no lines are compared, in bytes.
const DIFF_BYTES_MAX: u64 = 256 << 10;
/// Of so many changes lines are counted.
const COUNTED_MAX: usize = 100;

/// What has changed between two checkpoints.
pub(super) fn changes(store: &Store, first: &Checkpoint, checkpoint: &Checkpoint) -> Result<Vec<Change>> {
    let (old, new) = (store.node_at(first, b"")?, store.node_at(checkpoint, b"")?);
    let mut changes = compare(Side::new(store, &old), Side::new(store, &new), DiffOptions::default())?;
    let is_folder = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.as_folder().is_some());
    // What came or went in a folder is said of each file.
    changes.retain(|change| !is_folder(&change.old) && !is_folder(&change.new));
    Ok(changes)
}

/// Changes as they are told, with the lines of the first ones counted.
pub(super) fn told(store: &Store, changes: &[Change]) -> Vec<Changed> {
    let options = TextOptions { bytes_max: DIFF_BYTES_MAX, ..TextOptions::default() };
    let read = store_content(store);
    let mut told = Vec::with_capacity(changes.len());
    for (n, change) in changes.iter().enumerate() {
        let lines = match n < COUNTED_MAX {
            true => line_counts(change, &read, &read, options).ok(),
            false => None,
        };
        let lines = lines.and_then(|lines| if let Text::Lines(lines) = lines { Some(lines) } else { None });
        told.push(Changed { path: path(change), mark: mark(&change.kind), lines });
    }
    told
}

fn path(change: &Change) -> String {
    match &change.kind {
        ChangeKind::Renamed { from } => format!("{} -> {}", name::display(from), name::display(&change.path)),
        _ => name::display(&change.path),
    }
}

fn mark(kind: &ChangeKind) -> char {
    match kind {
        ChangeKind::Added => 'A',
        ChangeKind::Deleted => 'D',
        ChangeKind::Modified => 'M',
        ChangeKind::Metadata(_) => 'm',
        ChangeKind::TypeChanged => 'T',
        ChangeKind::Renamed { .. } => 'R',
    }
}

/// The files that `state/context.json` ranks first: their text, or where that is long, what the session changed in it.
pub(super) fn ranked(store: &Store, checkpoint: &Checkpoint, context: &Value, changes: &[Change]) -> Vec<File> {
    let by_path: BTreeMap<String, &Change> = changes.iter().map(|change| (name::display(&change.path), change)).collect();
    let listed = context["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fitting = listed.iter().filter(|file| file["fit"] == "fits").take(FILES_MAX);
    fitting
        .filter_map(|file| {
            let path = file["path"].as_str()?;
            // A file that was replaced or removed while the list was made is not there.
            let node = store.node_at(checkpoint, path.as_bytes()).ok()?;
            let Kind::File { blob, size, .. } = node.kind else { return None };
            let text = match size {
                0..=TEXT_BYTES_MAX => store.blob(blob, size).and_then(|reader| reader.read_all()).ok(),
                _ => None,
            };
            let text = text.filter(|bytes| !is_binary(bytes)).and_then(|bytes| String::from_utf8(bytes).ok());
            let diff = by_path.get(path).and_then(|change| diff_of(store, change));
            let reason = file["reasons"][0].as_str().unwrap_or_default().to_owned();
            (text.is_some() || diff.is_some()).then(|| File { path: path.to_owned(), reason, text, diff, bytes: size })
        })
        .collect()
}

fn diff_of(store: &Store, change: &Change) -> Option<String> {
    let options = TextOptions { bytes_max: DIFF_BYTES_MAX, ..TextOptions::default() };
    let read = store_content(store);
    // All of an added file would be its text once more.
    let both = change.old.is_some() && change.new.is_some();
    match file_diff(change, &read, &read, options).ok().filter(|_| both)? {
        Text::Lines(lines) if !lines.is_empty() => String::from_utf8(lines).ok(),
        _ => None,
    }
}
