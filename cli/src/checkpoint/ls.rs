//! `checkpoint ls`: the files of a checkpoint. Paths are shown from the workspace folder, as `ID:path` takes them.

use std::ffi::OsString;

use parhelia_screen::human;
use parhelia_store::{
    Store, name,
    tree::{Kind, Node},
};
use parhelia_wire::{Line, Summary, tree::Entry};

use super::entry;
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    output::{Output, Style},
    selector,
};

/// Flags of `checkpoint ls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint, and the folder or file in it: ID or ID:path
    #[arg(value_name = "CHECKPOINT[:PATH]", default_value = "latest", add = complete::checkpoints())]
    place: OsString,
    /// List what is in folders, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show mode, links, owner, size and time
    #[arg(short, long)]
    long: bool,
}

struct EntryPrinter<'a> {
    out: &'a mut Output,
    long: bool,
    entries: u64,
    bytes: u64,
    failed: Option<Failure>,
}

/// Prints the list.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let place = selector::parse(&args.place)?;
    let store = context.open()?;
    let (checkpoint, _pin) = context.pinned(&store, &place.checkpoint, "ls")?;
    let path = place.path_in(&checkpoint);
    let node = store.node_at(&checkpoint, &path)?;
    let mut listing = EntryPrinter { out: &mut context.out, long: args.long, entries: 0, bytes: 0, failed: None };
    match (&node.kind, args.recursive) {
        (Kind::Folder { tree, .. }, false) => {
            for node in store.folder(*tree)? {
                listing.show(&name::join(&path, &node.name), &node)?;
            }
        }
        (Kind::Folder { .. }, true) => listing.walk(&store, &path, &node)?,
        _ => listing.show(&path, &node)?,
    }
    let (entries, bytes) = (listing.entries, listing.bytes);
    context.out.summary(Summary::CheckpointLs { id: checkpoint.id(), path: human::path(&path), entries, bytes })?;
    Ok(Code::Done)
}

impl EntryPrinter<'_> {
    fn walk(&mut self, store: &Store, folder: &[u8], node: &Node) -> Result<()> {
        let Some((tree, _)) = node.as_folder() else { return Ok(()) };
        let walked = store.walk(tree, &mut |path, _, node| {
            self.show(&name::join(folder, path), node).map_err(|failure| {
                self.failed = Some(failure);
                parhelia_store::Error::Cancelled
            })?;
            Ok(true)
        });
        match self.failed.take() {
            Some(failure) => Err(failure),
            None => Ok(walked?),
        }
    }

    fn show(&mut self, path: &[u8], node: &Node) -> Result<()> {
        self.entries += 1;
        if let Kind::File { size, .. } = node.kind {
            self.bytes += size;
        }
        if self.out.json {
            return self.out.object(Line::Entry(Box::new(Entry::of(path, node))));
        }
        let mut shown = human::path(path);
        if node.as_folder().is_some() {
            shown = format!("{}/", self.out.styled(Style::Cyan, shown));
        }
        if !self.long {
            return self.out.line(shown);
        }
        let cells = entry::long_cells(node);
        if let Kind::Symlink { target } = &node.kind {
            shown.push_str(" -> ");
            shown.push_str(&human::path(target));
        }
        let [mode, links, owner, size, time] = cells.as_slice() else { return Ok(()) };
        self.out.line(format!("{mode:<11} {links:>3} {owner:<11} {size:>10} {time} {shown}"))
    }
}
