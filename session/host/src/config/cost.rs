//! Prices of models, for conversations whose agent does not tell what they cost.

use std::collections::BTreeMap;

use parhelia_agent::transcript::usage::Usage;
use serde::{Deserialize, Serialize};

/// The section `[cost]`: prices by which costs are reckoned that no agent reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Prices, each as `MODEL INPUT OUTPUT [CACHE_WRITE CACHE_READ]`: the beginning of a model's name, and US dollars for a million tokens.
    pub prices: Vec<String>,
}

/// The price of a model, in US dollars for a million tokens.
#[derive(Clone, Debug, PartialEq)]
struct Price<'a> {
    model: &'a str,
    input: f64,
    output: f64,
    cache_write: f64,
    cache_read: f64,
}

impl<'a> Price<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let model = words.next()?;
        let numbers = words.map(|word| word.parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0));
        match *numbers.collect::<Option<Vec<f64>>>()? {
            // What the cache saves and costs is left out where it is not told.
            [input, output] => Some(Price { model, input, output, cache_write: input, cache_read: input }),
            [input, output, cache_write, cache_read] => Some(Price { model, input, output, cache_write, cache_read }),
            _ => None,
        }
    }

    fn of(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_creation_input_tokens, self.cache_write),
            (usage.cache_read_input_tokens, self.cache_read),
        ];
        parts.into_iter().map(|(tokens, price)| tokens as f64 * price / 1e6).sum()
    }
}

impl Cost {
    /// The fault of a price.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let bad = self.prices.iter().find(|text| Price::parse(text).is_none())?;
        Some((
            "cost.prices",
            format!("'{bad}' is no price; give MODEL INPUT OUTPUT, or MODEL INPUT OUTPUT CACHE_WRITE CACHE_READ"),
        ))
    }

    /// The cost of these tokens, in US dollars; none where a model has no price. Of several beginnings of a name the longest counts.
    pub fn of(&self, usage: &BTreeMap<String, Usage>) -> Option<f64> {
        let prices: Vec<Price<'_>> = self.prices.iter().filter_map(|text| Price::parse(text)).collect();
        let price = |model: &str| {
            let its = prices.iter().filter(|price| model.starts_with(price.model));
            its.max_by_key(|price| price.model.len())
        };
        let used: Vec<_> = usage.iter().filter(|(_, usage)| usage.total() > 0).collect();
        if used.is_empty() {
            return None;
        }
        used.into_iter().map(|(model, usage)| Some(price(model)?.of(usage))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_known_where_each_model_has_a_price() {
        let cost = Cost { prices: vec!["m 1 10".into(), "m-large 5 25 6.25 0.5".into()] };
        assert_eq!(cost.fault(), None);
        let usage = |input_tokens, output_tokens, cache_read_input_tokens| Usage {
            input_tokens,
            output_tokens,
            cache_read_input_tokens,
            ..Usage::default()
        };
        let of = |used: &[(&str, Usage)]| cost.of(&used.iter().map(|(model, usage)| ((*model).to_owned(), *usage)).collect());
        assert_eq!(of(&[("m-small", usage(1_000_000, 100_000, 0))]), Some(2.0));
        assert_eq!(of(&[("m-large-2", usage(0, 0, 2_000_000)), ("m", usage(0, 100_000, 0))]), Some(2.0));
        assert_eq!(of(&[("m", usage(1, 1, 1)), ("other", usage(1, 0, 0))]), None);
        assert_eq!(of(&[("m", usage(1_000_000, 0, 0)), ("<synthetic>", usage(0, 0, 0))]), Some(1.0));
        assert_eq!(of(&[]), None);
        for bad in ["m", "m 1", "m 1 2 3", "m 1 x", "m 1 -2", "m 1 inf", ""] {
            assert!(Cost { prices: vec![bad.into()] }.fault().is_some(), "{bad}");
        }
    }
}
