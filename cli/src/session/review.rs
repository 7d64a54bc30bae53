//! `session review`: what was done since the last state that a person approved, and the ways to decide.

use parhelia_session::review::report::{Command, Review};
use parhelia_store::{clock, diff::store_content, projection::ApprovalStatus};
use parhelia_wire::{Line, Summary, session as wire};

use crate::{
    changed::files::Comparison,
    complete,
    context::Context,
    exit::{Code, Result},
    human,
    output::Style,
};

/// Flags of `session review`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session [default: the one of this folder's newest checkpoint]
    #[arg(add = complete::sessions())]
    session: Option<String>,
}

/// Prints it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let name = match &args.session {
        Some(name) => name.clone(),
        None => context.find(&store, "latest")?.record.session,
    };
    let review = Review::of(&store, store.view().session_named(&name)?)?;
    context.out.page()?;
    if !context.out.json {
        let facts = facts(&review);
        context.out.facts(facts, 10)?;
        context.out.line("")?;
        context.out.line(since_text(&review))?;
    }
    let files = Comparison {
        store: &store,
        changes: review.changes.clone(),
        read_new: Box::new(store_content(&store)),
        lists_all: context.out.json,
    };
    if review.since.is_some() || context.out.json {
        files.print_files(&mut context.out)?;
    }
    if context.out.json {
        context.out.object(Line::Review(Box::new(wire::Review::of(&review))))?;
    } else {
        rest(context, &review)?;
    }
    let (id, checkpoint) = (review.session.id.clone(), review.newest.id());
    let waiting = review.waiting.iter().map(ToString::to_string).collect();
    context.out.summary(Summary::SessionReview { id, checkpoint, waiting, changes: review.changes.len() as u64 })?;
    Ok(Code::Done)
}

fn facts(review: &Review) -> Vec<(&'static str, String)> {
    let text = |text: &str| human::path(text.as_bytes());
    let (session, record, now) = (&review.session, &review.newest.record, clock::timestamp());
    let decision = match &review.approval {
        Some(approval) => {
            let by = approval.user.as_deref().map(|user| format!(" by {}", text(user))).unwrap_or_default();
            let rule = approval.rule.as_ref().map(|rule| format!(" ({})", text(rule))).unwrap_or_default();
            match approval.status {
                ApprovalStatus::Pending => format!("pending review{rule}"),
                status => format!("{}{by}{rule}", status.name()),
            }
        }
        None => "not decided".into(),
    };
    let mut facts = vec![
        ("Session", text(&session.id)),
        ("Status", format!("{} ({decision})", review.overview.observed.name())),
        ("Newest", format!("{}, {}, {}", review.newest.id(), record.trigger.name(), human::ago(record.created_at, now))),
    ];
    if review.waiting.len() > 1 {
        facts.push(("Waiting", human::count(review.waiting.len() as u64, "checkpoint")));
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
            format!("Files changed since {}, the session's first checkpoint; nobody approved one yet:", since.id())
        }
        (None, _) => "It is the session's first checkpoint; there is nothing to compare it with.".into(),
    }
}

/// Prints what stands behind the files: commands, questions, and the ways to decide.
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
    let (id, session) = (review.newest.id(), human::shell(review.session.id.as_bytes()));
    let since = review.since.as_ref().map(|since| format!("\n  parhelia diff {} {id}", since.id())).unwrap_or_default();
    context.out.remark(format!(
        "\nTo decide:\n  parhelia session approve {id}\n  parhelia session reject {id}{since}\n  parhelia log --session {session}\n  parhelia session \
         resume {session}"
    ))
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
