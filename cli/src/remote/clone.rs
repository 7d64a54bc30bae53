//! `remote clone`: a store that has everything of a remote.

use parhelia_remote::RemoteFolder;
use parhelia_screen::human;
use parhelia_store::name::NameExt as _;
use parhelia_wire::{Summary, summary::remote::CloneOutcome};

use super::{
    add::{self, Joining},
    ensure_person, fetch, url,
};
use crate::{
    context::{Context, Make},
    exit::{Code, Failure, Result},
};

/// Flags of `remote clone`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or file:///FOLDER, with ?endpoint=URL and &region=NAME where needed
    #[arg(value_name = "URL")]
    url: String,
    /// Use a bucket without encryption, whose owner can read everything
    #[arg(long)]
    no_encryption: bool,
    /// Open the bucket with its recovery phrase
    #[arg(long, conflicts_with = "no_encryption")]
    recovery_phrase: bool,
    #[command(flatten)]
    fetch: fetch::Args,
}

/// Makes the store, joins the remote, and fetches. Goes on with a clone that was interrupted.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let url = url(&args.url)?;
    let store = context.open_with(Make::First)?;
    ensure_person(context, &store, "remote clone")?;
    let joined = RemoteFolder::of(store.layout()).joined()?;
    match joined {
        Some(joined) if joined.url == url.to_string() => {}
        Some(joined) => return Err(parhelia_remote::Error::HasRemote { url: joined.url }.into()),
        None if store.view().end().sequence > 0 => {
            return Err(Failure::Refused(format!(
                "the store at {} is in use already: `parhelia remote add` joins the remote, and `parhelia remote fetch` takes in what it has; or \
                 name another folder with --store",
                store.path().shown()
            )));
        }
        None => {
            let (encrypts, is_recovery) = (!args.no_encryption, args.recovery_phrase);
            add::join(context, &store, &url, Joining { encrypts, is_recovery, makes: false, shows_phrase: false })?;
        }
    }
    let fetched = fetch::fetched(context, &store, &args.fetch)?;
    fetch::report(context, fetched)?;
    let shown = human::path(store.path().as_os_str().as_encoded_bytes());
    context.out.remark(format!("The store is {shown}."))?;
    context.out.summary(Summary::RemoteClone(CloneOutcome { store: shown, fetched }))?;
    Ok(Code::Done)
}
