//! `checkpoint diff`: two checkpoints, or a checkpoint and a folder as it is now.

mod conversation;
mod files;
mod report;

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_session::overwrite::workspace_of;
use parhelia_store::{
    Store,
    diff::{DiffOptions, Side, Summary, TreeChange, compare, store_content},
    pin::Pin,
    record::Checkpoint,
    tree::Node,
};
use parhelia_wire::{self as wire, Line};

use self::{
    files::Comparison,
    report::{DiffReport, Told},
};
use super::{
    changed::{self},
    folder::workspace,
};
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    human,
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
struct Compared<'a> {
    comparison: Comparison<'a>,
    checkpoint: Option<Checkpoint>,
    folder: Option<String>,
    /// Keeps the checkpoint from being deleted meanwhile.
    _pin: Option<Pin>,
}

/// Compares and prints.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (old, _old_pin) = context.pinned(&store, &args.old, "diff")?;
    let new = args.newer(&store, &old)?;
    if args.conversation {
        let Newer::Checkpoint(selector) = &new else {
            return Err(Failure::Usage("--conversation compares two checkpoints; a folder has no conversation".into()));
        };
        let (new, _new_pin) = context.pinned(&store, selector, "diff")?;
        context.out.page()?;
        return conversation::print(context, &store, &old, &new);
    }
    let Compared { comparison, checkpoint, folder, _pin } = compared(context, &store, &old, new, args.thorough)?;
    context.out.page()?;
    if let Some(path) = &args.file {
        return comparison.print_file(&mut context.out, path, (&old, checkpoint.as_ref()));
    }
    let new_id = checkpoint.as_ref().map(Checkpoint::id);
    let told =
        |checkpoint: Checkpoint| -> Result<Told> { Ok(Told { marks: store.view().marks(checkpoint.record.id)?, checkpoint }) };
    let (old_id, old, new) = (old.id(), told(old)?, checkpoint.map(told).transpose()?);
    match new.filter(|_| !args.stat && !args.name_only) {
        Some(new) => {
            let report = DiffReport::new(&store, &old, &new);
            context.out.object(Line::Comparison(Box::new(report.for_programs())))?;
            report.print_before(&mut context.out)?;
            comparison.print_files(&mut context.out)?;
            report.print_after(&mut context.out)?;
        }
        None => {
            comparison.print(&mut context.out, args.stat, args.name_only)?;
            if !args.name_only {
                context.out.remark(counts_text(&comparison.changes))?;
                if let Some(folder) = folder.as_ref().filter(|_| args.workspace.is_none()) {
                    context.out.remark(format!("Compared checkpoint {old_id} with {folder} as it is now."))?;
                }
            }
        }
    }
    let changes = (&Summary::of(&comparison.changes)).into();
    context.out.summary(wire::Summary::CheckpointDiff(wire::summary::Diff {
        old: old_id,
        new: new_id,
        workspace: folder,
        changes,
    }))?;
    Ok(Code::Done)
}

fn compared<'a>(
    context: &mut Context,
    store: &'a Store,
    old: &Checkpoint,
    new: Newer,
    is_thorough: bool,
) -> Result<Compared<'a>> {
    match new {
        Newer::Folder(workspace) => {
            let folder = Some(human::path(workspace.as_os_str().as_bytes()));
            let live = changed::since(store, old, workspace.clone(), is_thorough, &context.progress())?;
            let read_new = Box::new(move |path: &[u8], node: &Node| files::read_live(&workspace, path, node));
            let comparison = Comparison { store, changes: live.changes, read_new };
            Ok(Compared { comparison, checkpoint: None, folder, _pin: None })
        }
        Newer::Checkpoint(_) if is_thorough => {
            Err(Failure::Usage("--thorough reads the files of a folder; two checkpoints are compared without them".into()))
        }
        Newer::Checkpoint(selector) => {
            let (new, _pin) = context.pinned(store, &selector, "diff")?;
            let (old_node, node) = (store.workspace_node(old)?, store.workspace_node(&new)?);
            let changes = compare(Side::new(store, &old_node), Side::new(store, &node), DiffOptions::default())?;
            let comparison = Comparison { store, changes, read_new: Box::new(store_content(store)) };
            Ok(Compared { comparison, checkpoint: Some(new), folder: None, _pin })
        }
    }
}

fn counts_text(changes: &[TreeChange]) -> String {
    if changes.is_empty() {
        return "No difference.".into();
    }
    let summary = Summary::of(changes);
    format!(
        "{} added, {} deleted, {} modified, {} renamed, {} of another type, {} with other metadata",
        summary.added, summary.deleted, summary.modified, summary.renamed, summary.type_changed, summary.metadata
    )
}
