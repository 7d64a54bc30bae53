//! `notify`: channels of notifications.

use clap::Subcommand;
use parhelia_screen::human;
use parhelia_wire::{Line, Summary};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    outbox,
};

/// The verbs of `notify`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Send a notification on a channel now, to see that it arrives
    Test(Args),
}

/// Flags of `notify test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The channel, as parhelia.toml names it
    channel: String,
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        let Verb::Test(Args { channel }) = self;
        let (store, _folder) = context.open_or_empty()?;
        let host = context.host()?;
        let sent = outbox::outbox(context, &store, &host)?.test(channel);
        let shown = human::path(channel.as_bytes());
        let sent = sent.map_err(|trouble| Failure::Refused(format!("cannot send on channel {shown}: {}", trouble.why)))?;
        context.out.object(Line::Notification(Box::new(sent)))?;
        context.out.did(format!("a notification is sent on {shown}"));
        context.out.remark(format!("Sent a notification on {shown}."))?;
        context.out.summary(Summary::NotifyTest { channel: channel.clone() })?;
        Ok(Code::Done)
    }
}
