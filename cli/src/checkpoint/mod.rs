//! `checkpoint`: one file per verb.

mod cat;
mod entry;
mod find;
mod list;
mod ls;
mod show;

use clap::Subcommand;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub enum Verb {
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
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::List(args) => list::run(context, args),
            Verb::Show(args) => show::run(context, args),
            Verb::Ls(args) => ls::run(context, args),
            Verb::Cat(args) => cat::run(context, args),
            Verb::Find(args) => find::run(context, args),
        }
    }
}
