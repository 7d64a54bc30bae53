//! `stats`: what is in the store, and what it costs.

use parhelia_screen::human;
use parhelia_store::stats;
use parhelia_wire::{Line, Summary};

use crate::{
    context::Context,
    exit::{Code, Result},
    layout::Table,
    output::Style,
};

/// Counts and prints.
pub fn run(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    let progress = context.progress();
    let stats = stats::stats(&store, &progress)?;
    drop(progress);
    for session in &stats.sessions {
        context.out.object(Line::Usage(session.clone()))?;
    }
    if !context.out.json {
        print(context, &stats)?;
    }
    context.out.summary(Summary::Stats(stats))?;
    Ok(Code::Done)
}

fn print(context: &mut Context, stats: &stats::Stats) -> Result<()> {
    let (bytes, packs) = (human::size(stats.pack_bytes), human::count(stats.packs, "pack"));
    let packs = format!("{bytes} in {packs} (compressed {:.2} times)", stats.compression_ratio);
    let mut unique = human::size(stats.unique_bytes);
    // Of a store without checkpoints, or of empty ones, there is nothing to divide.
    if stats.logical_bytes > 0 {
        unique = format!("{unique} (deduplicated {:.2} times)", stats.dedup_ratio);
    }
    let facts = [
        ("Checkpoints", format!("{} of {}", stats.checkpoints, human::count(stats.sessions.len() as u64, "session"))),
        ("Files", format!("{} in all checkpoints together", human::count(stats.files, "file"))),
        ("Logical", human::size(stats.logical_bytes)),
        ("Unique", unique),
        ("Stored", human::size(stats.stored_bytes)),
        ("  packs", packs),
        ("  journal", human::size(stats.journal_bytes)),
        ("  index", human::size(stats.index_bytes)),
        ("  caches", human::size(stats.cache_bytes)),
        ("Reserve", format!("{} more, for a deletion on a full disk", human::size(stats.reserve_bytes))),
        ("Waiting", format!("{} for gc", human::size(stats.condemned_bytes))),
    ];
    for (label, value) in facts {
        let label = context.out.styled(Style::Bold, format!("{label:<12}"));
        context.out.line(format!("{label}{value}"))?;
    }
    if stats.sessions.is_empty() {
        return Ok(());
    }
    let heading = ["SESSION", "CHECKPOINTS", "FILES", "SIZE", "GROWTH", "LAST"].map(str::to_owned).to_vec();
    let mut rows = vec![heading];
    rows.extend(stats.sessions.iter().map(|s| {
        vec![
            human::path(s.session.as_bytes()),
            s.checkpoints.to_string(),
            s.files.to_string(),
            human::size(s.logical_bytes),
            human::size(s.added_bytes),
            human::size(s.added_bytes_newest),
        ]
    }));
    context.out.line("")?;
    context.out.table(&Table { rows: &rows, right: &[1, 2, 3, 4, 5], ..Table::default() })
}
