//! The report that is printed: on a terminal, in a pipe, or as JSON.

use parhelia_ledger::{ApprovalStatus, Status};
use parhelia_life::review_report::{Command, Review};
use parhelia_screen::human;
use parhelia_screen::words;
use parhelia_store::{Store, clock, diff::store_content};
use parhelia_wire::{Line, Summary, session as wire};

use crate::{
    changed::files::Comparison,
    context::Context,
    exit::{Code, Result},
    output::Style,
};

/// So many of the checkpoints that wait are named, the newest first.
const WAITING_MAX: usize = 3;

/// Prints everything, and the ways to decide.
pub fn print(context: &mut Context, store: &Store, review: &Review) -> Result<Code> {
    context.out.page()?;
    if context.out.json {
        comparison(context, store, review).print_files(&mut context.out)?;
        context.out.object(Line::Review(Box::new(wire::Review::of(review))))?;
    } else {
        report(context, store, review)?;
        ways(context, review)?;
    }
    let (id, checkpoint) = (review.session.id.clone(), review.newest.id());
    let waiting = review.waiting.iter().map(ToString::to_string).collect();
    context.out.summary(Summary::SessionReview { id, checkpoint, waiting, changes: review.changes.len() as u64 })?;
    Ok(Code::Done)
}

/// Prints the same without the ways to decide, for whoever asks then.
pub fn report(context: &mut Context, store: &Store, review: &Review) -> Result<()> {
    let unseen = words::unseen(&review.unseen, review.since_approved);
    for line in &unseen {
        let line = context.out.styled(Style::Red, line.clone());
        context.out.line(line)?;
    }
    if !unseen.is_empty() {
        context.out.line("")?;
    }
    let facts = facts(review);
    context.out.facts(facts, 10)?;
    context.out.line("")?;
    context.out.line(since_text(review))?;
    if review.since.is_some() && review.changes.is_empty() && !unseen.is_empty() {
        context.out.line("  No changes in what the checkpoint has")?;
    } else if review.since.is_some() {
        comparison(context, store, review).print_files(&mut context.out)?;
    }
    rest(context, review)
}

/// The files that changed.
pub fn comparison<'a>(context: &Context, store: &'a Store, review: &Review) -> Comparison<'a> {
    Comparison { store, changes: review.changes.clone(), read_new: Box::new(store_content(store)), lists_all: context.out.json }
}

fn facts(review: &Review) -> Vec<(&'static str, String)> {
    let text = |text: &str| human::path(text.as_bytes());
    let (session, record, now) = (&review.session, &review.newest.record, clock::timestamp());
    let decision = words::decision(review.approval.as_ref());
    let mut facts = vec![
        ("Session", text(&session.id)),
        ("Status", format!("{} ({decision})", review.overview.state(session))),
        ("Newest", format!("{}, {}, {}", review.newest.id(), record.trigger.name(), human::ago(record.created_at, now))),
    ];
    if review.waiting.len() > 1 {
        let first = review.waiting.iter().take(WAITING_MAX).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let more = review.waiting.len().saturating_sub(WAITING_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        facts.push(("Waiting", format!("{}: {first}{more}", human::count(review.waiting.len() as u64, "checkpoint"))));
    }
    let asked = |url: &str| format!("{}, by an agent or an import; `parhelia link` confirms it", text(url));
    facts.extend(review.asked_links.iter().map(|issue| ("Asks for", asked(&issue.url))));
    facts.extend(review.secrets.iter().map(|secret| ("Secret", text(secret))));
    if review.unseen.regenerable.entries > 0 {
        facts.push(("Left out", format!("as it can be made again: {}", words::left_out(&review.unseen.regenerable))));
    }
    facts.extend(review.turns.map(|turns| ("Turns", human::number(turns))));
    facts.extend(review.tokens.map(|tokens| ("Tokens", human::number(tokens))));
    facts.extend(session.totals.cost_usd.map(|cost| ("Cost", human::cost(cost))));
    if session.totals.active_seconds > 0 {
        facts.push(("Worked in", human::span(session.totals.active_seconds)));
    }
    if session.totals.errors > 0 {
        facts.push(("Errors", human::number(session.totals.errors)));
    }
    facts
}

fn since_text(review: &Review) -> String {
    match (&review.since, review.since_approved) {
        (Some(since), true) => format!("Files changed since {}, which a person approved:", since.id()),
        (Some(since), false) => {
            let which = match since.record.parent {
                None => "the session's first checkpoint",
                // Those before it are gone.
                Some(_) => "the oldest checkpoint that is left of the session",
            };
            format!("Files changed since {}, {which}; nobody approved an earlier one:", since.id())
        }
        (None, _) => "It is the session's first checkpoint; there is nothing to compare it with.".into(),
    }
}

/// Prints what stands behind the files: commands, questions, and the agent's last words.
fn rest(context: &mut Context, review: &Review) -> Result<()> {
    if !review.commands.is_empty() {
        context.out.line("\nCommands that the agent ran:")?;
        if review.commands_more > 0 {
            context.out.line(format!("  ({} before these)", human::number(review.commands_more as u64)))?;
        }
        for command in &review.commands {
            context.out.line(command_text(context, command))?;
        }
    }
    if !review.open_questions.is_empty() {
        context.out.line("\nOpen questions:")?;
        for question in &review.open_questions {
            context.out.line(format!("  {}", human::path(question.as_bytes())))?;
        }
    }
    if let Some(reply) = &review.last_reply {
        context.out.line("\nThe agent said last:")?;
        for line in reply.lines() {
            context.out.line(format!("  {}", human::path(line.as_bytes())).trim_end())?;
        }
    }
    Ok(())
}

/// Prints the commands with which to decide.
fn ways(context: &mut Context, review: &Review) -> Result<()> {
    let (id, session) = (review.newest.id(), human::shell(review.session.id.as_bytes()));
    let since = review.since.as_ref().map(|since| format!("\n  parhelia diff {} {id}", since.id())).unwrap_or_default();
    let decide = match review.approval.as_ref().filter(|approval| approval.is_by_person()) {
        None => format!("To decide:\n  parhelia session approve {id}\n  parhelia session reject {id}"),
        Some(approval) => {
            let other = if approval.status == ApprovalStatus::Approved { "reject" } else { "approve" };
            format!("It is decided; to decide otherwise:\n  parhelia session {other} {id} --change")
        }
    };
    // What has ended is not gone on with.
    let goes_on = review.session.status != Status::Ended;
    let resume = if goes_on { format!("\n  parhelia session resume {session}") } else { String::new() };
    context.out.remark(format!("\n{decide}{since}\n  parhelia log --session {session}{resume}"))
}

fn command_text(context: &Context, command: &Command) -> String {
    let (mark, style) = match command.failed {
        Some(true) => ("failed", Style::Red),
        Some(false) => ("ok", Style::Green),
        None => ("?", Style::Dim),
    };
    let text = human::path(command.text.lines().next().unwrap_or_default().as_bytes());
    format!("  {} {text}", context.out.styled(style, format!("{mark:6}")))
}
