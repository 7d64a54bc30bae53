//! Labels of sessions: a value for each key, such as `env=prod`, and selectors that choose sessions by them.
//!
//! Each label is a field of its own of the session, so that two processes that set different ones at the same time lose none.

use std::{collections::BTreeMap, str::FromStr};

use parhelia_ledger::{LedgerView as _, Session, kind};
use parhelia_store::{Store, event::NewEvent, name};
use serde_json::Value;

use crate::{
    review::acts::{Act, ensure_may_act},
    who::who,
};
use parhelia_host::{Host, MarkRefusal, Observer, Refusal, Result};

/// The beginning of a session's fields that are labels.
const FIELD: &str = "label:";
/// The longest key, and the longest value, in bytes.
const BYTES_MAX: usize = 200;
/// A session has at most so many.
const LABELS_MAX: usize = 64;

/// A label's key: letters, digits, and `.`, `_`, `-` and `/` between them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let is_outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let is_key = text.len() <= BYTES_MAX && text.chars().all(is_inner) && is_outer(text.chars().next());
        match is_key && is_outer(text.chars().next_back()) {
            true => Ok(Key(text.to_owned())),
            false => refused(text, "a key has letters, digits, and '.', '_', '-' and '/' between them, in at most 200 bytes"),
        }
    }
}

/// A label of a session, such as `env=prod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The part before `=`, unique among a session's labels.
    pub key: Key,
    /// Its value, which may be empty.
    pub value: String,
}

impl Label {
    /// The label of a key and a value.
    pub fn new(key: &str, value: &str) -> Result<Self, Refusal> {
        let is_plain = name::printable(value) == value && !value.chars().any(|c| c.is_control() || c.is_whitespace());
        if value.len() > BYTES_MAX || !is_plain || value.contains([',', '=', '!']) {
            return refused(value, "a value has no spaces, none of ',', '=' and '!', and at most 200 bytes");
        }
        Ok(Label { key: key.parse()?, value: value.to_owned() })
    }
}

impl FromStr for Label {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match text.split_once('=') {
            Some((key, value)) => Label::new(key, value),
            None => refused(text, "a label has a '=' between its key and its value"),
        }
    }
}

fn refused<T>(text: &str, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal::Mark(MarkRefusal::NoLabel { label: text.to_owned(), why }))
}

/// A requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Is(Label),
    IsNot(Label),
    Has(Key),
    Lacks(Key),
}

/// A choice of sessions: requirements with `,` between them, all of which must hold: `KEY=VALUE`, `KEY!=VALUE`, `KEY`, `!KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

impl Selector {
    /// True if a session has such labels.
    pub fn matches(&self, session: &Session) -> bool {
        let value = |key: &Key| value_of(session, key);
        self.0.iter().all(|requirement| match requirement {
            Requirement::Is(label) => value(&label.key) == Some(&*label.value),
            Requirement::IsNot(label) => value(&label.key) != Some(&*label.value),
            Requirement::Has(key) => value(key).is_some(),
            Requirement::Lacks(key) => value(key).is_none(),
        })
    }
}

impl FromStr for Selector {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let requirement = |part: &str| {
            let part = part.trim();
            Ok(match (part.split_once("!="), part.split_once("==").or_else(|| part.split_once('=')), part.strip_prefix('!')) {
                (Some((key, value)), _, _) => Requirement::IsNot(Label::new(key.trim(), value.trim())?),
                (None, Some((key, value)), _) => Requirement::Is(Label::new(key.trim(), value.trim())?),
                (None, None, Some(key)) => Requirement::Lacks(key.trim().parse()?),
                (None, None, None) => Requirement::Has(part.parse()?),
            })
        };
        text.split(',').map(requirement).collect::<Result<_, Refusal>>().map(Selector)
    }
}

fn value_of<'a>(session: &'a Session, key: &Key) -> Option<&'a str> {
    session.extra.get(&format!("{FIELD}{}", key.0)).and_then(Value::as_str)
}

/// The labels of a session, by key.
pub fn of(session: &Session) -> BTreeMap<String, String> {
    let label = |(field, value): (&String, &Value)| Some((field.strip_prefix(FIELD)?.to_owned(), value.as_str()?.to_owned()));
    session.extra.iter().filter_map(label).collect()
}

/// Sets and removes labels of a session, all or none. False if it had them so already, and nothing was recorded.
pub fn change(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    (set, remove): (&[Label], &[Key]),
    observer: &dyn Observer,
) -> Result<bool> {
    ensure_may_act(store, host, Act::new("session label"), Some(&session.id), observer)?;
    let session = store.refresh()?.session(&session.id)?.unwrap_or_else(|| session.clone());
    let set: Vec<&Label> = set.iter().filter(|label| value_of(&session, &label.key) != Some(&*label.value)).collect();
    let remove: Vec<&Key> = remove.iter().filter(|key| value_of(&session, key).is_some()).collect();
    if set.is_empty() && remove.is_empty() {
        return Ok(false);
    }
    let mut after = of(&session);
    after.retain(|key, _| !remove.iter().any(|removed| removed.0 == *key));
    after.extend(set.iter().map(|label| (label.key.0.clone(), label.value.clone())));
    if after.len() > LABELS_MAX {
        return Err(Refusal::Mark(MarkRefusal::TooManyLabels { session: session.id, labels_max: LABELS_MAX }).into());
    }
    let actor = who(store, host, std::slice::from_ref(&session.id))?.actor(host);
    let event = NewEvent::new(kind::SESSION_CHANGED, &session.id, actor);
    let event = remove.iter().fold(event, |event, key| event.with(&format!("{FIELD}{}", key.0), Value::Null));
    let event = set.iter().fold(event, |event, label| event.with(&format!("{FIELD}{}", label.key.0), label.value.clone()));
    store.append_events(&[event], &())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use parhelia_ledger::Totals;
    use serde_json::json;

    use super::*;

    fn session(labels: &[(&str, Value)]) -> Session {
        let mut session: Session = serde_json::from_value(json!({
            "id": "s", "name": "s", "workspace": null, "status": "active", "status_reason": null, "head": null, "epoch": 0, "run": null,
            "runs": [], "conversations": [], "policy": null, "project": null, "first_prompt": null,
            "totals": Totals::default(), "created_at": "2026-01-01T00:00:00Z", "changed_at": "2026-01-01T00:00:00Z"
        }))
        .unwrap();
        session.extra.extend(labels.iter().map(|(key, value)| (format!("{FIELD}{key}"), value.clone())));
        session
    }

    #[test]
    fn a_selector_chooses_by_all_its_requirements() {
        let session = session(&[("env", json!("prod")), ("team/a", json!("")), ("gone", Value::Null)]);
        assert_eq!(of(&session).len(), 2);
        for (selector, matches) in [
            ("env=prod", true),
            ("env==prod", true),
            ("env = prod, team/a", true),
            ("env!=test", true),
            ("none!=test", true),
            ("team/a=", true),
            ("!gone", true),
            ("env=test", false),
            ("env!=prod", false),
            ("gone", false),
            ("!env", false),
            ("env=prod,gone", false),
        ] {
            assert_eq!(selector.parse::<Selector>().unwrap().matches(&session), matches, "{selector}");
        }
        for bad in ["", ",", "env=a=b", "=x", "!", "a b", "env=prod,", "-x", "k=\u{1b}"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }
}
