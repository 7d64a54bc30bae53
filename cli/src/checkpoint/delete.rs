//! `checkpoint delete`: forgets checkpoints; `gc` then frees what nothing else needs.

use parhelia_life::rollback;
use parhelia_oversight::review;
use parhelia_screen::human;
use parhelia_wire::{Line, Summary, checkpoint as wire};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};
use parhelia_ledger::LedgerView as _;

/// Flags of `checkpoint delete`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoints
    #[arg(value_name = "CHECKPOINT", required = true, add = complete::checkpoints())]
    checkpoints: Vec<String>,
    /// The reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Delete also what is tagged, linked to an issue or approved
    #[arg(long)]
    protected: bool,
    /// Only say which they are
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Deletes all of them, or none.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let view = store.view();
    let mut chosen = Vec::new();
    for selector in &args.checkpoints {
        let found = context.find_to_overwrite(&store, selector, None)?;
        if !chosen.iter().any(|c: &parhelia_store::record::Checkpoint| c.record.id == found.record.id) {
            chosen.push(found);
        }
    }
    let ids: Vec<_> = chosen.iter().map(|c| c.record.id).collect();
    if args.dry_run {
        review::ensure_may_delete(&store, &context.host()?, &ids, args.protected)?;
    } else {
        let (host, reason) = (context.host()?, args.reason.as_deref());
        review::delete(&store, &host, &ids, reason, args.protected, &context.progress())?;
        chosen.iter().for_each(|deleted| context.out.did(format!("checkpoint {} is deleted", deleted.id())));
    }
    let verb = if args.dry_run { "Would delete" } else { "Deleted" };
    for checkpoint in &chosen {
        let session = view.session(&checkpoint.record.session)?;
        if session.as_ref().and_then(rollback::last).is_some_and(|last| last.safety == checkpoint.record.id) {
            tell!(
                "parhelia: the last rollback of session {} cannot be undone without {}",
                checkpoint.record.session,
                checkpoint.id()
            );
        }
        let shown = wire::Checkpoint::of(&checkpoint.into(), &view.marks(checkpoint.record.id)?);
        context.out.object(Line::Checkpoint(Box::new(shown)))?;
        let (record, id) = (&checkpoint.record, checkpoint.id());
        let (created, size, folder) =
            (human::local(record.created_at), human::size(record.workspace.bytes), &record.workspace.path);
        context.out.remark(format!("{verb} {id} of {folder} (session {}), {created}, {size}.", record.session))?;
    }
    if !args.dry_run {
        context.out.remark("`parhelia gc` frees what nothing else needs.")?;
    }
    context.out.summary(Summary::CheckpointDelete { deleted: chosen.len() as u64, dry_run: args.dry_run })?;
    Ok(Code::Done)
}
