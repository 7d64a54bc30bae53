//! The rule that led to a policy's decision: its kind, which is acted on, and its words, which people read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The field of a decision that tells the kind of its rule.
pub const RULE_KIND: &str = "rule_kind";

/// Kind of the rule that decided, as events record it in `rule_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// It is a safety checkpoint.
    Safety,
    /// The policy's answer for the trigger.
    Trigger,
    /// The policy's answer for an agent that was killed.
    Killed,
    /// The policy is not configured.
    UnknownPolicy,
    /// The session's cost is over a limit.
    Cost,
    /// The time that was worked is over a limit.
    Duration,
    /// The number of errors has reached a limit.
    Errors,
    /// Too many files changed.
    ChangedFiles,
    /// A path that changed asks for a person.
    Path,
    /// Secrets were found, or not looked for everywhere.
    Secrets,
    /// No state before it counts as good.
    NoGoodState,
    /// It has to do with what a person rejected.
    Rejection,
    /// A later release's.
    #[serde(other)]
    Other,
}

/// The rule that led to a decision of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The kind, by which programs act.
    pub kind: RuleKind,
    /// It in words, for people.
    pub text: String,
}

/// Beginnings of the rules that releases wrote which recorded no kind; whatever else they wrote was an escalation.
const NO_ESCALATIONS: [(&str, RuleKind); 3] =
    [("trigger ", RuleKind::Trigger), ("killed", RuleKind::Killed), ("safety checkpoint", RuleKind::Safety)];

impl RuleKind {
    /// A rule of this kind, in words.
    pub fn says(self, text: impl Into<String>) -> Rule {
        Rule { kind: self, text: text.into() }
    }

    /// True if it asks for a person beyond what the policy says about triggers.
    pub fn is_escalation(self) -> bool {
        !matches!(self, RuleKind::Safety | RuleKind::Trigger | RuleKind::Killed)
    }

    /// The kind of a decision's rule, by the decision's data; none where no rule led to it.
    pub fn of_data(data: &Map<String, Value>) -> Option<Self> {
        if let Some(kind) = data.get(RULE_KIND) {
            return Some(RuleKind::deserialize(kind).unwrap_or(RuleKind::Other));
        }
        data.get("rule")?.as_str().map(Self::of_text)
    }

    /// The kind of a rule by its words: one of the policy's own, or an escalation of which no more is known.
    pub fn of_text(rule: &str) -> Self {
        let known = NO_ESCALATIONS.iter().find(|(begins, _)| rule.starts_with(begins));
        known.map_or(RuleKind::Other, |(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kind_of_a_rule_decides_and_words_only_where_there_is_none() {
        let of = |data: Value| data.as_object().and_then(RuleKind::of_data);
        let told = [
            (json!({"rule": "trigger error", "rule_kind": "path"}), Some(RuleKind::Path)),
            (json!({"rule": "path trigger matches **", "rule_kind": "trigger"}), Some(RuleKind::Trigger)),
            (json!({"rule": "trigger error, which the policy does not name"}), Some(RuleKind::Trigger)),
            (json!({"rule": "killed, which counts as trigger shutdown"}), Some(RuleKind::Killed)),
            (json!({"rule": "path trigger matches **"}), Some(RuleKind::Other)),
            (json!({"rule": "cost 7.00 USD > 5.00"}), Some(RuleKind::Other)),
            (json!({"rule": "trigger error", "rule_kind": "of a later release"}), Some(RuleKind::Other)),
            (json!({"status": "pending"}), None),
        ];
        for (data, expected) in told {
            assert_eq!(of(data.clone()), expected, "{data}");
        }
    }
}
