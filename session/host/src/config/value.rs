//! Kinds of values: what fits, as TOML and as text of an environment variable.

use serde_json::{Map, Value, json};
use toml::de::DeValue;

use super::{agents, channels, integrations, servers};

/// The kind of an option's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number from 0 on.
    Count,
    /// A time in seconds, fractions allowed.
    Seconds,
    /// Bytes as a number, or a text such as `"10 MiB"`.
    Size,
    /// A path. In a file it is absolute.
    Path,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// A number from 0 on, fractions allowed.
    Number,
    /// A word.
    Text,
    /// A list of texts.
    List,
    /// Policies of approval by name, each a table.
    Policies,
    /// Channels of notifications by name, each a table.
    Channels,
    /// A secret: a text with `${NAME}` of an environment variable.
    Secret,
    /// Overrides of issue trackers for projects by folder, each a table.
    Projects,
    /// MCP servers by name, each a table.
    Servers,
    /// Kinds of agents, each a table.
    Agents,
}

impl Kind {
    /// Describes the values that fit, in words.
    pub fn describe(self) -> String {
        match self {
            Kind::Bool => "true or false".into(),
            Kind::Count => "a whole number from 0 on".into(),
            Kind::Seconds => "seconds".into(),
            Kind::Size => "bytes, or a size such as \"10 MiB\"".into(),
            Kind::Path => "an absolute path".into(),
            Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Kind::Number => "a number from 0 on".into(),
            Kind::Text => "a text".into(),
            Kind::List => "a list of texts".into(),
            Kind::Policies => {
                "tables with auto_approve and require_review, lists of triggers, and auto_resume, true or false".into()
            }
            Kind::Channels => "tables with type and what that needs".into(),
            Kind::Secret => "\"${NAME}\" of an environment variable".into(),
            Kind::Projects => "tables by folder with github, linear, on_error, on_approval".into(),
            Kind::Servers => {
                "tables with state_files, a list of paths, supports_checkpoint, true or false, and timeout_seconds".into()
            }
            Kind::Agents => "tables, as docs/agents.md has them".into(),
        }
    }

    /// A value of a file. Fails with what would fit.
    pub(super) fn read_toml(self, value: &DeValue) -> Result<Value, String> {
        let integer = || value.as_integer().and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let found = match self {
            Kind::Bool => value.as_bool().map(Value::from),
            Kind::Count => integer().map(Value::from),
            Kind::Size => integer().or_else(|| value.as_str().and_then(size)).map(Value::from),
            Kind::Seconds => integer().map(|n| n as f64).or_else(|| value.as_float()?.as_str().parse().ok()).and_then(seconds),
            Kind::Path => value.as_str().and_then(path),
            Kind::Choice(words) => value.as_str().filter(|word| words.contains(word)).map(Value::from),
            Kind::Number => integer().map(|n| n as f64).or_else(|| value.as_float()?.as_str().parse().ok()).and_then(number),
            Kind::Text => value.as_str().filter(|text| !text.is_empty()).map(Value::from),
            Kind::List => list(value),
            Kind::Policies => policies(value),
            Kind::Channels => match json_of(value) {
                Some(value @ Value::Object(_)) => return channels::checked(value),
                _ => None,
            },
            Kind::Secret => value.as_str().filter(|text| channels::is_whole(text)).map(Value::from),
            Kind::Projects => match json_of(value) {
                Some(value @ Value::Object(_)) => return integrations::checked(value),
                _ => None,
            },
            Kind::Servers => match json_of(value) {
                Some(value @ Value::Object(_)) => return servers::checked(value),
                _ => None,
            },
            Kind::Agents => match json_of(value) {
                Some(value @ Value::Array(_)) => return agents::checked(value),
                _ => None,
            },
        };
        found.ok_or_else(|| format!("expected {}", self.describe()))
    }

    /// A value of an environment variable. Fails with what would fit.
    pub(super) fn read_text(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let found = match self {
            Kind::Bool => match text {
                "true" | "1" | "yes" | "on" => Some(true.into()),
                "false" | "0" | "no" | "off" => Some(false.into()),
                _ => None,
            },
            Kind::Count => text.parse::<u64>().ok().map(Value::from),
            Kind::Size => text.parse().ok().or_else(|| size(text)).map(Value::from),
            Kind::Seconds => text.parse().ok().and_then(seconds),
            Kind::Number => text.parse().ok().and_then(number),
            Kind::Text => (!text.is_empty()).then(|| text.into()),
            // Nothing that fits a variable.
            Kind::Policies | Kind::Channels | Kind::Secret | Kind::Projects | Kind::Servers | Kind::Agents => None,
            // Relative to where the command is run, as a flag's value is.
            Kind::Path => Some(text.into()),
            Kind::Choice(words) => words.contains(&text).then(|| text.into()),
            Kind::List => Some(text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect::<Vec<_>>().into()),
        };
        found.ok_or_else(|| format!("'{text}' does not fit; expected {}", self.describe()))
    }
}

fn path(text: &str) -> Option<Value> {
    std::path::Path::new(text).is_absolute().then(|| text.into())
}

fn list(value: &DeValue) -> Option<Value> {
    let texts = value.as_array()?.iter().map(|entry| entry.get_ref().as_str()).collect::<Option<Vec<_>>>();
    texts.map(Value::from)
}

fn policies(value: &DeValue) -> Option<Value> {
    let policy = |value: &DeValue| {
        let fields = value.as_table()?.iter().map(|(name, value)| {
            let read = match &**name.get_ref() {
                "auto_approve" | "require_review" => list(value.get_ref()),
                "auto_resume" => value.get_ref().as_bool().map(Value::from),
                _ => None,
            };
            Some((name.get_ref().to_string(), read?))
        });
        fields.collect::<Option<Map<_, _>>>().map(Value::Object)
    };
    let named = value.as_table()?.iter().map(|(name, value)| Some((name.get_ref().to_string(), policy(value.get_ref())?)));
    named.collect::<Option<Map<_, _>>>().map(Value::Object)
}

/// A value as JSON; none for what JSON has not, such as a date.
fn json_of(value: &DeValue) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(truth) => Value::from(*truth),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.into(),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?.into(),
        DeValue::Array(entries) => entries.iter().map(|entry| json_of(entry.get_ref())).collect::<Option<Vec<_>>>()?.into(),
        DeValue::Table(fields) => {
            let fields = fields.iter().map(|(name, value)| Some((name.get_ref().to_string(), json_of(value.get_ref())?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
        DeValue::Datetime(_) => return None,
    })
}

fn number(number: f64) -> Option<Value> {
    (number.is_finite() && number >= 0.0).then(|| json!(number))
}

/// Up to 30 years, so that no sum of times overflows.
fn seconds(number: f64) -> Option<Value> {
    (0.0..=1e9).contains(&number).then(|| json!(number))
}

/// A number with a unit: powers of 1024, or of 1000 without the `i`.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("10", 10), ("10 MiB", 10 << 20), ("3GB", 3_000_000_000), (" 1 K ", 1024), ("0B", 0)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5 MiB", "10 XB", "99999999999 TiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn variables_are_text() {
        assert_eq!(Kind::Bool.read_text("off"), Ok(false.into()));
        assert_eq!(Kind::List.read_text("a, b,,"), Ok(json!(["a", "b"])));
        assert_eq!(Kind::Seconds.read_text("0.5"), Ok(json!(0.5)));
        for (kind, bad) in [(Kind::Bool, "maybe"), (Kind::Count, "-1"), (Kind::Seconds, "nan"), (Kind::Choice(&["a"]), "b")] {
            assert!(kind.read_text(bad).unwrap_err().contains("expected"), "{bad}");
        }
    }
}
