//! `checkpoint diff`: two checkpoints, or a checkpoint and a folder as it is now.

mod conversation;
mod report;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_ledger::LedgerView as _;
use parhelia_life::overwrite::workspace_of;
use parhelia_oversight::scan::LeftOut;
use parhelia_screen::human;
use parhelia_store::{
    Error, Store,
    diff::{DiffOptions, Side, Summary, compare, store_content},
    name,
    omitted::Omission,
    pin::Pin,
    record::Checkpoint,
    tree::Node,
};
use parhelia_wire::{self as wire, Line};

use self::report::{DiffReport, MarkedCheckpoint};
use crate::{
    changed::{
        self,
        files::{self, Comparison},
    },
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    workspace::workspace,
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
    file: Option<OsString>,
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

/// The newer side, found: its changes against the older one, and the way to read its files.
struct DiffTarget<'a> {
    comparison: Comparison<'a>,
    checkpoint: Option<Checkpoint>,
    folder: Option<String>,
    /// Entries of the newer side that could not be read.
    unread: Vec<Omission>,
    /// Keeps the checkpoint from being deleted meanwhile.
    _pin: Option<Pin>,
}

impl DiffTarget<'_> {
    /// The path that is meant by an argument: its bytes, or, where nothing is there, the path that is shown so.
    fn wanted(&self, old: &Checkpoint, argument: &OsStr) -> Vec<u8> {
        let joined = |path: &[u8]| name::components(path).collect::<Vec<_>>().join(&b'/');
        let Comparison { store, changes, .. } = &self.comparison;
        let is_known = |path: &[u8]| {
            changes.iter().any(|change| change.path == path || change.old_path() == path) || store.node_at(old, path).is_ok()
        };
        let typed = joined(argument.as_bytes());
        let shown = argument.to_str().map(|text| joined(&name::parse(text))).filter(|shown| *shown != typed);
        shown.filter(|shown| !is_known(&typed) && is_known(shown)).unwrap_or(typed)
    }
}

/// Compares and prints.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (old, _old_pin) = context.pinned(&store, &args.old, "diff").map_err(|failure| of_a_file(&args.old, failure))?;
    let new = args.newer(&store, &old)?;
    if args.conversation {
        let Newer::Checkpoint(selector) = &new else {
            return Err(Failure::Usage("--conversation compares two checkpoints; a folder has no conversation".into()));
        };
        let (new, _new_pin) = context.pinned(&store, selector, "diff")?;
        context.out.page()?;
        return conversation::print(context, &store, &old, &new);
    }
    let compared = compared(context, &store, &old, new, args.thorough)?;
    match &args.file {
        Some(path) => one_file(context, &compared, &old, path),
        None => all(context, args, &store, old, compared),
    }
}

/// The failure where a file is given in place of a checkpoint.
fn of_a_file(selector: &str, failure: Failure) -> Failure {
    let is_none = matches!(failure, Failure::Store(Error::NoCheckpoint { .. } | Error::Invalid(_)));
    match is_none && Path::new(selector).symlink_metadata().is_ok() {
        true => Failure::NotFound(format!(
            "no checkpoint matches '{selector}', which is a path here; `parhelia diff --file {}` compares one file with the newest checkpoint",
            human::shell(selector.as_bytes())
        )),
        false => failure,
    }
}

/// Prints how the lines of one file differ.
fn one_file(context: &mut Context, compared: &DiffTarget<'_>, old: &Checkpoint, path: &OsStr) -> Result<Code> {
    let wanted = compared.wanted(old, path);
    let is_in = |omission: &Omission| name::as_path(&wanted).starts_with(name::as_path(&omission.path));
    let unread: Vec<Omission> = compared.unread.iter().filter(|omission| is_in(omission)).cloned().collect();
    changed::tell_unread(context, &unread)?;
    if unread.is_empty() {
        context.out.page()?;
        return compared.comparison.print_file(&mut context.out, &wanted, (old, compared.checkpoint.as_ref()));
    }
    context.out.summary(wire::Summary::CheckpointDiffFile { path: human::path(&wanted), change: None })?;
    Ok(Code::Partly)
}

/// Prints all that differs.
fn all(context: &mut Context, args: &Args, store: &Store, old: Checkpoint, compared: DiffTarget<'_>) -> Result<Code> {
    let DiffTarget { comparison, checkpoint, folder, unread, _pin } = compared;
    changed::tell_unread(context, &unread)?;
    context.out.page()?;
    let new_id = checkpoint.as_ref().map(Checkpoint::id);
    let told = |checkpoint: Checkpoint| -> Result<MarkedCheckpoint> {
        Ok(MarkedCheckpoint { marks: store.view().marks(checkpoint.record.id)?, checkpoint })
    };
    let (old_id, old, new) = (old.id(), told(old)?, checkpoint.map(told).transpose()?);
    match new.filter(|_| !args.stat && !args.name_only) {
        Some(new) => {
            let report = DiffReport::new(store, &old, &new);
            context.out.object(Line::Comparison(Box::new(report.for_programs())))?;
            report.print_before(&mut context.out)?;
            comparison.print_files(&mut context.out)?;
            report.print_after(&mut context.out)?;
        }
        None => {
            comparison.print(&mut context.out, args.stat, args.name_only)?;
            if !args.name_only {
                context.out.remark(changed::outcome_text(&comparison.changes, &unread))?;
                if let Some(folder) = folder.as_ref().filter(|_| args.workspace.is_none()) {
                    context.out.remark(format!("Compared checkpoint {old_id} with {folder} as it is now."))?;
                }
            }
        }
    }
    let changes = Summary::of(&comparison.changes);
    context.out.summary(wire::Summary::CheckpointDiff(wire::summary::Diff {
        old: old_id,
        new: new_id,
        workspace: folder,
        changes,
    }))?;
    Ok(if unread.is_empty() { Code::Done } else { Code::Partly })
}

fn compared<'a>(
    context: &mut Context,
    store: &'a Store,
    old: &Checkpoint,
    new: Newer,
    is_thorough: bool,
) -> Result<DiffTarget<'a>> {
    let lists_all = context.global.verbose;
    match new {
        Newer::Folder(workspace) => {
            let folder = Some(human::path(workspace.as_os_str().as_bytes()));
            let live = changed::since(store, old, workspace.clone(), is_thorough, &context.progress())?;
            let read_new = Box::new(move |path: &[u8], node: &Node| files::read_live(&workspace, path, node));
            let comparison = Comparison { store, changes: live.changes, read_new, lists_all };
            let unread = changed::unread(live.omissions);
            Ok(DiffTarget { comparison, checkpoint: None, folder, unread, _pin: None })
        }
        Newer::Checkpoint(_) if is_thorough => {
            Err(Failure::Usage("--thorough reads the files of a folder; two checkpoints are compared without them".into()))
        }
        Newer::Checkpoint(selector) => {
            let (new, _pin) = context.pinned(store, &selector, "diff")?;
            let (old_node, node) = (store.workspace_node(old)?, store.workspace_node(&new)?);
            let omissions = store.omissions(&new)?;
            let side = Side::new(store, &node).with_omissions(&omissions);
            let mut changes = compare(Side::new(store, &old_node), side, DiffOptions::default())?;
            let left_out = LeftOut::of(store.omissions(old)?, omissions.clone());
            changes.retain(|change| !left_out.is(change));
            let comparison = Comparison { store, changes, read_new: Box::new(store_content(store)), lists_all };
            Ok(DiffTarget { comparison, checkpoint: Some(new), folder: None, unread: changed::unread(omissions), _pin })
        }
    }
}
