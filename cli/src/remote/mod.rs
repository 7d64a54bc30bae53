//! `remote`: a bucket that has all of a team's checkpoints, and who can open it.

mod add;
pub mod after;
mod clone;
mod fetch;
mod gc;
mod key;
mod list;
pub mod push;
mod secret;
pub mod status;

use clap::Subcommand;
use parhelia_oversight::review::acts;
use parhelia_remote::ConnectOptions;
use parhelia_screen::human;
use parhelia_store::Store;
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// The verbs of `remote`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Join the bucket at a URL, or make one there, after a probe of its server
    Add(add::Args),
    /// Show the remote, and what it does not have yet
    Status,
    /// List the machines that write to the remote
    List,
    /// Send what the remote does not have, as is done by itself after each checkpoint
    Push(push::Args),
    /// Take in what other machines have sent: checkpoints, sessions, tags, decisions, deletions
    Fetch(fetch::Args),
    /// Make a store that has everything of a remote
    Clone(clone::Args),
    /// Free what no machine needs in the remote
    Gc,
    /// Leave the remote; what is in it stays there
    Remove,
    /// Say who can open an encrypted remote
    #[command(subcommand)]
    Key(key::Verb),
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Add(args) => add::run(context, args),
            Verb::Status => status::run(context),
            Verb::List => list::run(context),
            Verb::Push(args) => push::run(context, args),
            Verb::Fetch(args) => fetch::run(context, args),
            Verb::Clone(args) => clone::run(context, args),
            Verb::Gc => gc::run(context),
            Verb::Remove => remove(context),
            Verb::Key(verb) => verb.run(context),
        }
    }
}

/// What a connection takes, as the user has set it.
fn connect(context: &Context) -> Result<ConnectOptions> {
    let command = context.own_config()?.remote.credential_command;
    Ok(ConnectOptions { credential_command: (!command.is_empty()).then_some(command) })
}

/// Fails where an agent would change where work goes, or who can read it.
fn ensure_person(context: &Context, store: &Store, words: &str) -> Result<()> {
    acts::ensure_person(store, &context.host()?, words, None, &context.progress())?;
    Ok(())
}

fn remove(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    ensure_person(context, &store, "remote remove")?;
    let left = parhelia_remote::remove(&store)?;
    let url = human::path(left.url.as_bytes());
    context.out.remark(format!("Left {url}. What is in it stays there, and other machines go on with it."))?;
    context.out.summary(Summary::RemoteRemove { url: left.url })?;
    Ok(Code::Done)
}

/// The URL of a remote, as it was given.
fn url(text: &str) -> Result<parhelia_remote::RemoteUrl> {
    parhelia_remote::RemoteUrl::parse(text).map_err(|e| Failure::Remote(e.into()))
}
