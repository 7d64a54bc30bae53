//! `remote fetch`: takes in what other machines have sent.

use parhelia_remote::{FetchOptions, Fetched};
use parhelia_screen::human;
use parhelia_store::Store;
use parhelia_wire::Summary;

use super::{connect, ensure_person};
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `remote fetch`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Take what this machine has sent for this one's own: it was this one before its store was lost (`parhelia remote list` has its id; a
    /// beginning is enough)
    #[arg(long, value_name = "MACHINE")]
    pub take_over: Vec<String>,
    /// Take the bucket as it is, though it had more before: it was set back to an older state
    #[arg(long)]
    pub accept_older: bool,
}

/// Fetches.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    if !args.take_over.is_empty() {
        ensure_person(context, &store, "remote fetch --take-over")?;
    }
    let fetched = fetched(context, &store, args)?;
    report(context, fetched)?;
    context.out.summary(Summary::RemoteFetch(fetched))?;
    Ok(Code::Done)
}

/// Fetches into a store.
pub fn fetched(context: &Context, store: &Store, args: &Args) -> Result<Fetched> {
    let options =
        FetchOptions { connect: connect(context)?, take_over: args.take_over.clone(), accepts_older: args.accept_older };
    Ok(parhelia_remote::fetch(store, &options, &context.progress())?)
}

/// Says what was taken in.
pub fn report(context: &mut Context, fetched: Fetched) -> Result<()> {
    let (checkpoints, events) = (human::count(fetched.checkpoints, "checkpoint"), human::count(fetched.events, "event"));
    let packs = format!("{}, {}", human::count(fetched.packs, "pack"), human::size(fetched.pack_bytes));
    context.out.did(format!("fetched {checkpoints}"));
    match (fetched.checkpoints, fetched.events) {
        (0, 0) => context.out.remark("Nothing is new in the remote."),
        _ => context.out.remark(format!("Fetched {checkpoints} and {events} ({packs}).")),
    }
}
