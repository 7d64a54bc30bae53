//! Matchers: the values of an event for which a hook in an agent's settings runs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::kind::Kind;

/// Events whose matchers agents do not look at.
const UNMATCHED: [&str; 4] = ["UserPromptSubmit", "Stop", "BeforeAgent", "AfterAgent"];
/// The event of a conversation that begins.
const START: &str = "SessionStart";

/// An event that comes for some of its values alone, as the matcher of our hook leaves others out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NarrowedHook")]
pub struct MatcherGap {
    /// Name of the event in the agent's settings, such as PreToolUse.
    pub event: String,
    /// The matchers of our hooks of it.
    pub matchers: Vec<String>,
    /// Values that they leave out, as far as they are known.
    pub left_out: Vec<String>,
}

impl MatcherGap {
    /// The part of an event that hooks with these matchers miss; none where they run for all of it that is wanted.
    pub(super) fn of(kind: Kind, event: &str, matchers: &[&str]) -> Option<Self> {
        let is_for_all = |matcher: &&str| matches!(matcher.trim(), "" | "*" | ".*");
        if UNMATCHED.contains(&event) || matchers.iter().any(is_for_all) {
            return None;
        }
        let wanted: Vec<&str> = match kind.matcher(event) {
            Some(matcher) => matcher.split('|').collect(),
            None if event == START => kind.start_sources().to_vec(),
            None => Vec::new(),
        };
        let words: Vec<&str> = matchers.iter().flat_map(|matcher| matcher.split('|')).map(str::trim).collect();
        let left_out: Vec<String> =
            wanted.iter().filter(|value| !words.contains(value)).map(|value| (*value).to_owned()).collect();
        let is_whole = !wanted.is_empty() && left_out.is_empty();
        let matchers = matchers.iter().map(|matcher| (*matcher).to_owned()).collect();
        (!is_whole).then(|| MatcherGap { event: event.to_owned(), matchers, left_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;

    #[test]
    fn a_matcher_that_leaves_something_out_is_narrow() {
        let left_out =
            |event: &str, matchers: &[&str]| MatcherGap::of(KINDS[0], event, matchers).map(|found| found.left_out.join(" "));
        for whole in ["", "*", ".*", "startup|resume|clear|compact"] {
            assert_eq!(left_out(START, &[whole]), None, "{whole}");
        }
        assert_eq!(left_out(START, &["startup|resume", "clear|compact"]), None);
        assert_eq!(left_out(START, &["startup"]).as_deref(), Some("resume clear compact"));
        assert_eq!(left_out("PreToolUse", &["AskUserQuestion|ExitPlanMode"]), None);
        assert_eq!(left_out("PreToolUse", &["AskUserQuestion"]).as_deref(), Some("ExitPlanMode"));
        assert_eq!(left_out("SessionEnd", &["logout"]).as_deref(), Some(""));
        assert_eq!(left_out("Stop", &["anything"]), None, "the agent does not look at it");
    }
}
