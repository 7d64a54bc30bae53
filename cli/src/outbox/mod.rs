//! `outbox`: what is to be delivered of notifications, and what could not be.

pub mod after;
mod deliver;
mod list;

use clap::Subcommand;
use parhelia_host::Host;
use parhelia_oversight::review::acts;
use parhelia_screen::human;
use parhelia_service::outbox::Outbox;
use parhelia_store::Store;
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// The verbs of `outbox`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List what waits to be delivered, and what could not be
    List(list::Args),
    /// Have what could not be delivered tried again now, also what waits for its next try; with ids, those
    Retry(DeliveryArgs),
    /// Remove what could not be delivered; with ids, also what waits
    Drop(DeliveryArgs),
    /// Deliver what is due, as the service does by itself
    Deliver(deliver::Args),
}

/// Deliveries that are meant.
#[derive(Debug, clap::Args)]
pub struct DeliveryArgs {
    /// Their ids
    ids: Vec<String>,
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::List(args) => list::run(context, args),
            Verb::Retry(chosen) => retry(context, chosen),
            Verb::Drop(chosen) => remove(context, chosen),
            Verb::Deliver(args) => deliver::run(context, args),
        }
    }
}

/// The outbox of a store.
pub fn outbox<'a>(context: &Context, store: &'a Store, host: &'a (dyn Host + Sync)) -> Result<Outbox<'a>> {
    Ok(Outbox::of(store, host, context.command_words(store.path()))?)
}

fn retry(context: &mut Context, chosen: &DeliveryArgs) -> Result<Code> {
    let (store, host) = (context.open()?, context.host()?);
    let retried = outbox(context, &store, &host)?.retry(&chosen.ids)?;
    context.out.remark(format!("{} will be tried again.", human::count(retried, "delivery")))?;
    context.out.summary(Summary::OutboxRetry { deliveries: retried })?;
    after::start(context, store.path());
    Ok(Code::Done)
}

fn remove(context: &mut Context, chosen: &DeliveryArgs) -> Result<Code> {
    let (store, host) = (context.open()?, context.host()?);
    // What an agent was refused is told by a message that waits here.
    acts::ensure_person(&store, &host, "outbox drop", None, &context.progress())?;
    let dropped = outbox(context, &store, &host)?.drop_all(&chosen.ids)?;
    context.out.remark(format!("Removed {}.", human::count(dropped, "delivery")))?;
    context.out.summary(Summary::OutboxDrop { deliveries: dropped })?;
    Ok(Code::Done)
}

impl From<parhelia_service::outbox::Error> for Failure {
    fn from(error: parhelia_service::outbox::Error) -> Self {
        use parhelia_service::outbox::Error;
        match error {
            Error::Session(error) => error.into(),
            Error::Unknown { .. } => Failure::NotFound(error.to_string()),
            error @ Error::File { .. } => Failure::Outbox(error),
        }
    }
}
