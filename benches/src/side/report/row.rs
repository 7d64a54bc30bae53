//! One demand, beside the measured figure.

use crate::side::tables::Unit;

/// One demand.
#[derive(Debug, Clone)]
pub struct Row {
    /// The name of the measured figure.
    pub what: String,
    /// The unit in which the numbers are written.
    pub unit: Unit,
    /// The measured figure; none if it could not be measured.
    pub measured: Option<f64>,
    /// The demand, in words.
    pub bar: String,
    /// The demand, as a number; none if the tool it depends on was not run.
    pub limit: Option<f64>,
}

impl Row {
    /// Measured over allowed: at most 1 is good.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.measured? / self.limit?)
    }

    /// True if the demand is met; none if one of the two numbers is missing.
    pub fn met(&self) -> Option<bool> {
        self.ratio().map(|ratio| ratio <= 1.0)
    }

    /// The same in a word.
    pub fn verdict(&self) -> &'static str {
        match self.met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        }
    }
}

pub(super) fn row(what: impl Into<String>, unit: Unit, measured: Option<f64>, bar: impl Into<String>, limit: Option<f64>) -> Row {
    Row { what: what.into(), unit, measured, bar: bar.into(), limit }
}

pub(super) fn times(factor: f64, value: Option<f64>) -> Option<f64> {
    value.map(|value| value * factor)
}

pub(super) fn millis(seconds: Option<f64>) -> Option<f64> {
    times(1e3, seconds)
}
