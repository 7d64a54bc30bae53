//! The entries of a folder as it is now that differ from a checkpoint, and changes as they are shown.

pub mod files;

use std::path::PathBuf;

use parhelia_oversight::scan::LeftOut;
use parhelia_screen::human;
use parhelia_store::{
    Store,
    create::{self, Options},
    diff::{ChangeKind, DiffOptions, Fields, Side, Summary, TreeChange, compare},
    omitted::{Omission, Reason},
    progress::Progress,
    record::Checkpoint,
    tree::Totals,
};
use parhelia_wire::Line;

use crate::{
    context::Context,
    exit::{Failure, Result},
    output::{Output, Style},
};

/// A folder as it is now, beside a checkpoint.
pub struct Live {
    /// The captured entries, in numbers.
    pub totals: Totals,
    /// The differences from the checkpoint; none where there is no checkpoint.
    pub changes: Vec<TreeChange>,
    /// The entries that are left out.
    pub omissions: Vec<Omission>,
}

/// Looks at a folder by the rules of `options`, and compares it with a checkpoint.
pub fn look(store: &Store, options: &Options, old: Option<&Checkpoint>, progress: &dyn Progress) -> Result<Live> {
    let (node, trees, omissions) = create::look(store, options, progress)?;
    let changes = match old {
        None => Vec::new(),
        Some(old) => {
            let left_out = LeftOut::of(store.omissions(old)?, omissions.clone());
            let old = store.workspace_node(old)?;
            let new = Side::new(&trees, &node).with_omissions(&omissions);
            let mut changes = compare(Side::new(store, &old), new, DiffOptions::default())?;
            changes.retain(|change| !left_out.is(change));
            changes
        }
    };
    let totals = node.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    Ok(Live { totals, changes, omissions })
}

/// Looks at a folder by the rules of a checkpoint, and compares it with that.
pub fn since(store: &Store, old: &Checkpoint, workspace: PathBuf, thorough: bool, progress: &dyn Progress) -> Result<Live> {
    if old.record.rules.listed_only {
        let id = old.id();
        return Err(Failure::Usage(format!("checkpoint {id} holds listed paths alone; compare it with another checkpoint")));
    }
    let options = Options { workspace, rules: old.record.rules.clone(), thorough, ..Options::default() };
    look(store, &options, Some(old), progress)
}

/// Keeps the entries that could not be read: nobody knows whether they differ.
pub fn unread(omissions: Vec<Omission>) -> Vec<Omission> {
    omissions.into_iter().filter(|omission| matches!(omission.reason, Reason::Unreadable(_))).collect()
}

/// Names entries that could not be read and are not compared.
pub fn tell_unread(context: &mut Context, unread: &[Omission]) -> Result<()> {
    for omission in unread {
        context.out.object(Line::Omission(omission.into()))?;
        tell!("parhelia: {}", omission_text(omission));
    }
    Ok(())
}

/// The mark of a change, and how it stands out.
pub fn mark(kind: &ChangeKind) -> (char, Style) {
    let style = match kind {
        ChangeKind::Added => Style::Green,
        ChangeKind::Deleted => Style::Red,
        ChangeKind::Modified | ChangeKind::TypeChanged => Style::Yellow,
        ChangeKind::Metadata(_) => Style::Dim,
        ChangeKind::Renamed { .. } => Style::Cyan,
    };
    (kind.letter(), style)
}

/// The path of a change; of a folder with a slash, of what was renamed with both names.
pub fn shown_path(change: &TreeChange) -> String {
    let mut path = if change.path.is_empty() { ".".to_owned() } else { human::path(&change.path) };
    if change.new.as_ref().or(change.old.as_ref()).is_some_and(|node| node.as_folder().is_some()) {
        path.push('/');
    }
    match &change.kind {
        ChangeKind::Renamed { from } => format!("{} -> {path}", human::path(from)),
        _ => path,
    }
}

/// The numbers of changes that are not zero: `2 added, 1 modified`.
pub fn counts_text(summary: &Summary) -> String {
    let counts = [
        (summary.added, "added"),
        (summary.modified, "modified"),
        (summary.deleted, "deleted"),
        (summary.renamed, "renamed"),
        (summary.type_changed, "of another type"),
        (summary.metadata, "with other metadata"),
    ];
    let counts =
        counts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{} {what}", human::number(*number)));
    counts.collect::<Vec<_>>().join(", ")
}

/// The outcome of a comparison in a sentence.
pub fn outcome_text(changes: &[TreeChange], unread: &[Omission]) -> String {
    match (changes.is_empty(), unread.is_empty()) {
        (true, true) => "No difference.".into(),
        (true, false) => "No difference in what could be read.".into(),
        _ => counts_text(&Summary::of(changes)),
    }
}

/// So many changes of hard links alone are named without -v.
const LINKED_MAX: usize = 10;

/// The changes that are listed, and the number of those that are counted alone: where very many differ in nothing but the number of their
/// hard links, as in a git repository that was cloned from here, their paths say nothing.
pub fn listed(changes: &[TreeChange], lists_all: bool) -> (Vec<&TreeChange>, usize) {
    let is_link = |change: &&TreeChange| change.kind == ChangeKind::Metadata(Fields::LINKS);
    let links = changes.iter().filter(is_link).count();
    match lists_all || links <= LINKED_MAX {
        true => (changes.iter().collect(), 0),
        false => (changes.iter().filter(|change| !is_link(change)).collect(), links),
    }
}

/// A line about changes that [`listed`] only counts; none where there are none.
pub fn links_text(out: &Output, links: usize) -> Option<String> {
    let number = human::count(links as u64, "entry");
    (links > 0).then(|| format!("{} {number} (links; -v names them)", out.styled(Style::Dim, 'm')))
}

/// So many paths are named without -v.
const NAMED_MAX: usize = 20;

/// Prints changes, one a line; without -v the first of them.
pub fn print(context: &mut Context, changes: &[TreeChange]) -> Result<()> {
    let most = if context.global.verbose { usize::MAX } else { NAMED_MAX };
    let (changes, links) = listed(changes, context.out.json || context.global.verbose);
    let links = links_text(&context.out, links);
    for (i, change) in changes.iter().copied().enumerate() {
        if context.out.json {
            context.out.object(Line::Change(Box::new(change.into())))?;
        } else if i < most {
            let line = line(&context.out, change);
            context.out.paragraph(format!("  {line}"), 4)?;
        }
    }
    if let Some(more) = changes.len().checked_sub(most).filter(|more| *more > 0) {
        context.out.line(format!("  and {} more; -v names them", human::number(more as u64)))?;
    }
    links.map_or(Ok(()), |links| context.out.line(format!("  {links}")))
}

/// A change as a line.
pub fn line(out: &Output, change: &TreeChange) -> String {
    let (mark, style) = mark(&change.kind);
    let fields = match &change.kind {
        ChangeKind::Metadata(fields) => out.styled(Style::Dim, format!("  ({})", fields.names().collect::<Vec<_>>().join(", "))),
        _ => String::new(),
    };
    format!("{} {}{fields}", out.styled(style, mark), shown_path(change))
}

/// The entry that was left out and the reason, for people.
pub fn omission_text(omission: &Omission) -> String {
    let path = human::path(&omission.path);
    match &omission.reason {
        Reason::Excluded(rule) => format!("{path}: excluded ({rule})"),
        Reason::Unreadable(error) => format!("{path}: not read: {error}"),
        Reason::Changing => format!("{path}: kept changing; stored as it was read last"),
        Reason::Attributes(error) => format!("{path}: stored without some attributes: {error}"),
    }
}
