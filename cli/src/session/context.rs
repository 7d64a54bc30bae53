//! `session context`: how full the model's window is, and the conversation made shorter.

use parhelia_agent::transcript::window::Windows;
use parhelia_host::conversation::added::READ_BYTES_MAX;
use parhelia_knowledge::window::{self, LimitSource, Report, Share, Source, markdown, tokenizer::Accuracy};
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_screen::human;
use parhelia_store::{Store, record::Checkpoint};
use parhelia_wire::{Summary, context as wire};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    layout::Table,
};

/// Flags of `session context`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name [default: the one of this folder's newest checkpoint]
    #[arg(add = complete::sessions(), conflicts_with = "checkpoint")]
    session: Option<String>,
    /// The conversation as a checkpoint has it
    #[arg(long, value_name = "ID", add = complete::checkpoints())]
    checkpoint: Option<String>,
    /// Print the conversation as Markdown, compressed if the window is over 80 % full
    #[arg(long)]
    compressed: bool,
}

/// Prints the report, or the conversation.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (session, windows, source) = find(context, &store, args)?;
    let configured = match &session.workspace {
        Some(place) => context.config(&place.folder())?,
        None => context.own_config()?,
    };
    let report = window::report(&windows, configured.context.window_tokens);
    let text = args.compressed.then(|| markdown::conversation(report.pieces(&windows)));
    let checkpoint = match &source {
        Source::Checkpoint(checkpoint) => Some(checkpoint.id()),
        Source::Transcript(_) => None,
    };
    context.out.page()?;
    match &text {
        _ if context.out.json => {}
        Some(text) => text.lines().try_for_each(|line| context.out.line(line))?,
        None => print(context, &session, checkpoint.as_deref(), &report)?,
    }
    context.out.summary(Summary::SessionContext(Box::new(wire::Context::of(session.id, checkpoint, &report, text))))?;
    Ok(Code::Done)
}

/// The conversation that is asked for.
fn find(context: &Context, store: &Store, args: &Args) -> Result<(Session, Windows, Source)> {
    let none = |id: &str| {
        Failure::Usage(format!("{id} has no conversation: only sessions of agents have one\n`parhelia session list` lists them"))
    };
    if let Some(selector) = &args.checkpoint {
        let checkpoint: Checkpoint = context.find(store, selector)?;
        let session = store.view().session_named(&checkpoint.record.session)?;
        let windows = window::of_checkpoint(store, &checkpoint, READ_BYTES_MAX)?.ok_or_else(|| none(&checkpoint.id()))?;
        return Ok((session, windows, Source::Checkpoint(Box::new(checkpoint))));
    }
    let name = match &args.session {
        Some(name) => name.clone(),
        None => context.find(store, "latest")?.record.session,
    };
    let session = store.view().session_named(&name)?;
    let (windows, source) = window::of_session(store, &context.host()?, &session)?.ok_or_else(|| none(&session.id))?;
    Ok((session, windows, source))
}

fn print(context: &mut Context, session: &Session, checkpoint: Option<&str>, report: &Report) -> Result<()> {
    let limit = report.limit;
    let known = match limit.known {
        LimitSource::Configured => "as configured",
        LimitSource::Reported => "as the agent says",
        LimitSource::ByModel => "by the model's name",
        LimitSource::Assumed => "assumed",
    };
    let model = report.model.as_deref().map(|model| human::path(model.as_bytes())).unwrap_or_else(|| "unknown".into());
    let mut facts = vec![("Session", human::path(session.id.as_bytes()))];
    facts.extend(checkpoint.map(|id| ("Checkpoint", id.to_owned())));
    facts.extend([("Model", model), ("Window", format!("{} tokens, {known}", limit.tokens))]);
    context.out.facts(facts, 14)?;
    context.out.line("")?;
    context.out.table(&Table { rows: &rows(report), right: &[1, 2, 3], ..Table::default() })?;
    context.out.line("")?;
    context.out.facts(totals(report), 14)?;
    Ok(())
}

fn rows(report: &Report) -> Vec<Vec<String>> {
    let limit = report.limit.tokens;
    let mut rows = vec![["Share", "Tokens", "Percent", "Budget", ""].map(str::to_owned).to_vec()];
    for share in Share::ALL {
        let tokens = report.measured.tokens(share);
        let title = match share {
            Share::System => "System prompt",
            Share::Memory => "Project memory",
            Share::Summary => "Summary",
            Share::Recent => "Recent conversation",
            Share::Tools => "Tool results",
        };
        let over = if tokens > share.budget(limit) { "over its budget" } else { "" };
        let percent = format!("{:.1} %", window::percent(tokens, limit));
        rows.push(vec![title.into(), tokens.to_string(), percent, format!("{} %", share.percent()), over.into()]);
    }
    rows
}

fn totals(report: &Report) -> Vec<(&'static str, String)> {
    let limit = report.limit.tokens;
    let counted = match report.counted {
        Accuracy::Exactly => "counted with the model's tokenizer",
        Accuracy::Estimated => "an estimate: the model's own tokenizer is not public",
    };
    let total = report.measured.total();
    let mut facts = vec![("Measured", format!("{total} tokens, {:.1} %; {counted}", window::percent(total, limit)))];
    facts.push(match report.reported_tokens {
        Some(tokens) => {
            let text = "reported by the agent, with what no transcript shows";
            ("Reported", format!("{tokens} tokens, {:.1} %; {text}", window::percent(tokens, limit)))
        }
        None => ("Reported", "nothing since the window began".into()),
    });
    facts.push(match report.compressed_tokens {
        Some(after) => ("Compressed", format!("yes: from {total} to {after} tokens")),
        None => ("Compressed", format!("no: the window is not over {} % full", window::ACT_ABOVE_PERCENT)),
    });
    let after = report.compressed_density.map(|after| format!(", {after:.2} compressed")).unwrap_or_default();
    facts.push(("Density", format!("{:.2}{after}", report.density)));
    facts
}
