//! `remote gc`: frees what no machine needs.

use parhelia_screen::human;
use parhelia_wire::{Summary, summary::remote::RemoteCollection};

use super::{connect, ensure_person};
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Runs a round.
pub fn run(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    ensure_person(context, &store, "remote gc")?;
    let report = parhelia_remote::gc::run(&store, &connect(context)?, &context.progress())?;
    context.out.did(format!("gc has freed {} in the remote", human::size(report.deleted_bytes)));
    context.out.remark(format!(
        "Freed {}: {} removed.",
        human::size(report.deleted_bytes),
        human::count(report.deleted, "pack")
    ))?;
    context.out.summary(Summary::RemoteGc(RemoteCollection {
        condemned_packs: report.condemned,
        kept_packs: report.kept,
        deleted_packs: report.deleted,
        deleted_bytes: report.deleted_bytes,
    }))?;
    Ok(Code::Done)
}
