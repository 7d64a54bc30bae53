//! `checkpoint rollback` and `checkpoint undo`: a session's files and conversation as they were at a checkpoint, and back again.

use parhelia_host::Refusal;
use parhelia_ledger::LedgerView as _;
use parhelia_life::rollback::{self, Rollback, Turn};
use parhelia_store::{Store, record::Checkpoint};
use parhelia_wire::summary::RolledBack;

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    rollback::{Fate, How, is_askable, roll},
};

/// Flags of `checkpoint rollback`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint to go back to
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    #[command(flatten)]
    how: How,
}

/// Flags of `checkpoint undo`.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// The session whose last rollback is undone, by id or name [default: the one of this folder that was rolled back last]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    #[command(flatten)]
    how: How,
}

/// Rolls back.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (target, _pin) = context.pin(&store, &context.find_to_overwrite(&store, &args.checkpoint, None)?, "rollback")?;
    rollback::ensure_folder(&store, &target)?;
    let shows = format!("checkpoint rollback {} --dry-run{}", target.id(), args.how.typed());
    let _turn = begin(context, &store, &target.record.session, &args.how, ("roll back", &shows))?;
    let host = context.host()?;
    let rollback = Rollback::plan(&store, &host, &target, None, args.how.options())?;
    let rolled = roll(context, rollback, &target, &args.how)?;
    said(context, &target, rolled, &args.how)
}

/// Undoes the last rollback.
pub fn undo(context: &mut Context, args: &UndoArgs) -> Result<Code> {
    let store = context.open()?;
    let host = context.host()?;
    let session = match &args.session {
        Some(name) => store.view().session_named(name)?,
        None => rollback::session_to_undo(&store, &host)?,
    };
    if rollback::last(&session).is_none() && rollback::open(&session).is_none() {
        return Err(Refusal::NotRolledBack { session: session.id }.into());
    }
    let id = session.id;
    // One that was interrupted is finished first, and is then the one that is undone.
    let _turn = begin(context, &store, &id, &args.how, ("undo", &format!("checkpoint undo {id} --dry-run{}", args.how.typed())))?;
    let (last, target) = rollback::to_undo(&store, &id, args.how.dry_run)?;
    let (target, _pin) = context.pin(&store, &target, "undo")?;
    let how = How { files_only: args.how.files_only || !last.with_conversation, undoes: true, ..args.how.clone() };
    let rollback = Rollback::plan(&store, &host, &target, Some(last), how.options())?;
    let rolled = roll(context, rollback, &target, &how)?;
    said(context, &target, rolled, &how)
}

/// Waits for the session's turn. An earlier rollback that was interrupted is finished, unless this is only about showing something.
fn begin(context: &Context, store: &Store, session: &str, how: &How, (verb, command): (&str, &str)) -> Result<Option<Turn>> {
    if !how.yes && !how.dry_run {
        is_askable(verb, command)?;
    }
    Ok(rollback::begin(store, &context.host()?, session, how.dry_run, &context.progress())?)
}

/// Prints that nothing was done, where that is so.
fn said(context: &mut Context, target: &Checkpoint, fate: Fate, how: &How) -> Result<Code> {
    if fate == Fate::Refused {
        context.out.remark("Nothing was changed.")?;
        context.out.object(how.line(RolledBack { target: target.id(), ..RolledBack::default() }))?;
    }
    Ok(match fate {
        Fate::Done { spares: true } | Fate::Shown { spares: true } => Code::Partly,
        _ => Code::Done,
    })
}
