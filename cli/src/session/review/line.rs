//! The review on a terminal that shows lines alone: it is printed, and then asked what to do.

use std::{path::Path, sync::Arc};

use parhelia_ledger::Session;
use parhelia_life::review_report::Review;
use parhelia_screen::human;
use parhelia_screen::{log, shell};
use parhelia_store::{Store, clock, name::NameExt as _};

use super::{FollowUp, caller::AtTerminal, decide, print};
use crate::{
    ask::{ask, is_agreed},
    context::Context,
    exit::{Code, Result},
    layout::Table,
};

/// The question.
const QUESTION: &str = "[a]pprove, [r]eject, [d]iff, [l]og, [s]hell, [c]ontinue, or [q]uit? ";

/// Prints it, and does what is answered until something ends it.
pub fn review(context: &mut Context, store: Arc<Store>, session: Session) -> Result<FollowUp> {
    let review = Review::of(&store, session)?;
    print::report(context, &store, &review)?;
    context.out.line("")?;
    let checkpoint = review.newest.record.id;
    loop {
        context.out.flush()?;
        match ask(context, QUESTION)?.as_str() {
            "a" | "approve" => {
                let reason = ask(context, "Reason, or nothing: ")?;
                return decided(decide::approve(context, &decide::Args::of(checkpoint, given(reason))));
            }
            "r" | "reject" => {
                let reason = ask(context, "Reason: ")?;
                if !reason.is_empty() || is_agreed(context, "Reject it without a reason?")? {
                    return decided(decide::reject(context, &decide::Args::of(checkpoint, given(reason))));
                }
            }
            "d" | "diff" => diff(context, &store, &review)?,
            "l" | "log" => list(context, &store, &review)?,
            "s" | "shell" => open_shell(context, &store, &review)?,
            "c" | "continue" => return Ok(FollowUp::Continue),
            // Nothing is answered at the end of input as well.
            "q" | "quit" | "" => return Ok(FollowUp::Done(Code::Done)),
            _ => {}
        }
    }
}

fn decided(code: Result<Code>) -> Result<FollowUp> {
    code.map(FollowUp::Done)
}

fn given(reason: String) -> Option<String> {
    Some(reason).filter(|reason| !reason.is_empty())
}

/// Prints how the lines of every file differ.
fn diff(context: &mut Context, store: &Store, review: &Review) -> Result<()> {
    let Some(since) = &review.since else { return context.out.line("There is nothing to compare it with.") };
    let files = print::comparison(context, store, review);
    for change in &review.changes {
        files.print_file(&mut context.out, &change.path, (since, Some(&review.newest)))?;
    }
    Ok(())
}

/// Prints the session's checkpoints and their states.
fn list(context: &mut Context, store: &Store, review: &Review) -> Result<()> {
    let mut rows = vec![["ID", "STATE", "TRIGGER", "MADE", "MESSAGE"].map(str::to_owned).to_vec()];
    for item in log(store, &review.session.id)? {
        let made = human::age(item.created_at, clock::timestamp());
        rows.push(vec![item.id.to_string(), item.state.to_owned(), item.trigger, made, item.message]);
    }
    context.out.table(&Table { rows: &rows, right: &[], dropped: &["MESSAGE", "TRIGGER"] })
}

fn open_shell(context: &mut Context, store: &Arc<Store>, review: &Review) -> Result<()> {
    let caller = AtTerminal::new(context)?;
    let id = review.newest.record.id;
    let begin = |folder: &Path| tell!("Checkpoint {id} is mounted read-only on {}. `exit` leads back.", folder.shown());
    if let Err(error) = shell::run(&caller, store, id, begin) {
        tell!("parhelia: {error}");
    }
    Ok(())
}
