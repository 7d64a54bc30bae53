//! `outbox deliver`: what the service does by itself, done once.

use parhelia_ledger::LedgerView as _;
use std::{cell::RefCell, sync::atomic::Ordering, time::Duration};

use parhelia_host::run;
use parhelia_screen::human;
use parhelia_wire::Summary;

use super::outbox;
use crate::{
    context::Context,
    exit::{Code, Result},
    hook_log,
};

/// Somebody who has a process of their own waits so long for what is due next.
const PATIENCE: Duration = Duration::from_secs(900);

/// Flags of `outbox deliver`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Wait for what is due soon, apart from any terminal
    #[arg(long, hide = true)]
    detached: bool,
}

/// Delivers.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if args.detached {
        // Its own session: a terminal that closes does not take it along.
        let _ = rustix::process::setsid();
    }
    let (store, host) = (context.open()?, context.host()?);
    let outbox = outbox(context, &store, &host)?;
    let is_apart = run::is_apart_in_network(&store.view().runs()?);
    if is_apart {
        let text =
            "This process sees another network than those in which agents were started; whoever is in one of these delivers.";
        match args.detached {
            true => hook_log::line(text),
            false => context.out.remark(text)?,
        }
    }
    let troubles = RefCell::new(Vec::new());
    let patience = if args.detached { PATIENCE } else { Duration::ZERO };
    // Events that come while it lets go of the lock are seen by whoever recorded them, or here.
    let cancel = context.cancel();
    let is_over = || cancel.load(Ordering::Relaxed) || (args.detached && outbox.is_wanted());
    while outbox.is_on() && !is_apart && !is_over() {
        let Some(lock) = outbox.lock()? else {
            if !args.detached {
                context.out.remark("Another process delivers: the service, or one that a command has started.")?;
            }
            break;
        };
        outbox.run(&lock, patience, &is_over, &|said| match args.detached {
            true => hook_log::line(said),
            false => troubles.borrow_mut().push(said.to_owned()),
        })?;
        drop(lock);
        if !outbox.is_behind()? {
            break;
        }
    }
    let troubles = troubles.take();
    let is_whole = troubles.is_empty();
    for trouble in troubles {
        context.out.remark(human::path(trouble.as_bytes()))?;
    }
    let waiting = outbox.list()?.iter().filter(|delivery| !delivery.has_failed).count() as u64;
    context.out.summary(Summary::OutboxDeliver { waiting })?;
    Ok(if is_whole { Code::Done } else { Code::Partly })
}
