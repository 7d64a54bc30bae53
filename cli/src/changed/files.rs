//! The files of a comparison: their changes, line counts and line differences.

#![expect(clippy::disallowed_methods, reason = "reads a file of the workspace")]

use parhelia_store::name::NameExt as _;
use std::{fs::File, io::Read, os::unix::fs::OpenOptionsExt, path::Path};

use parhelia_screen::human;
use parhelia_store::{
    Error, Store,
    diff::{ChangeKind, Summary, Text, TextOptions, TreeChange, file_diff, line_counts, store_content},
    name,
    record::Checkpoint,
    tree::{Kind, Node},
};
use parhelia_wire::{self as wire, Line, diff::Change};

use super::{self as changed, mark, shown_path};
use crate::{
    exit::{Code, Failure, Result},
    layout::columns_of,
    output::{Output, Style},
};

/// In a report, lines are counted of so many files at most.
const COUNTED_MAX: usize = 1000;
/// ... and line counts stand behind the longest path up to this many characters.
const PATH_WIDTH_MAX: usize = 60;

/// Reads the content of one side.
pub type ReadSide<'a> = Box<dyn Fn(&[u8], &Node) -> Result<Vec<u8>, Error> + 'a>;

/// The changes between two sides, as they are printed.
pub struct Comparison<'a> {
    /// The store of the older side.
    pub store: &'a Store,
    /// The changes, by path.
    pub changes: Vec<TreeChange>,
    /// Reads a file of the newer side.
    pub read_new: ReadSide<'a>,
    /// True to list every change.
    pub lists_all: bool,
}

impl Comparison<'_> {
    /// A line for each change, with the numbers of its lines on request; or its path alone.
    pub fn print(&self, out: &mut Output, counts_lines: bool, names_only: bool) -> Result<()> {
        let read_old = store_content(self.store);
        let (listed, links) = changed::listed(&self.changes, self.lists_all || out.json || names_only);
        for change in listed {
            let lines = match counts_lines {
                true => Some(line_counts(change, &read_old, &self.read_new, TextOptions::default())?),
                false => None,
            };
            if out.json {
                let shown = Change::from(change);
                let shown = lines.as_ref().map(|lines| shown.clone().with_lines(lines)).unwrap_or(shown);
                out.object(Line::Change(Box::new(shown)))?;
                continue;
            }
            if names_only {
                out.line(shown_path(change))?;
                continue;
            }
            let mut line = changed::line(out, change);
            if let Some(lines) = &lines {
                line = match lines {
                    Text::Lines((added, removed)) => {
                        let (added, removed) = (format!("{:>7}", format!("+{added}")), format!("{:>7}", format!("-{removed}")));
                        format!("{} {} {line}", out.styled(Style::Green, added), out.styled(Style::Red, removed))
                    }
                    Text::Binary => format!("{:>15} {line}", "binary"),
                    Text::TooLarge => format!("{:>15} {line}", "too large"),
                };
            }
            out.line(line)?;
        }
        changed::links_text(out, links).map_or(Ok(()), |links| out.line(links))
    }

    /// Files with line counts, as a report shows them. Of very many the lines are not counted.
    pub fn print_files(&self, out: &mut Output) -> Result<()> {
        if out.json {
            return self.changes.iter().try_for_each(|change| out.object(Line::Change(Box::new(change.into()))));
        }
        if self.changes.is_empty() {
            return out.line("  No changes");
        }
        let counts = self.changes.len() <= COUNTED_MAX;
        let (listed, links) = changed::listed(&self.changes, self.lists_all);
        let paths: Vec<String> = listed.iter().map(|change| shown_path(change)).collect();
        let width = paths.iter().map(|path| columns_of(path)).max().unwrap_or(0).min(PATH_WIDTH_MAX);
        let read_old = store_content(self.store);
        for (change, path) in listed.into_iter().zip(paths) {
            let lines = match counts {
                true => Some(line_counts(change, &read_old, &self.read_new, TextOptions::default())?),
                false => None,
            };
            let (mark, style) = mark(&change.kind);
            let fill = " ".repeat(width.saturating_sub(columns_of(&path)));
            let behind = match (&change.kind, lines) {
                (ChangeKind::Metadata(fields), _) => format!("({})", fields.names().collect::<Vec<_>>().join(", ")),
                (_, Some(Text::Lines((0, 0)))) | (_, None) => String::new(),
                (_, Some(Text::Lines((added, removed)))) => {
                    let (added, removed) = (format!("+{added:<5}"), format!("-{removed}"));
                    format!("{} {}", out.styled(Style::Green, added), out.styled(Style::Red, removed))
                }
                (_, Some(Text::Binary)) => "binary".to_owned(),
                (_, Some(Text::TooLarge)) => "too large to be compared by line".to_owned(),
            };
            out.line(format!("  {} {path}{fill}  {behind}", out.styled(style, mark)).trim_end())?;
        }
        if let Some(links) = changed::links_text(out, links) {
            out.line(format!("  {links}"))?;
        }
        out.line(format!("  {}", changed::counts_text(&Summary::of(&self.changes))))?;
        if !counts {
            out.line(format!("  ({}; --stat counts their lines)", human::count(self.changes.len() as u64, "change")))?;
        }
        Ok(())
    }

    /// Prints how the lines of one file differ.
    pub fn print_file(&self, out: &mut Output, wanted: &[u8], sides: (&Checkpoint, Option<&Checkpoint>)) -> Result<Code> {
        let path = human::path(wanted);
        let change = self.changes.iter().find(|c| c.path == wanted || c.old_path() == wanted);
        let Some(change) = change else {
            self.ensure_file(wanted, sides)?;
            out.remark(format!("{path}: no difference."))?;
            out.summary(wire::Summary::CheckpointDiffFile { path, change: None })?;
            return Ok(Code::Done);
        };
        let difference = file_diff(change, &store_content(self.store), &self.read_new, TextOptions::default())?;
        let note = match &difference {
            Text::Lines(lines) if lines.is_empty() => Some(format!("{}: {}", shown_path(change), change.kind.name())),
            Text::Lines(_) => None,
            Text::Binary => Some(format!("{path}: {}, binary", change.kind.name())),
            Text::TooLarge => Some(format!("{path}: {}, and too large to be compared by line", change.kind.name())),
        };
        if let Some(note) = note {
            out.line(note)?;
        }
        if out.json {
            let difference = difference.map(|lines| String::from_utf8_lossy(&lines).into_owned());
            out.object(Line::Change(Box::new(Change::from(change).with_diff(difference))))?;
            let change = Some(change.kind.name().to_owned());
            out.summary(wire::Summary::CheckpointDiffFile { path, change })?;
            return Ok(Code::Done);
        }
        if let Text::Lines(lines) = difference {
            print_unified(out, &lines)?;
        }
        Ok(Code::Done)
    }

    /// Fails where a path that has not changed is no file of either side.
    fn ensure_file(&self, path: &[u8], (old, new): (&Checkpoint, Option<&Checkpoint>)) -> Result<()> {
        let shown = human::path(path);
        match self.store.node_at(old, path) {
            Ok(node) if node.as_folder().is_some() => Err(Failure::Usage(format!(
                "{shown} is a folder; --file compares one file, and --name-only lists what has changed in folders"
            ))),
            Ok(_) => Ok(()),
            // What one side alone has is a change.
            Err(Error::NoSuchPath { .. }) => {
                let new = new.map_or_else(|| "what is captured of the folder".into(), Checkpoint::id);
                Err(Failure::NotFound(format!("{shown}: neither in checkpoint {} nor in {new}", old.id())))
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// A terminal gets it with escapes; what reads it from a pipe may want to apply it, and gets every byte.
fn print_unified(out: &mut Output, text: &[u8]) -> Result<()> {
    if !out.is_terminal() {
        return out.bytes(text);
    }
    for line in String::from_utf8_lossy(text).lines() {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("+++ ") || line.starts_with("--- ") => Some(Style::Bold),
            Some(b'+') => Some(Style::Green),
            Some(b'-') => Some(Style::Red),
            Some(b'@') => Some(Style::Cyan),
            _ => None,
        };
        match style {
            Some(style) => out.line(out.styled(style, line))?,
            None => out.line(line)?,
        }
    }
    Ok(())
}

/// A file's content as it is now. Never through a symlink, and no more than is compared.
pub fn read_live(workspace: &Path, path: &[u8], node: &Node) -> Result<Vec<u8>, Error> {
    let path = workspace.join(name::as_path(path));
    let failed = |source| Error::Io { action: "read", path: path.clone(), source };
    let Kind::File { .. } = node.kind else {
        return Err(Error::Invalid(format!("{} is no file", path.shown())));
    };
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(&path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(TextOptions::default().bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
