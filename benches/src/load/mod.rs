//! Load on the service: the real binary as a process of its own, asked over its socket by this one.

mod busy;
mod cold;
mod crowd;
mod http;
mod idle;
mod list;
mod listeners;
mod resume;
mod served;

pub use busy::{Busy, busy};
pub use cold::cold;
pub use crowd::{Crowd, crowd};
pub use idle::idle;
pub use list::{Workload, list};
pub use resume::resume;
pub use served::Place;

use std::time::Duration;

/// A line of the table.
#[derive(Debug)]
pub struct Row {
    what: String,
    measured: String,
    /// The bar, and true if it is met.
    bar: Option<(&'static str, bool)>,
}

impl Row {
    /// A figure without a bar.
    pub fn plain(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { what: what.into(), measured: measured.into(), bar: None }
    }

    /// A figure that is held against a bar.
    pub fn held(what: impl Into<String>, measured: impl Into<String>, bar: &'static str, is_met: bool) -> Self {
        Self { what: what.into(), measured: measured.into(), bar: Some((bar, is_met)) }
    }

    /// The line as Markdown.
    pub fn line(&self) -> String {
        let Self { what, measured, bar } = self;
        let (bar, met) = bar.map_or(("", ""), |(bar, is_met)| (bar, if is_met { "yes" } else { "**no**" }));
        format!("| {what} | {measured} | {bar} | {met} |")
    }
}

/// The duration below which this share of sorted ones lies.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 0.5), Duration::from_millis(100));
        assert_eq!(percentile(&times, 0.99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 0.99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn a_bar_that_is_missed_is_shown_as_missed() {
        assert_eq!(Row::held("lost", "1", "0", false).line(), "| lost | 1 | 0 | **no** |");
        assert_eq!(Row::plain("done", "2").line(), "| done | 2 |  |  |");
    }
}
