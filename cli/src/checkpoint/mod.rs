//! `checkpoint`: one file per verb.

mod annotate;
mod annotations;
mod cat;
mod create;
mod delete;
mod diff;
mod entry;
mod find;
mod link;
pub mod list;
mod ls;
pub mod marks;
mod restore;
pub mod rollback;
mod search;
mod secrets;
mod show;
mod state;
mod tag;
mod tags;
mod verify;

use clap::Subcommand;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// The verbs of `checkpoint`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Capture a folder
    #[command(alias = "backup")]
    Create(Box<create::Args>),
    /// List checkpoints, newest first
    #[command(alias = "snapshots")]
    List(list::Args),
    /// Show everything about one checkpoint
    Show(show::Args),
    /// List the files of a checkpoint
    Ls(ls::Args),
    /// Print a file of a checkpoint
    #[command(alias = "dump")]
    Cat(cat::Args),
    /// Find paths in all checkpoints
    Find(find::Args),
    /// Search for checkpoints by words in messages, tags, conversations and names of changed files
    Search(search::Args),
    /// Compare two checkpoints, or one with a folder as it is now
    Diff(diff::Args),
    /// Restore a checkpoint, or a part of it, to a folder
    Restore(restore::Args),
    /// Put a session's files and conversation back to a checkpoint; can be undone
    Rollback(rollback::Args),
    /// Undo the last rollback
    Undo(rollback::UndoArgs),
    /// Tag a checkpoint
    Tag(tag::Args),
    /// Remove tags from a checkpoint
    Untag(tag::Args),
    /// List the tags in use
    Tags(tags::Args),
    /// Add a remark to a checkpoint
    Annotate(annotate::Args),
    /// List the remarks about checkpoints
    Annotations(annotations::Args),
    /// Link a checkpoint to issues
    Link(link::Args),
    /// Remove links of a checkpoint to issues
    Unlink(link::Args),
    /// Verify that a checkpoint is whole
    Verify(verify::Args),
    /// Delete checkpoints
    #[command(aliases = ["forget", "remove", "rm"])]
    Delete(delete::Args),
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Create(args) => create::run(context, args),
            Verb::List(args) => list::run(context, args),
            Verb::Show(args) => show::run(context, args),
            Verb::Ls(args) => ls::run(context, args),
            Verb::Cat(args) => cat::run(context, args),
            Verb::Find(args) => find::run(context, args),
            Verb::Search(args) => search::run(context, args),
            Verb::Diff(args) => diff::run(context, args),
            Verb::Restore(args) => restore::run(context, args),
            Verb::Rollback(args) => rollback::run(context, args),
            Verb::Undo(args) => rollback::undo(context, args),
            Verb::Tag(args) => tag::tag(context, args),
            Verb::Untag(args) => tag::untag(context, args),
            Verb::Tags(args) => tags::run(context, args),
            Verb::Annotate(args) => annotate::run(context, args),
            Verb::Annotations(args) => annotations::run(context, args),
            Verb::Link(args) => link::link(context, args),
            Verb::Unlink(args) => link::unlink(context, args),
            Verb::Verify(args) => verify::run(context, args),
            Verb::Delete(args) => delete::run(context, args),
        }
    }
}
