//! Everything that a review cannot show, because rules left it out of the checkpoint; and the rules that are new since then.
//!
//! Rules may come from a file of the project, which an agent can write: what they leave out is no part of any comparison.

use std::collections::BTreeMap;

use parhelia_ledger::{ApprovalStatus, LedgerView as _};
use parhelia_store::{
    Store, name,
    omitted::{Omission, Reason},
    record::{Checkpoint, Rules},
};

use parhelia_host::Result;
use schemars::JsonSchema;
use serde::Serialize;

/// So many paths of a rule are named.
pub const PATHS_MAX: usize = 20;

/// Entries that one rule leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LeftOutBy")]
pub struct ByRule {
    /// The rule; empty for what can be made again.
    pub rule: String,
    /// Number of entries. One that is a folder stands for everything in it.
    pub entries: u64,
    /// Those of them that the approved checkpoint did not leave out.
    pub new: u64,
    /// The first 20 paths, new ones before others.
    pub paths: Vec<String>,
}

/// Everything that rules leave out of a checkpoint, beside the last one before it that a person approved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exclusions {
    /// Entries that somebody's rules leave out, by rule.
    pub by_rule: Vec<ByRule>,
    /// Entries that are left out because they can be made again, as their names and their neighbours say.
    pub regenerable: ByRule,
    /// Rules that the approved one did not have; all where there is none.
    pub rules_added: Vec<String>,
    /// Rules that only that one had.
    pub rules_removed: Vec<String>,
}

impl Exclusions {
    /// Of a checkpoint, beside the last one before it that a person approved, if there is any. Where a person has approved the checkpoint
    /// itself, nothing of it is new.
    pub fn of(store: &Store, approved: Option<&Checkpoint>, now: &Checkpoint) -> Result<Self> {
        let decision = store.view().marks(now.record.id)?.approval;
        let is_settled = decision.is_some_and(|decision| decision.status == ApprovalStatus::Approved && decision.is_by_person());
        let approved = if is_settled { Some(now) } else { approved };
        let before = approved.map(|approved| store.omissions(approved)).transpose()?;
        let rules_before = approved.map(|approved| in_words(&approved.record.rules)).unwrap_or_default();
        let rules_now = in_words(&now.record.rules);
        let lacks = |all: &[String], rules: &[String]| -> Vec<String> {
            rules.iter().filter(|rule| !all.contains(rule)).cloned().collect()
        };
        let mut unseen = of_omissions(before.as_deref().unwrap_or_default(), &store.omissions(now)?);
        unseen.rules_added = lacks(&rules_before, &rules_now);
        unseen.rules_removed = lacks(&rules_now, &rules_before);
        Ok(unseen)
    }

    /// The number of entries that somebody's rules leave out.
    pub fn entries(&self) -> u64 {
        self.by_rule.iter().map(|by| by.entries).sum()
    }

    /// True if there is nothing that a person should know before a decision.
    pub fn is_empty(&self) -> bool {
        self.by_rule.is_empty() && self.rules_added.is_empty() && self.rules_removed.is_empty()
    }
}

fn of_omissions(before: &[Omission], now: &[Omission]) -> Exclusions {
    // They are in order.
    let is_known = |omission: &Omission| before.binary_search(omission).is_ok();
    let mut by: BTreeMap<(bool, &str), (ByRule, Vec<String>)> = BTreeMap::new();
    for omission in now {
        let Reason::Excluded(rule) = &omission.reason else { continue };
        let rule = kind_of(rule);
        let is_regenerable = omission.reason.is_regenerable();
        let (found, old) = by.entry((is_regenerable, if is_regenerable { "" } else { rule })).or_default();
        found.rule = if is_regenerable { String::new() } else { rule.to_owned() };
        found.entries += 1;
        let is_new = !is_known(omission);
        found.new += u64::from(is_new);
        let paths = if is_new { &mut found.paths } else { old };
        if paths.len() < PATHS_MAX {
            paths.push(name::display(&omission.path));
        }
    }
    let mut unseen = Exclusions::default();
    for ((is_regenerable, _), (mut found, old)) in by {
        found.paths.extend(old);
        found.paths.truncate(PATHS_MAX);
        match is_regenerable {
            true => unseen.regenerable = found,
            false => unseen.by_rule.push(found),
        }
    }
    unseen
}

/// A rule without what is true of one entry alone: possible secrets are named with their kind and line.
fn kind_of(rule: &str) -> &str {
    match rule.split_once(": ") {
        Some((kind, _)) if !rule.starts_with("pattern ") && !rule.starts_with("holds ") => kind,
        _ => rule,
    }
}

/// Rules in words, as reasons of omissions have them. What can be made again is no rule of somebody's.
fn in_words(rules: &Rules) -> Vec<String> {
    let patterns = rules.patterns.iter().map(|pattern| format!("pattern {pattern}"));
    let present = rules.if_present.iter().map(|tag| format!("holds {tag}"));
    let flags = [
        (rules.caches, "folders with a CACHEDIR.TAG"),
        (rules.one_file_system, "other filesystems"),
        (rules.listed_only, "everything that was not listed"),
    ];
    let flags = flags.into_iter().filter(|(is_on, _)| *is_on).map(|(_, words)| words.to_owned());
    patterns.chain(present).chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, rule: &str) -> Omission {
        Omission { path: path.into(), reason: Reason::Excluded(rule.into()) }
    }

    #[test]
    fn entries_are_named_by_rule_and_new_ones_come_first() {
        let before = [of("a.log", "pattern *.log"), of("node_modules", "node_modules beside package.json")];
        let now = [
            of("a.log", "pattern *.log"),
            of("b.log", "pattern *.log"),
            of("lib", "CACHEDIR.TAG"),
            of("key", "possible secret: token in line 3"),
            of("key2", "possible secret: token in line 4"),
            of("node_modules", "node_modules beside package.json"),
            of("target", "target beside Cargo.toml"),
            Omission { path: b"socket".to_vec(), reason: Reason::Changing },
        ];
        let unseen = of_omissions(&before, &now);
        let told: Vec<_> = unseen.by_rule.iter().map(|by| (by.rule.as_str(), by.entries, by.new, by.paths.join(" "))).collect();
        let expected = [
            ("CACHEDIR.TAG", 1, 1, "lib".to_owned()),
            ("pattern *.log", 2, 1, "b.log a.log".to_owned()),
            ("possible secret", 2, 2, "key key2".to_owned()),
        ];
        assert_eq!(told, expected);
        assert_eq!((unseen.regenerable.entries, unseen.regenerable.new, unseen.entries()), (2, 1, 5));
    }

    #[test]
    fn rules_are_those_that_leave_out() {
        let rules = Rules { defaults: true, patterns: vec!["*.py".into()], one_file_system: true, ..Rules::default() };
        assert_eq!(in_words(&rules), ["pattern *.py", "other filesystems"]);
        assert!(in_words(&Rules { defaults: true, ..Rules::default() }).is_empty());
    }
}
