//! The entries of a folder as it is now that differ from a checkpoint, and changes as they are shown.

use std::path::PathBuf;

use parhelia_store::{
    Store,
    create::{self, Options},
    diff::{ChangeKind, DiffOptions, Side, Summary, TreeChange, compare},
    omitted::Omission,
    progress::Progress,
    record::Checkpoint,
    tree::Totals,
};
use parhelia_wire::Line;

use crate::{
    context::Context,
    exit::{Failure, Result},
    human,
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
            let old = store.workspace_node(old)?;
            compare(Side::new(store, &old), Side::new(&trees, &node), DiffOptions::default())?
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

/// The mark of a change, and how it stands out.
pub fn mark(kind: &ChangeKind) -> (char, Style) {
    match kind {
        ChangeKind::Added => ('A', Style::Green),
        ChangeKind::Deleted => ('D', Style::Red),
        ChangeKind::Modified => ('M', Style::Yellow),
        ChangeKind::Metadata(_) => ('m', Style::Dim),
        ChangeKind::TypeChanged => ('T', Style::Yellow),
        ChangeKind::Renamed { .. } => ('R', Style::Cyan),
    }
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

/// So many paths are named without -v.
const NAMED_MAX: usize = 20;

/// Prints changes, one a line; without -v the first of them.
pub fn print(context: &mut Context, changes: &[TreeChange]) -> Result<()> {
    let most = if context.global.verbose { usize::MAX } else { NAMED_MAX };
    for (i, change) in changes.iter().enumerate() {
        if context.out.json {
            context.out.object(Line::Change(Box::new(change.into())))?;
        } else if i < most {
            let line = line(&context.out, change);
            context.out.line(format!("  {line}"))?;
        }
    }
    match changes.len().checked_sub(most).filter(|more| *more > 0) {
        Some(more) => context.out.line(format!("  and {} more; -v names them", human::number(more as u64))),
        None => Ok(()),
    }
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
