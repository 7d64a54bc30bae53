//! The difference of two files' lines: as a unified diff, and as counts.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops, udiff::UnifiedHunkHeader};

use super::{ChangeKind, TreeChange};
use crate::{
    error::{Error, Result},
    store::Store,
    tree::{Kind, Node},
};

/// Files longer than this are not compared line by line, unless [`TextOptions`] says otherwise.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;
/// A NUL among this many first bytes makes a file binary, as in git.
const BINARY_PROBE_BYTES: usize = 8 << 10;
/// More context than any file has lines.
const CONTEXT_LINES_MAX: usize = 1 << 30;

/// Reads a file's content: by its path on its side, and its entry.
pub type ContentOf<'a> = dyn Fn(&[u8], &Node) -> Result<Vec<u8>> + 'a;

/// Options for comparing files line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Lines that are shown around each difference.
    pub context_lines: usize,
    /// Longer files are not read.
    pub bytes_max: u64,
    /// So long the shortest difference is looked for; what is found by then is as right, and may be longer. None stands for any time.
    pub time_max: Option<Duration>,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions { context_lines: 3, bytes_max: TEXT_BYTES_MAX, time_max: None }
    }
}

/// Result of comparing two contents line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text<T> {
    /// Both are text.
    Lines(T),
    /// One of them is not text.
    Binary,
    /// One of them is longer than the bound.
    TooLarge,
}

impl<T> Text<T> {
    /// The same answer with something else made of the lines.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Text<U> {
        match self {
            Text::Lines(lines) => Text::Lines(make(lines)),
            Text::Binary => Text::Binary,
            Text::TooLarge => Text::TooLarge,
        }
    }
}

/// Reads content from a store.
pub fn store_content(store: &Store) -> impl Fn(&[u8], &Node) -> Result<Vec<u8>> + '_ {
    |path, node| match &node.kind {
        Kind::File { size, blob, .. } => store.blob(*blob, *size).and_then(|blob| blob.read_all()).map_err(|e| e.at(path)),
        _ => Err(Error::Invalid(format!("{}: it is a {}, not a file", crate::name::display(path), node.kind.name()))),
    }
}

/// True if these bytes are no text: if there is a NUL near their start. Text need not be UTF-8.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_PROBE_BYTES)].contains(&0)
}

/// The two contents of a change; `None` for a side without content.
struct Contents {
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

/// Reads one side. A symlink's content is its target, as in git; folders and special files have none.
fn load(node: Option<&Node>, path: &[u8], content: &ContentOf<'_>) -> Result<Option<Vec<u8>>> {
    let Some(node) = node else { return Ok(None) };
    match &node.kind {
        Kind::File { size: 0, .. } => Ok(Some(Vec::new())),
        Kind::File { .. } => content(path, node).map(Some),
        Kind::Symlink { target } => Ok(Some(target.clone())),
        _ => Ok(None),
    }
}

fn load_both(change: &TreeChange, old: &ContentOf<'_>, new: &ContentOf<'_>, bytes_max: u64) -> Result<Text<Contents>> {
    let is_file = |node: &&Node| matches!(node.kind, Kind::File { .. });
    if [&change.old, &change.new].into_iter().flatten().filter(is_file).any(|node| node.size() > bytes_max) {
        return Ok(Text::TooLarge);
    }
    let mut loaded = [None, None];
    let sides = [(&change.old, change.old_path(), old), (&change.new, change.path.as_slice(), new)];
    for (bytes, (node, path, content)) in loaded.iter_mut().zip(sides) {
        *bytes = load(node.as_ref(), path, content)?;
        match bytes {
            // A live file may have grown since it was looked at.
            Some(bytes) if bytes.len() as u64 > bytes_max => return Ok(Text::TooLarge),
            Some(bytes) if is_binary(bytes) => return Ok(Text::Binary),
            _ => {}
        }
    }
    let [old, new] = loaded;
    Ok(Text::Lines(Contents { old, new }))
}

/// True if the content on both sides is known to be the same.
fn has_equal_content(change: &TreeChange) -> bool {
    matches!(change.kind, ChangeKind::Metadata(_) | ChangeKind::Renamed { .. })
}

/// The number of lines that a change adds and removes. Content that is known to be equal is not read.
pub fn line_counts(
    change: &TreeChange,
    old: &ContentOf<'_>,
    new: &ContentOf<'_>,
    options: TextOptions,
) -> Result<Text<(u64, u64)>> {
    if has_equal_content(change) {
        return Ok(Text::Lines((0, 0)));
    }
    let loaded = load_both(change, old, new, options.bytes_max)?;
    let (until, side) = (deadline(options), Option::unwrap_or_default);
    Ok(loaded.map(|contents| count(&side(contents.old), &side(contents.new), until)))
}

/// A change as a unified diff: bytes that `patch -p1` takes. Empty where content is known to be equal.
pub fn file_diff(change: &TreeChange, old: &ContentOf<'_>, new: &ContentOf<'_>, options: TextOptions) -> Result<Text<Vec<u8>>> {
    if has_equal_content(change) {
        return Ok(Text::Lines(Vec::new()));
    }
    let loaded = load_both(change, old, new, options.bytes_max)?;
    Ok(loaded.map(|contents| {
        let old = contents.old.as_deref().map(|bytes| (change.old_path(), bytes));
        let new = contents.new.as_deref().map(|bytes| (change.path.as_slice(), bytes));
        unified_until(old, new, options.context_lines, deadline(options))
    }))
}

/// Lines with their newline; only the last may have none. A lone carriage return ends no line: neither git nor patch thinks so.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&b| b == b'\n').collect()
}

fn deadline(options: TextOptions) -> Option<Instant> {
    options.time_max.and_then(|time| Instant::now().checked_add(time))
}

fn edits(old: &[&[u8]], new: &[&[u8]], until: Option<Instant>) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, old, new, until)
}

fn count(old: &[u8], new: &[u8], until: Option<Instant>) -> (u64, u64) {
    let changed = edits(&lines(old), &lines(new), until).into_iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed.fold((0, 0), |(added, removed), op| (added + op.new_range().len() as u64, removed + op.old_range().len() as u64))
}

/// The unified diff of two contents with their paths; `None` for a file that is not there. Empty where the lines are equal.
pub fn unified(old: Option<(&[u8], &[u8])>, new: Option<(&[u8], &[u8])>, context_lines: usize) -> Vec<u8> {
    unified_until(old, new, context_lines, None)
}

fn unified_until(
    old: Option<(&[u8], &[u8])>,
    new: Option<(&[u8], &[u8])>,
    context_lines: usize,
    until: Option<Instant>,
) -> Vec<u8> {
    let (old_lines, new_lines) = (lines(old.map_or(&[], |old| old.1)), lines(new.map_or(&[], |new| new.1)));
    let ops = edits(&old_lines, &new_lines, until);
    if ops.iter().all(|op| matches!(op, DiffOp::Equal { .. })) {
        return Vec::new();
    }
    let mut out = Vec::new();
    put_header(&mut out, "---", "a/", old.map(|old| old.0));
    put_header(&mut out, "+++", "b/", new.map(|new| new.0));
    for hunk in group_diff_ops(ops, context_lines.min(CONTEXT_LINES_MAX)) {
        put_hunk(&mut out, &hunk, &old_lines, &new_lines);
    }
    out
}

fn put_hunk(out: &mut Vec<u8>, hunk: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) {
    if hunk.is_empty() {
        return;
    }
    put_text(out, &format!("{}\n", UnifiedHunkHeader::new(hunk)));
    for op in hunk {
        if let DiffOp::Equal { .. } = op {
            old[op.old_range()].iter().for_each(|line| put_line(out, b' ', line));
        } else {
            old[op.old_range()].iter().for_each(|line| put_line(out, b'-', line));
            new[op.new_range()].iter().for_each(|line| put_line(out, b'+', line));
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn put_line(out: &mut Vec<u8>, sign: u8, line: &[u8]) {
    out.push(sign);
    out.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        put_text(out, "\n\\ No newline at end of file\n");
    }
}

/// A line that names a file. Names that would break the line, or a terminal, are quoted as git does it.
fn put_header(out: &mut Vec<u8>, sign: &str, prefix: &str, path: Option<&[u8]>) {
    put_text(out, sign);
    out.push(b' ');
    let Some(path) = path else { return put_text(out, "/dev/null\n") };
    if path.iter().any(|&b| b < b' ' || b == 0x7f || b == b'"' || b == b'\\') {
        put_text(out, "\"");
        put_text(out, prefix);
        path.iter().for_each(|&b| put_quoted(out, b));
        put_text(out, "\"\n");
        return;
    }
    put_text(out, prefix);
    out.extend_from_slice(path);
    // Behind a name with a space, a tab tells patch where the name ends.
    put_text(out, if path.contains(&b' ') { "\t\n" } else { "\n" });
}

fn put_quoted(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\n' => put_text(out, "\\n"),
        b'\t' => put_text(out, "\\t"),
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b if b < b' ' || b == 0x7f => put_text(out, &format!("\\{b:03o}")),
        b => out.push(b),
    }
}
