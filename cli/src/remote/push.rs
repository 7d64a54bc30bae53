//! `remote push`: sends what the remote does not have.

use std::{sync::atomic::Ordering, time::Duration};

use parhelia_remote::{Error, Pushed, RemoteFolder};
use parhelia_screen::human;
use parhelia_store::Store;
use parhelia_wire::{Summary, summary::remote::PushOutcome};

use super::{
    add::{self, Joining},
    connect,
};
use crate::{
    context::Context,
    exit::{Code, Result},
    hook_log,
};

/// Flags of `remote push`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Apart from any terminal, after a verb
    #[arg(long, hide = true)]
    detached: bool,
}

/// Pushes.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if args.detached {
        // Its own session: a terminal that closes does not take it along.
        let _ = rustix::process::setsid();
        return detached(context);
    }
    let store = context.open()?;
    let pushed = pushed(context, &store, store.lock_timeout())?;
    let (packs, segments) = (human::count(pushed.packs, "pack"), human::count(pushed.segments, "segment"));
    context.out.did("everything is in the remote".to_owned());
    match pushed.segments {
        0 => context.out.remark("The remote has everything.")?,
        _ => context.out.remark(format!("Sent {packs} and {segments}; the remote has everything."))?,
    }
    for checkpoint in &pushed.damaged {
        tell!(
            "parhelia: parts of checkpoint {checkpoint} are damaged here, and the remote does not have them: run `parhelia check`"
        );
    }
    let code = if pushed.damaged.is_empty() { Code::Done } else { Code::Partly };
    let Pushed { packs, segments, damaged, .. } = pushed;
    context.out.summary(Summary::RemotePush(PushOutcome { packs, segments, damaged }))?;
    Ok(code)
}

/// Pushes, and joins the remote first that is configured, where none was joined.
pub fn pushed(context: &Context, store: &Store, patience: Duration) -> Result<Pushed> {
    let folder = RemoteFolder::of(store.layout());
    if folder.joined()?.is_none()
        && let Some(given) = context.own_config()?.remote.url
    {
        let how = Joining { encrypts: true, is_recovery: false, makes: true, shows_phrase: false };
        // Said by `remote status`, as nobody may be there to be told.
        let joined = super::url(&given).and_then(|url| add::join(context, store, &url, how));
        joined.inspect_err(|failure| drop(folder.note_failure(&failure.to_string())))?;
    }
    Ok(parhelia_remote::push(store, &connect(context)?, patience, &context.progress())?)
}

/// Pushes until nothing is left. Another process that does so sees what came meanwhile, or this one does.
fn detached(context: &Context) -> Result<Code> {
    let store = context.open()?;
    let folder = RemoteFolder::of(store.layout());
    while !context.cancel().load(Ordering::Relaxed) {
        match pushed(context, &store, Duration::ZERO) {
            Ok(pushed) if pushed.segments == 0 => break,
            Ok(_) => {}
            // One process waits for its turn behind the one at work, and sends what came meanwhile.
            Err(crate::exit::Failure::Remote(Error::Busy)) => match folder.wait_for_turn()? {
                true => {}
                false => break,
            },
            Err(failure) => {
                hook_log::line(&format!("remote push: {failure}"));
                return Ok(Code::Failed);
            }
        }
    }
    Ok(Code::Done)
}
