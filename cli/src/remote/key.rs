//! `remote key`: who can open an encrypted remote.

use clap::Subcommand;
use parhelia_remote::keys;
use parhelia_screen::human;
use parhelia_wire::{Line, Summary, summary::remote::KeySlot};

use super::{connect, ensure_person, secret};
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// The verbs of `remote key`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List the slots, each of which opens the remote
    List,
    /// Add a slot for a passphrase, or with --recovery-phrase for a new recovery phrase
    Add(AddArgs),
    /// Remove a slot; `rotate` then keeps its holder from what is written from now on
    Remove(NameArgs),
    /// Encrypt what is written from now on with a new key, which every slot opens
    Rotate,
}

/// Flags of `remote key add`.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Name of the slot
    name: String,
    /// Make a recovery phrase, and show it once
    #[arg(long)]
    recovery_phrase: bool,
}

/// The slot that is meant.
#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// Name of the slot
    name: String,
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::List => list(context),
            Verb::Add(args) => add(context, args),
            Verb::Remove(args) => remove(context, &args.name),
            Verb::Rotate => rotate(context),
        }
    }
}

fn list(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    let (slots, own) = keys::list(&store, &connect(context)?)?;
    for slot in &slots {
        let is_this = own.as_ref() == Some(&slot.label);
        if context.out.json {
            context.out.object(Line::KeySlot(KeySlot { name: slot.label.clone(), kind: slot.kind.to_string(), is_this }))?;
            continue;
        }
        let this = if is_this { "  (this machine)" } else { "" };
        context.out.line(format!("{}  {}{this}", human::path(slot.label.as_bytes()), slot.kind))?;
    }
    context.out.summary(Summary::RemoteKeyList { slots: slots.len() as u64 })?;
    Ok(Code::Done)
}

fn add(context: &mut Context, args: &AddArgs) -> Result<Code> {
    let store = context.open()?;
    ensure_person(context, &store, "remote key add")?;
    let options = connect(context)?;
    let recovery_phrase = match args.recovery_phrase {
        true => {
            let phrase = keys::add_recovery(&store, &options, &args.name)?.text().to_string();
            context.out.line(format!("Recovery phrase, shown this once and kept nowhere:\n\n    {phrase}\n"))?;
            Some(phrase)
        }
        false => {
            keys::add(&store, &options, &secret::new_passphrase(context)?, &args.name)?;
            None
        }
    };
    context.out.remark(format!("Added the slot '{}'.", human::path(args.name.as_bytes())))?;
    context.out.summary(Summary::RemoteKeyAdd { slot: args.name.clone(), recovery_phrase })?;
    Ok(Code::Done)
}

fn remove(context: &mut Context, name: &str) -> Result<Code> {
    let store = context.open()?;
    ensure_person(context, &store, "remote key remove")?;
    keys::remove(&store, &connect(context)?, name)?;
    let shown = human::path(name.as_bytes());
    context.out.remark(format!(
        "Removed the slot '{shown}'. Its holder may have kept the keys: `parhelia remote key rotate` keeps him from what is written from now on."
    ))?;
    context.out.summary(Summary::RemoteKeyRemove { slot: name.to_owned() })?;
    Ok(Code::Done)
}

fn rotate(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    ensure_person(context, &store, "remote key rotate")?;
    let generation = keys::rotate(&store, &connect(context)?)?;
    context.out.remark(format!("What is written from now on is encrypted with generation {generation} of the keys."))?;
    context.out.summary(Summary::RemoteKeyRotate { generation })?;
    Ok(Code::Done)
}
