//! Fullness of the model's window, for the log. An agent takes no words before it compacts its conversation, and at a turn's end words would
//! make it go on; it is told at the start that follows.

use parhelia_agent::hooks::{Event, Kind};

use parhelia_host::Host;
use parhelia_knowledge::window::{Share, is_full, measure::Report, of_transcript, percent, report, used_now};

/// No more of a transcript is read, from its end.
const READ_BYTES_MAX: u64 = 16 << 20;

/// A sentence about a window that is fuller than it should be, before it is compacted and at a turn's end.
pub fn fullness(host: &dyn Host, event: &Event) -> Option<String> {
    if !matches!(event.kind(), Kind::PreCompact | Kind::Stop) {
        return None;
    }
    let windows = of_transcript(event.transcript_path.as_deref()?, READ_BYTES_MAX).ok()?;
    let configured = host.config(event.cwd.as_deref()?).map_or(0, |config| config.context.window_tokens);
    let (used, limit) = used_now(&windows, configured);
    // Counting by share takes longer.
    is_full(used, limit).then(|| text(&report(&windows, configured)))
}

fn text(report: &Report) -> String {
    let source = if report.reported_tokens.is_some() { "reported by the agent" } else { "measured" };
    let share = |share: Share| format!("{} {:.0} %", share.name(), percent(report.measured.tokens(share), report.limit.tokens));
    let shares = Share::ALL.map(share).join(", ");
    format!(
        "the context window is {:.0} % full: {} of {} tokens, {source}; measured by share: {shares}",
        report.used_percent(),
        report.used_tokens(),
        report.limit.tokens,
    )
}
