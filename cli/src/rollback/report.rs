//! The preview and the outcome of a rollback, as they are printed.

use parhelia_host::{
    Host,
    run::{has_agent, stranger_in_newest},
};
use parhelia_ledger::Status;
use parhelia_life::rollback::{Look, Preview, RollbackOutcome, Stash};
use parhelia_screen::human;
use parhelia_store::name::NameExt as _;
use parhelia_store::{
    Store,
    record::Checkpoint,
    restore::{RestoreChange, SkippedEntry},
};
use parhelia_wire::{Line, summary::RolledBack, tree::Action};

use super::How;
use crate::{context::Context, exit::Result, output::Style, words};

/// So many paths are named without -v.
const NAMED_MAX: usize = 20;

/// The letter for a change, and words for it when it is done and before.
pub fn mark(change: RestoreChange) -> (char, [&'static str; 2], Style) {
    match change {
        RestoreChange::Create => ('A', ["made again", "to be made again"], Style::Green),
        RestoreChange::Replace => ('M', ["restored", "to be restored"], Style::Yellow),
        RestoreChange::Metadata => ('m', ["metadata restored", "metadata to be restored"], Style::Dim),
        RestoreChange::Link => ('L', ["joined again", "to be joined again"], Style::Cyan),
        RestoreChange::Delete => {
            ('D', ["removed; the safety checkpoint has it", "to be removed; the safety checkpoint will have it"], Style::Red)
        }
        RestoreChange::Empty => (
            'D',
            [
                "emptied, but for what stays; the safety checkpoint has what went",
                "to be emptied, but for what stays; the safety checkpoint will have what goes",
            ],
            Style::Red,
        ),
        RestoreChange::Keep => ('K', ["kept", "to be kept"], Style::Dim),
    }
}

fn print_changes(context: &mut Context, changes: &[(RestoreChange, Vec<u8>)], is_done: bool) -> Result<()> {
    let most = if context.global.verbose { usize::MAX } else { NAMED_MAX };
    for (change, path) in changes {
        context.out.object(Line::Action(Action::of(path, *change)))?;
    }
    for (change, path) in changes.iter().take(most) {
        let (letter, [done, planned], style) = mark(*change);
        let what = if is_done { done } else { planned };
        let path = if path.is_empty() { ".".to_owned() } else { human::path(path) };
        let letter = context.out.styled(style, letter);
        context.out.line(format!("  {letter} {path} ({what})"))?;
    }
    if changes.len() > most {
        context.out.line(format!("  and {} more; -v names them", human::number((changes.len() - most) as u64)))?;
    }
    Ok(())
}

/// Prints what becomes of files and conversation.
pub fn preview(context: &mut Context, preview: &Preview) -> Result<()> {
    print_changes(context, &preview.changes, false)?;
    tell_spared(&preview.spared, "would be left as it is");
    print_left(context, &preview.left)?;
    if preview.changes.is_empty() && preview.spared.is_empty() && preview.left.is_empty() {
        context.out.line("  the files are as they are in the checkpoint")?;
    }
    match &preview.spoken {
        Some(spoken) => context.out.line(format!("  the conversation {}", spoken.text())),
        None => Ok(()),
    }
}

/// Names files that stay as they are.
fn tell_spared(spared: &[Vec<u8>], stays: &str) {
    for path in spared {
        tell!("parhelia: {}: {stays}, since the safety checkpoint does not have it", human::path(path));
    }
}

/// Names entries that stay as they are because they cannot be put back, or because that was asked for.
pub fn print_left(context: &mut Context, left: &[SkippedEntry]) -> Result<()> {
    for entry in left {
        context.out.object(Line::Skipped(entry.clone()))?;
        let path = if entry.path.is_empty() { ".".to_owned() } else { human::path(&entry.path) };
        tell!("parhelia: {path}: {}", entry.error);
    }
    Ok(())
}

/// Prints the last line of a dry run.
pub fn dry_run(context: &mut Context, target: &Checkpoint, look: &Look, preview: &Preview, how: &How) -> Result<()> {
    let what = if look.conversation.is_some() { "files and conversation" } else { "files" };
    context.out.remark(format!("Would put {what} of {} back to {}.", look.shown(), target.id()))?;
    let notices = look.notices.iter().map(words::notice).collect();
    context.out.object(how.line(RolledBack::of_preview(target, look, preview, notices)))
}

/// Prints what was done, and how to go on.
pub fn print(context: &mut Context, store: &Store, host: &dyn Host, rolled: &RollbackOutcome, how: &How) -> Result<()> {
    let RollbackOutcome { session, workspace, done, spared, left } = rolled;
    let spared = spared.as_deref().unwrap_or_default();
    context
        .out
        .did(format!("{} is rolled back to checkpoint {}; safety checkpoint {} is made", workspace, done.target, done.safety));
    context.out.remark(format!("Rolled back {workspace} to checkpoint {}.", done.target))?;
    print_changes(context, &done.changes, true)?;
    tell_spared(spared, "left as it is");
    print_left(context, left)?;
    context
        .out
        .remark(format!("Safety checkpoint: {} (`parhelia checkpoint undo {}` goes back to it).", done.safety, session.id))?;
    match &done.stash {
        Stash::Made(commit) => context.out.remark(format!(
            "Stashed changes of tracked files: stash@{{0}} ({}). Untracked files are in the safety checkpoint alone.",
            &commit[..commit.len().min(12)]
        ))?,
        Stash::Nothing => {}
        Stash::Not(reason) => tell!("parhelia: no stash entry was made ({reason}); the safety checkpoint has everything"),
    }
    if done.with_conversation {
        context.out.remark("The conversation is at the checkpoint's position.")?;
    }
    for path in done.moved.iter().take(NAMED_MAX) {
        context.out.remark(format!("Kept aside of the conversation: {}", path.shown()))?;
    }
    if done.moved.len() > NAMED_MAX {
        context.out.remark(format!("Kept aside of the conversation: {} more", done.moved.len() - NAMED_MAX))?;
    }
    let can_go_on = !how.resumes && session.status != Status::Ended && has_agent(session);
    let next = can_go_on.then(|| format!("parhelia session resume {}", session.id));
    // An agent that was started by hand may live beside files that went back alone.
    let stranger = next.as_ref().map(|_| stranger_in_newest(store, host, session)).transpose()?.flatten();
    match (&next, &stranger) {
        (Some(next), None) => context.out.remark(format!("To go on from here: {next}"))?,
        (Some(next), Some(open)) => {
            context.out.remark(format!("To go on from here: end what has it open, then {next} ({open})"))?
        }
        (None, _) => {}
    }
    let open_in = stranger.map(|open| open.to_string());
    context.out.object(how.line(RolledBack { next, open_in, ..RolledBack::of(rolled) }))
}
