//! The diff of one file between two checkpoints, as lines.

use parhelia_store::{
    Store,
    diff::{ChangeKind, Fields, Text, TextOptions, TreeChange, file_diff, line_counts, store_content},
    name,
    tree::{Kind, Node},
};

use crate::{
    human,
    state::{Counts, FileItem},
    text::{Line, Tone},
};

/// Longer files are not compared by line.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

fn options() -> TextOptions {
    TextOptions { bytes_max: FILE_BYTES_MAX, ..TextOptions::default() }
}

/// The changes that are listed, in their order: by path, but those of metadata alone behind those of content, and Git's own files last. Hard
/// links alone are no change.
pub fn listed(mut changes: Vec<TreeChange>) -> Vec<TreeChange> {
    changes.retain(|change| change.kind != ChangeKind::Metadata(Fields::LINKS));
    let is_gits = |change: &TreeChange| name::components(&change.path).any(|part| part == b".git");
    changes.sort_by_key(|change| (is_gits(change), matches!(change.kind, ChangeKind::Metadata(_))));
    changes
}

/// A change as an item of the list.
pub fn item(change: &TreeChange) -> FileItem {
    let letter = change.kind.letter();
    let mut path = if change.path.is_empty() { ".".to_owned() } else { name::display(&change.path) };
    if is_folder(change) {
        path.push('/');
    }
    if let ChangeKind::Renamed { from } = &change.kind {
        path = format!("{} -> {path}", name::display(from));
    }
    FileItem { letter, path, counts: None }
}

fn is_folder(change: &TreeChange) -> bool {
    change.new.as_ref().or(change.old.as_ref()).is_some_and(|node| node.as_folder().is_some())
}

/// The numbers of its lines.
pub fn counts(store: &Store, change: &TreeChange) -> Counts {
    let content = store_content(store);
    match line_counts(change, &content, &content, options()) {
        Ok(Text::Lines((added, removed))) => Counts::Lines(added, removed),
        Ok(Text::Binary) => Counts::Binary,
        Ok(Text::TooLarge) => Counts::TooLarge,
        Err(_) => Counts::Unreadable,
    }
}

/// Its diff.
pub fn lines(store: &Store, change: &TreeChange) -> Vec<Line> {
    let mut lines = facts(change);
    let content = store_content(store);
    let sizes = || {
        let size = |node: &Option<Node>| node.as_ref().map_or_else(|| "not there".into(), |node| human::size(node.size()));
        format!("{} before, {} now", size(&change.old), size(&change.new))
    };
    match file_diff(change, &content, &content, options()) {
        Ok(Text::Lines(text)) => lines.extend(unified(&text)),
        Ok(Text::Binary) => lines.push(note(&format!("Binary: {}.", sizes()))),
        Ok(Text::TooLarge) => {
            lines.push(note(&format!("Larger than {}: {}. Not compared by line.", human::size(FILE_BYTES_MAX), sizes())));
        }
        Err(error) => lines.push(Line::new("!", Tone::Bad, &format!("It cannot be read: {error}"))),
    }
    if lines.is_empty() {
        lines.push(note(if is_folder(change) { "A folder." } else { "Its lines are as they were." }));
    }
    lines
}

fn note(text: &str) -> Line {
    Line::new("", Tone::Dim, text)
}

/// A remark about a change, beside its lines.
fn facts(change: &TreeChange) -> Vec<Line> {
    let mut lines = Vec::new();
    if let ChangeKind::Renamed { from } = &change.kind {
        lines.push(note(&format!("Renamed from {}, with the same content.", name::display(from))));
    }
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return lines };
    if change.kind == ChangeKind::TypeChanged {
        lines.push(note(&format!("It was a {}, and is a {}.", old.kind.name(), new.kind.name())));
    }
    if old.meta.mode != new.meta.mode {
        lines.push(note(&format!("Mode {:04o} before, {:04o} now.", old.meta.mode & 0o7777, new.meta.mode & 0o7777)));
    }
    if (old.meta.uid, old.meta.gid) != (new.meta.uid, new.meta.gid) {
        let owner = |node: &Node| format!("{}:{}", node.meta.uid, node.meta.gid);
        lines.push(note(&format!("Owner {} before, {} now.", owner(old), owner(new))));
    }
    let others = [(Fields::MTIME, "time"), (Fields::XATTRS, "extended attributes"), (Fields::HOLES, "holes")];
    let others = others.into_iter().filter(|(field, _)| change.fields().contains(*field) && !is_content(change));
    let others: Vec<&str> = others.map(|(_, name)| name).collect();
    if !others.is_empty() {
        lines.push(note(&format!("Other {}.", others.join(", "))));
    }
    if let (Kind::Symlink { .. }, Kind::Symlink { .. }) = (&old.kind, &new.kind) {
        lines.push(note("A symbolic link; this is its target."));
    }
    lines
}

/// True if its content changed: that its time did is nothing to tell then.
fn is_content(change: &TreeChange) -> bool {
    change.kind == ChangeKind::Modified && change.fields() == Fields::MTIME
}

/// The lines of a unified diff.
pub fn unified(text: &[u8]) -> Vec<Line> {
    let text = String::from_utf8_lossy(text);
    let mut lines = Vec::new();
    let mut is_header = true;
    for line in text.split_terminator('\n') {
        let rest = line.get(1..).unwrap_or_default();
        is_header &= !line.starts_with("@@");
        lines.push(match line.as_bytes().first() {
            _ if is_header => Line::new("", Tone::Heading, line),
            Some(b'@') => Line::new("", Tone::Hunk, line),
            Some(b'+') => Line::new("+", Tone::Added, rest),
            Some(b'-') => Line::new("-", Tone::Removed, rest),
            Some(b' ') => Line::new("", Tone::Plain, rest),
            _ => Line::new("", Tone::Dim, line),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_listed_before_metadata_and_gits_own_files_last() {
        let change = |path: &str, kind| TreeChange { path: path.into(), kind, old: None, new: None };
        let touched = || ChangeKind::Metadata(Fields::MTIME);
        let all = vec![
            change(".git/index", ChangeKind::Modified),
            change("a", touched()),
            change("b", ChangeKind::Added),
            change("c", ChangeKind::Metadata(Fields::LINKS)),
            change("sub/.git/HEAD", touched()),
            change("z", ChangeKind::Deleted),
        ];
        let paths: Vec<String> = listed(all).iter().map(|change| item(change).path).collect();
        assert_eq!(paths, ["b", "z", "a", ".git/index", "sub/.git/HEAD"]);
    }

    #[test]
    fn a_unified_diff_is_told_apart_line_by_line() {
        let text = b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n same\n--- gone\n+++ came \x1b[31m\xff\n\\ No newline at end of file\n";
        let lines = unified(text);
        let shown: Vec<_> = lines.iter().map(|line| (line.sign, line.tone, line.text.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("", Tone::Heading, "--- a/x"),
                ("", Tone::Heading, "+++ b/x"),
                ("", Tone::Hunk, "@@ -1,3 +1,3 @@"),
                ("", Tone::Plain, "same"),
                ("-", Tone::Removed, "-- gone"),
                ("+", Tone::Added, "++ came \\x1b[31m\u{fffd}"),
                ("", Tone::Dim, "\\ No newline at end of file"),
            ]
        );
    }
}
