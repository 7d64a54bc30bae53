//! `checkpoint search`: checkpoints that have some words.

use jiff::Timestamp;
use parhelia_ledger::LedgerView as _;
use parhelia_oversight::search::{Hit, Match, Query, SearchRequest, SearchResults, search};
use parhelia_screen::human;
use parhelia_store::{clock, name::NameExt as _};
use parhelia_wire::{Line, Summary, checkpoint as wire};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    output::Style,
    when,
};

/// The widest name of a field, and two spaces.
const FIELD_COLUMNS: usize = 14;

/// Flags of `checkpoint search`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Searched are tags, messages, annotations, links, sessions (id, name, first prompt), paths of files that a checkpoint \
                        changes, decisions, questions and tasks, and what user and agent said. The contents of files and the output of tools are not \
                        searched. A text is found in the first checkpoint that has it. `checkpoint find` finds paths in all \
                        checkpoints."
)]
pub struct Args {
    /// Words that a checkpoint must have, all of them; '"a phrase"' in quotes; a beginning as 'word*'
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Only those of the session with this id or name
    #[arg(short, long, value_name = "SESSION", add = complete::sessions())]
    session: Option<String>,
    /// Only those made since then: a time such as 2026-01-16, or an age such as 2h or 3d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Only the best N
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Searches and prints.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let query: Query = args.words.join(" ").parse()?;
    let store = context.open()?;
    let session = args.session.as_ref().map(|name| store.view().session_id(name)).transpose()?;
    let request = SearchRequest { query: &query, session: session.as_deref(), since: args.since, limit: args.limit };
    let found = {
        let progress = context.progress();
        search(&store, &context.host()?, &request, &progress)?
    };
    if !found.hits.is_empty() {
        context.out.page()?;
    }
    let now = clock::timestamp();
    for hit in &found.hits {
        context.out.object(Line::Found(Box::new(wire::SearchHit::of(hit))))?;
        print(context, hit, now)?;
    }
    let shown = found.hits.len() as u64;
    if found.matching == 0 {
        let place = store.path().shown();
        let searched = human::count(found.searched, "checkpoint");
        context.out.remark(format!("Nothing matches in {searched} of {place}."))?;
    } else if found.matching > shown {
        context.out.remark(format!("{} of {} that match.", human::number(shown), human::count(found.matching, "checkpoint")))?;
    }
    context.out.summary(summary(&found))?;
    Ok(Code::Done)
}

fn summary(found: &SearchResults) -> Summary {
    Summary::CheckpointSearch {
        checkpoints: found.searched,
        matching: found.matching,
        shown: found.hits.len() as u64,
        partial: found.partial,
    }
}

fn print(context: &mut Context, hit: &Hit, now: Timestamp) -> Result<()> {
    let record = &hit.checkpoint.record;
    let heading = context.out.styled(Style::Bold, hit.checkpoint.id());
    let session = human::path(record.session.as_bytes());
    context.out.line(format!("{heading}  {session}  {}", human::ago(record.created_at, now)))?;
    let mut before = None;
    for found in &hit.matches {
        let field = if before.replace(found.field) == Some(found.field) { "" } else { found.field.name() };
        let text = excerpt(context, found);
        context.out.paragraph(format!("  {field:FIELD_COLUMNS$}{text}"), FIELD_COLUMNS + 2)?;
    }
    Ok(())
}

/// The excerpt with what matches made to stand out.
fn excerpt(context: &Context, found: &Match) -> String {
    let pieces = found.pieces.iter().map(|piece| match piece.is_match {
        true => context.out.styled(Style::Yellow, &piece.text),
        false => piece.text.clone(),
    });
    pieces.collect()
}
