//! `checkpoint`: one file per verb.

mod cat;
mod create;
mod delete;
mod diff;
mod entry;
mod find;
mod list;
mod ls;
mod restore;
mod session;
mod show;
mod verify;

use clap::Subcommand;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Capture a folder
    Create(Box<create::Args>),
    /// List checkpoints, newest first
    List(list::Args),
    /// Show everything about one checkpoint
    Show(show::Args),
    /// List the files of a checkpoint
    Ls(ls::Args),
    /// Print a file of a checkpoint
    Cat(cat::Args),
    /// Find paths in all checkpoints
    Find(find::Args),
    /// Compare two checkpoints, or one with a folder as it is now
    Diff(diff::Args),
    /// Make a folder what it is in a checkpoint
    Restore(restore::Args),
    /// Verify that a checkpoint is whole
    Verify(verify::Args),
    /// Delete checkpoints
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
            Verb::Diff(args) => diff::run(context, args),
            Verb::Restore(args) => restore::run(context, args),
            Verb::Verify(args) => verify::run(context, args),
            Verb::Delete(args) => delete::run(context, args),
        }
    }
}
