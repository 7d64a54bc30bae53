//! `checkpoint diff`: two checkpoints, or a checkpoint and a folder as it is now.

mod conversation;
mod report;

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use parhelia_session::overwrite::workspace_of;
use parhelia_store::{
    Error, Store,
    diff::{
        ChangeKind, DiffOptions, Side, Summary, Text, TextOptions, TreeChange, compare, file_diff, line_counts, store_content,
    },
    name,
    record::Checkpoint,
    tree::{Kind, Node},
};
use parhelia_wire::{self as wire, Line, diff::Change};

use self::report::{DiffReport, Told};
use super::{
    changed::{self, mark, shown_path},
    folder::workspace,
};
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    human,
    output::{Output, Style},
};

/// Flags of `checkpoint diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The older side
    #[arg(value_name = "CHECKPOINT", default_value = "latest", add = complete::checkpoints())]
    old: String,
    /// The newer side; a path with a slash in it, or `.`, is a folder [default: the folder of the checkpoint's session as it is now]
    #[arg(value_name = "CHECKPOINT|DIR", conflicts_with = "workspace", add = complete::checkpoints())]
    new: Option<OsString>,
    /// Compare with a folder as it is now, by the exclude rules of the checkpoint
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Of a folder, read every file, also those whose times say that they did not change
    #[arg(long)]
    thorough: bool,
    /// Show how the lines of one file differ
    #[arg(long, value_name = "PATH", conflicts_with_all = ["stat", "name_only"])]
    file: Option<String>,
    /// Show what was said between the two
    #[arg(long, conflicts_with_all = ["stat", "name_only", "file", "workspace", "thorough"])]
    conversation: bool,
    /// Files alone, with the lines that were added and removed
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Print paths alone
    #[arg(long)]
    name_only: bool,
}

/// In a report, lines are counted of so many files at most.
const COUNTED_MAX: usize = 1000;
/// ... and line counts stand behind the longest path up to this many characters.
const PATH_WIDTH_MAX: usize = 60;

/// Reads the content of one side.
type ReadSide<'a> = Box<dyn Fn(&[u8], &Node) -> Result<Vec<u8>, Error> + 'a>;

/// The newer side of a comparison.
enum Newer {
    Checkpoint(String),
    Folder(PathBuf),
}

impl Args {
    fn newer(&self, store: &Store, old: &Checkpoint) -> Result<Newer> {
        if let Some(folder) = &self.workspace {
            return Ok(Newer::Folder(workspace(folder)?));
        }
        let Some(new) = &self.new else {
            let folder = workspace_of(store, old)?;
            let missing = |_| {
                let folder = human::path(folder.as_os_str().as_bytes());
                Failure::NotFound(format!(
                    "{folder}, the folder of checkpoint {}, is not there; give another checkpoint, or --workspace DIR",
                    old.id()
                ))
            };
            return workspace(&folder).map(Newer::Folder).map_err(missing);
        };
        let is_path = matches!(new.as_bytes(), b"." | b"..") || new.as_bytes().contains(&b'/');
        match new.to_str().filter(|_| !is_path) {
            Some(selector) => Ok(Newer::Checkpoint(selector.to_owned())),
            None => Ok(Newer::Folder(workspace(Path::new(new))?)),
        }
    }
}

/// Compares and prints.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (old, _old_pin) = context.pinned(&store, &args.old, "diff")?;
    let new = args.newer(&store, &old)?;
    let progress = context.progress();
    let mut _new_pin = None;
    let (mut newer, mut folder) = (None, None);
    let (changes, read_new): (Vec<TreeChange>, ReadSide<'_>) = match new {
        Newer::Folder(_) if args.conversation => {
            return Err(Failure::Usage("--conversation compares two checkpoints; a folder has no conversation".into()));
        }
        Newer::Folder(workspace) => {
            folder = Some(human::path(workspace.as_os_str().as_bytes()));
            let live = changed::since(&store, &old, workspace.clone(), args.thorough, &progress)?;
            (live.changes, Box::new(move |path, node| read_live(&workspace, path, node)))
        }
        Newer::Checkpoint(_) if args.thorough => {
            return Err(Failure::Usage(
                "--thorough reads the files of a folder; two checkpoints are compared without them".into(),
            ));
        }
        Newer::Checkpoint(selector) => {
            let (new, pin) = context.pinned(&store, &selector, "diff")?;
            _new_pin = pin;
            if args.conversation {
                drop(progress);
                context.out.page()?;
                return conversation::print(context, &store, &old, &new);
            }
            let (old_node, node) = (store.workspace_node(&old)?, store.workspace_node(&new)?);
            newer = Some(new);
            let changes = compare(Side::new(&store, &old_node), Side::new(&store, &node), DiffOptions::default())?;
            (changes, Box::new(store_content(&store)))
        }
    };
    let new_id = newer.as_ref().map(Checkpoint::id);
    drop(progress);
    context.out.page()?;
    let comparison = Comparison { store: &store, changes, read_new };
    if let Some(path) = &args.file {
        return comparison.print_file(&mut context.out, path, (&old, newer.as_ref()));
    }
    let told =
        |checkpoint: Checkpoint| -> Result<Told> { Ok(Told { marks: store.view().marks(checkpoint.record.id)?, checkpoint }) };
    let (old_id, old, new) = (old.id(), told(old)?, newer.map(told).transpose()?);
    let report = new.as_ref().filter(|_| !args.stat && !args.name_only).map(|new| DiffReport::new(&store, &old, new));
    match &report {
        Some(report) => {
            context.out.object(Line::Comparison(Box::new(report.for_programs())))?;
            report.print_before(&mut context.out)?;
            comparison.print_files(&mut context.out)?;
            report.print_after(&mut context.out)?;
        }
        None => comparison.print(&mut context.out, args)?,
    }
    let summary = Summary::of(&comparison.changes);
    if !args.name_only && report.is_none() {
        let text = format!(
            "{} added, {} deleted, {} modified, {} renamed, {} of another type, {} with other metadata",
            summary.added, summary.deleted, summary.modified, summary.renamed, summary.type_changed, summary.metadata
        );
        context.out.remark(if comparison.changes.is_empty() { "No difference.".to_owned() } else { text })?;
        if let Some(folder) = folder.as_ref().filter(|_| args.workspace.is_none()) {
            context.out.remark(format!("Compared checkpoint {old_id} with {folder} as it is now."))?;
        }
    }
    let changes = (&summary).into();
    context.out.summary(wire::Summary::CheckpointDiff(wire::summary::Diff {
        old: old_id,
        new: new_id,
        workspace: folder,
        changes,
    }))?;
    Ok(Code::Done)
}

struct Comparison<'a> {
    store: &'a Store,
    changes: Vec<TreeChange>,
    read_new: ReadSide<'a>,
}

impl Comparison<'_> {
    fn print(&self, out: &mut Output, args: &Args) -> Result<()> {
        let read_old = store_content(self.store);
        for change in &self.changes {
            let lines = match args.stat {
                true => Some(line_counts(change, &read_old, &self.read_new, TextOptions::default())?),
                false => None,
            };
            if out.json {
                let shown = Change::from(change);
                let shown = lines.as_ref().map(|lines| shown.clone().with_lines(lines)).unwrap_or(shown);
                out.object(Line::Change(Box::new(shown)))?;
                continue;
            }
            if args.name_only {
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
        Ok(())
    }

    /// Files with line counts, as a report shows them. Of very many the lines are not counted.
    fn print_files(&self, out: &mut Output) -> Result<()> {
        if out.json {
            return self.changes.iter().try_for_each(|change| out.object(Line::Change(Box::new(change.into()))));
        }
        if self.changes.is_empty() {
            return out.line("  No changes");
        }
        let counts = self.changes.len() <= COUNTED_MAX;
        let paths: Vec<String> = self.changes.iter().map(shown_path).collect();
        let width = paths.iter().map(|path| path.chars().count()).max().unwrap_or(0).min(PATH_WIDTH_MAX);
        let read_old = store_content(self.store);
        for (change, path) in self.changes.iter().zip(paths) {
            let lines = match counts {
                true => Some(line_counts(change, &read_old, &self.read_new, TextOptions::default())?),
                false => None,
            };
            let (mark, style) = mark(&change.kind);
            let fill = " ".repeat(width.saturating_sub(path.chars().count()));
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
        if !counts {
            out.line(format!("  ({}; --stat counts their lines)", human::count(self.changes.len() as u64, "change")))?;
        }
        Ok(())
    }

    /// Prints the difference of one file, by line where it is text.
    fn print_file(&self, out: &mut Output, path: &str, sides: (&Checkpoint, Option<&Checkpoint>)) -> Result<Code> {
        let wanted: Vec<u8> = name::components(path.as_bytes()).collect::<Vec<_>>().join(&b'/');
        let change = self.changes.iter().find(|c| c.path == wanted || c.old_path() == wanted);
        let Some(change) = change else {
            self.ensure_file(&wanted, sides)?;
            out.remark(format!("{path}: no difference."))?;
            out.summary(wire::Summary::CheckpointDiffFile { path: human::path(&wanted), change: None })?;
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
            out.summary(wire::Summary::CheckpointDiffFile { path: human::path(&wanted), change })?;
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
fn read_live(workspace: &Path, path: &[u8], node: &Node) -> Result<Vec<u8>, Error> {
    let path = workspace.join(name::as_path(path));
    let failed = |source| Error::Io { action: "read", path: path.clone(), source };
    let Kind::File { .. } = node.kind else {
        return Err(Error::Invalid(format!("{} is no file", path.display())));
    };
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(&path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(TextOptions::default().bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
