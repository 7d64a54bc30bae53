//! The figures of a run, and medians of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::launch::Outcome;

/// All figures of a run, raw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Outcomes by case, then by tool.
    pub samples: BTreeMap<String, BTreeMap<String, Vec<Outcome>>>,
    /// Single figures: sizes in bytes, counts, lock times.
    pub values: BTreeMap<String, f64>,
    /// While warming up, samples are dropped.
    #[serde(skip)]
    pub warming: bool,
}

impl Figures {
    /// Records an outcome.
    pub fn add(&mut self, case: &str, tool: &str, outcome: Outcome) {
        if self.warming {
            return;
        }
        self.samples.entry(case.to_owned()).or_default().entry(tool.to_owned()).or_default().push(outcome);
    }

    /// Records a single figure; a later one of the same name replaces it.
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        self.values.insert(name.into(), value);
    }

    /// A single figure.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// The samples of a tool in a case.
    pub fn of(&self, case: &str, tool: &str) -> &[Outcome] {
        self.samples.get(case).and_then(|tools| tools.get(tool)).map_or(&[], Vec::as_slice)
    }

    /// Median wall time of all samples, in seconds.
    pub fn wall_s(&self, case: &str, tool: &str) -> Option<f64> {
        median(self.of(case, tool).iter().map(|outcome| outcome.wall_s))
    }

    /// Median CPU time of all samples, user and system, in seconds.
    pub fn cpu_s(&self, case: &str, tool: &str) -> Option<f64> {
        median(self.of(case, tool).iter().map(Outcome::cpu_s))
    }

    /// The largest peak memory of all samples, in MiB.
    pub fn rss_mib(&self, case: &str, tool: &str) -> Option<f64> {
        let largest = self.of(case, tool).iter().map(|outcome| outcome.rss_kib).max();
        largest.map(|kib| kib as f64 / 1024.0)
    }
}

/// The middle value; the mean of the two middle ones of an even number.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values[values.len() / 2 - 1] + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_outliers() {
        assert_eq!(median([1.0, 100.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([1.0, 2.0, 3.0, 100.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn warming_up_leaves_no_sample() {
        let mut figures = Figures { warming: true, ..Figures::default() };
        figures.add("first", "tar", Outcome::default());
        assert!(figures.of("first", "tar").is_empty());
    }
}
