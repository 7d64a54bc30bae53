//! `checkpoint create --dry-run`: the checkpoint that would be made, and how it differs from the session's last one.

use std::os::unix::ffi::OsStrExt;

use parhelia_ledger::LedgerView as _;
use parhelia_life::{checkpoint::listed::PathList, rollback};
use parhelia_screen::human;
use parhelia_store::{Store, create::Options, diff::Summary, omitted::Reason};
use parhelia_wire::{self as wire, Line, summary::CreateOutcome};

use crate::{
    changed,
    context::Context,
    exit::{Code, Result},
};

/// So many entries that are left out are named without -v.
const LEFT_OUT_MAX: usize = 10;

/// Looks, and prints. Writes nothing.
pub fn run(context: &mut Context, store: &Store, options: &Options, listed: Option<PathList>) -> Result<Code> {
    let view = store.view();
    let known = view.session(&options.session)?;
    let head = view.head(&options.session)?;
    if let Some(intent) = known.as_ref().and_then(rollback::open) {
        tell!("parhelia: a rollback to {} was interrupted, and would be finished first", intent.target);
    }
    let progress = context.progress();
    let mut live = changed::look(store, options, head.as_ref(), &progress)?;
    drop(progress);
    let missing = listed.map_or_else(Vec::new, |listed| listed.left_out(&live.omissions));
    live.omissions.extend(missing);
    let (excluded, unread): (Vec<_>, Vec<_>) =
        live.omissions.iter().partition(|omission| matches!(omission.reason, Reason::Excluded(_)));
    for omission in &live.omissions {
        context.out.object(Line::Omission(omission.into()))?;
    }
    let workspace = human::path(options.workspace.as_os_str().as_bytes());
    let (files, size) = (human::count(live.totals.files, "file"), human::size(live.totals.bytes));
    context.out.line(format!("Would capture {files}, {size}, of {workspace} (session {}).", options.session))?;
    let summary = Summary::of(&live.changes);
    match &head {
        None => context.out.line("It would be the session's first checkpoint.")?,
        Some(head) if live.changes.is_empty() => {
            context.out.line(format!("No file has changed since checkpoint {}.", head.id()))?
        }
        Some(head) => {
            context.out.line(format!("Changed since checkpoint {}: {}.", head.id(), changed::counts_text(&summary)))?;
        }
    }
    changed::print(context, &live.changes)?;
    if !excluded.is_empty() {
        context.out.line(format!("Would leave out {}:", human::count(excluded.len() as u64, "entry")))?;
        let most = if context.global.verbose { usize::MAX } else { LEFT_OUT_MAX };
        for omission in excluded.iter().take(most) {
            context.out.line(format!("  {}", changed::omission_text(omission)))?;
        }
        if excluded.len() > most {
            context.out.line(format!("  and {} more; -v names them", human::number((excluded.len() - most) as u64)))?;
        }
    }
    for omission in &unread {
        tell!("parhelia: {}", changed::omission_text(omission));
    }
    let number = |is: &dyn Fn(&Reason) -> bool| unread.iter().filter(|omission| is(&omission.reason)).count() as u64;
    context.out.summary(wire::Summary::CheckpointCreate(Box::new(CreateOutcome {
        dry_run: true,
        session: options.session.clone(),
        workspace,
        parent: head.map(|head| head.id()),
        files: live.totals.files,
        entries: live.totals.entries,
        bytes: live.totals.bytes,
        excluded: excluded.len() as u64,
        unreadable: number(&|reason| matches!(reason, Reason::Unreadable(_))),
        changing: number(&|reason| matches!(reason, Reason::Changing)),
        attributes: number(&|reason| matches!(reason, Reason::Attributes(_))),
        changes: Some(summary),
        ..CreateOutcome::default()
    })))?;
    Ok(if unread.is_empty() { Code::Done } else { Code::Partly })
}
