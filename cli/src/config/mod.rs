//! `config`: one file per verb.

mod show;

use clap::Subcommand;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// The verbs of `config`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Print every option's value in force, and where it came from
    Show(show::Args),
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Show(args) => show::run(context, args),
        }
    }
}
