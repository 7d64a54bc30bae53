//! `remote add`: joins a bucket, or makes one.

use parhelia_remote::{AddOptions, Added, RemoteUrl, Wanted};
use parhelia_screen::human;
use parhelia_store::Store;
use parhelia_wire::{Summary, summary::remote::JoinedRemote};

use super::{connect, ensure_person, secret, url};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `remote add`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or file:///FOLDER, with ?endpoint=URL and &region=NAME where needed
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Use a bucket without encryption, whose owner can read everything
    #[arg(long)]
    no_encryption: bool,
    /// Open the bucket with its recovery phrase
    #[arg(long, conflicts_with = "no_encryption")]
    recovery_phrase: bool,
}

/// Joins it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let url = match &args.url {
        Some(given) => url(given)?,
        None => configured(context)?,
    };
    let store = context.open_or_make()?;
    ensure_person(context, &store, "remote add")?;
    let how = Joining { encrypts: !args.no_encryption, is_recovery: args.recovery_phrase, makes: true, shows_phrase: true };
    let added = join(context, &store, &url, how)?;
    report(context, &added)?;
    super::after::start(context, store.path());
    Ok(Code::Done)
}

fn configured(context: &Context) -> Result<RemoteUrl> {
    match context.own_config()?.remote.url {
        Some(given) => url(&given),
        None => {
            Err(Failure::Usage("no remote: give its URL, or set PARHELIA_REMOTE_URL, or remote.url in your parhelia.toml".into()))
        }
    }
}

/// Ways to join a bucket.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    /// True to take only an encrypted one.
    pub encrypts: bool,
    /// True to open it with its recovery phrase.
    pub is_recovery: bool,
    /// True to make one where none is.
    pub makes: bool,
    /// True if somebody is there to whom a recovery phrase can be shown.
    pub shows_phrase: bool,
}

/// Joins the bucket at a URL.
pub fn join(context: &Context, store: &Store, url: &RemoteUrl, how: Joining) -> Result<Added> {
    let Joining { encrypts, is_recovery, makes, shows_phrase } = how;
    let failed = std::cell::RefCell::new(None);
    let secret = |wanted: Wanted| {
        secret::wanted(context, wanted, is_recovery).map_err(|failure| {
            failed.replace(Some(failure));
            parhelia_remote::Error::NoRemote
        })
    };
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let encrypts = encrypts && context.own_config()?.remote.encrypt;
    let options = AddOptions { connect: connect(context)?, encrypts, makes, shows_phrase, secret: &secret, machine };
    let added = parhelia_remote::add(store, url, &options);
    // The secret's own failure stands for the one that it caused.
    match failed.take() {
        Some(failure) => Err(failure),
        None => Ok(added?),
    }
}

/// Says what was joined, and shows the recovery phrase of a new bucket, once.
pub fn report(context: &mut Context, added: &Added) -> Result<()> {
    let (shown, joined) = (human::path(added.joined.url.as_bytes()), &added.joined);
    let what = if joined.encrypted { "encrypted" } else { "not encrypted" };
    context.out.did(format!("the remote is {shown}"));
    let done = if added.is_new { "Made a bucket at" } else { "Joined the bucket at" };
    context.out.remark(format!("{done} {shown}, {what}."))?;
    if let Some(slot) = &joined.slot {
        context
            .out
            .remark(format!("This machine opens it with a key of its own, in the slot '{}'.", human::path(slot.as_bytes())))?;
    }
    if !added.can_delete {
        tell!("parhelia: the credentials may not delete there, so that no space there is ever freed");
    }
    let recovery_phrase = added.recovery.as_ref().map(|phrase| phrase.text().to_string());
    if let Some(phrase) = &recovery_phrase {
        context.out.line(format!(
            "\nRecovery phrase, which opens the bucket when every passphrase is forgotten and every machine is lost. It is shown this \
             once and kept nowhere; write it down:\n\n    {phrase}\n"
        ))?;
    }
    context.out.summary(Summary::RemoteAdd(JoinedRemote {
        url: joined.url.clone(),
        bucket: joined.bucket.clone(),
        encrypted: joined.encrypted,
        slot: joined.slot.clone(),
        made: added.is_new,
        recovery_phrase,
    }))
}
