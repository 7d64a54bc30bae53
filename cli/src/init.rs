//! `init`: makes a store. One that is named is made by this verb alone.

use std::os::unix::ffi::OsStrExt;

use parhelia_oversight::review::acts;
use parhelia_screen::human;
use parhelia_wire::Summary;

use crate::{
    context::{Context, Make, StorePlace},
    exit::{Code, Result},
};

/// Flags of `init`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Take the store as it is for the newest state of it, although this user has seen a newer one at its place
    #[arg(long)]
    accept_older: bool,
    /// Make a new store although this user had another one at its place, which is not there any more
    #[arg(long, conflicts_with = "accept_older")]
    new: bool,
}

/// Makes the store where there is none.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let StorePlace { path, is_named } = context.store_place()?;
    context.warns_of_older = !args.accept_older;
    let make = match (args.accept_older, args.new) {
        (true, _) => Make::Never,
        (false, false) => Make::First,
        (false, true) => Make::Anew,
    };
    let store = context.open_with(make)?;
    let shown = human::path(path.as_os_str().as_bytes());
    if args.accept_older {
        acts::ensure_person(&store, &context.host()?, "init --accept-older", None, &context.progress())?;
        store.accept_older()?;
        context.out.did(format!("the store at {shown} is taken as it is"));
        context.out.remark(format!("The store at {shown} is taken as it is."))?;
        context.out.summary(Summary::Init { store: shown, created: false })?;
        return Ok(Code::Done);
    }
    let is_there = !store.was_made();
    drop(store);
    let text = match is_there {
        true => format!("The store at {shown} is there already."),
        false => {
            context.out.did(format!("the store at {shown} is made"));
            format!("Made a store at {shown}.")
        }
    };
    context.out.remark(text)?;
    if !is_named {
        context.out.remark("No init is needed: the first `parhelia checkpoint create` makes the default store.")?;
    }
    context.out.summary(Summary::Init { store: shown, created: !is_there })?;
    Ok(Code::Done)
}
