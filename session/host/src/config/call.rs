//! Calls from inside an agent: they may make what a person set tighter, and never looser.
//!
//! The variables of a process that an agent started can come from the agent, or from a file of the project that it works on. So an option of
//! the user's keeps the value that the user's files and the launch of the agent give it, unless the call's value is stricter in the
//! direction that the option's row of the table names.

use std::{ffi::OsString, path::PathBuf};

use serde_json::Value;

use super::options::{Kind, OPTIONS, Opt};

/// The variable with what a call said in place of what was put back, as JSON.
pub const OVERRULED: &str = "PARHELIA_OVERRULED";
/// Variables that set no option, and say as much as one.
const BESIDE_OPTIONS: [&str; 1] = ["PARHELIA_PHASES"];

/// The variables that set what is the user's, but for the store.
pub fn user_variables() -> impl Iterator<Item = &'static str> {
    let set = OPTIONS.iter().filter(|option| option.inside != Tighter::Free && option.key != "store");
    set.flat_map(|option| option.variables.iter().copied()).chain(BESIDE_OPTIONS)
}

/// The direction in which a call from inside an agent may move an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tighter {
    /// Any: the project's file may set it as well.
    Free,
    /// None.
    Fixed,
    /// To true.
    On,
    /// To false.
    Off,
    /// To a larger number.
    More,
    /// To a larger number, or to 0, which switches off what removes checkpoints.
    MoreOrNone,
    /// To a smaller number, but not to 0, which switches the limit off.
    LessNotNone,
    /// To a later word of its choice.
    Later,
    /// To a list that has everything that it had.
    Added,
}

impl Tighter {
    /// True if a value is as strict as the one in force, or stricter.
    pub fn allows(self, kind: Kind, now: &Value, asked: &Value) -> bool {
        if now == asked {
            return true;
        }
        let numbers = now.as_f64().zip(asked.as_f64());
        match self {
            Tighter::Free => true,
            Tighter::Fixed => false,
            Tighter::On => *asked == Value::Bool(true),
            Tighter::Off => *asked == Value::Bool(false),
            Tighter::More => numbers.is_some_and(|(now, asked)| asked > now),
            Tighter::MoreOrNone => numbers.is_some_and(|(now, asked)| asked == 0.0 || now != 0.0 && asked > now),
            Tighter::LessNotNone => numbers.is_some_and(|(now, asked)| asked != 0.0 && (now == 0.0 || asked < now)),
            Tighter::Later => match kind {
                Kind::Choice(words) => {
                    let place = |value: &Value| words.iter().position(|word| value.as_str() == Some(*word));
                    place(now).zip(place(asked)).is_some_and(|(now, asked)| asked > now)
                }
                _ => false,
            },
            Tighter::Added => match (now.as_array(), asked.as_array()) {
                (Some(now), Some(asked)) => now.iter().all(|entry| asked.contains(entry)),
                _ => false,
            },
        }
    }
}

/// A call, and what it says about options of the user's where it comes from inside an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// True if an agent, or what it has started, makes the call.
    pub is_agents: bool,
    /// True if that agent, or a supervisor of ours above it, is among the processes that the caller descends from.
    pub is_below: bool,
    /// True if nothing shows who started the caller, as `/proc` cannot be read.
    pub is_unseen: bool,
    /// Variables that its launch did not have, or had with another value; without a value where it took one away.
    pub variables: Vec<(String, Option<OsString>)>,
    /// The configuration file that it names.
    pub file: Option<PathBuf>,
}

/// A setting that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredSetting {
    /// The file that it stands in; none of a variable.
    pub file: Option<PathBuf>,
    /// The place where it stands, with its line, or the variable.
    pub place: String,
    /// The reason.
    pub why: String,
}

/// The reason for which a call's value of an option does not count.
pub(super) fn looser(option: &Opt) -> String {
    let may = match option.inside {
        Tighter::Free | Tighter::Fixed => "nobody else sets it",
        Tighter::On => "it may only be switched on",
        Tighter::Off => "it may only be switched off",
        Tighter::More => "it may only be raised",
        Tighter::MoreOrNone => "it may only be raised, or be 0",
        Tighter::LessNotNone => "it may only be lowered, not to 0",
        Tighter::Later => "it may only be made stricter",
        Tighter::Added => "it may only be added to",
    };
    format!("`{}` is its user's; from inside an agent, {may}", option.key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::options::find;

    #[test]
    fn each_direction_is_one_way() {
        let allows = |key: &str, now: Value, asked: Value| {
            let option = find(key).unwrap();
            option.inside.allows(option.kind, &now, &asked)
        };
        let ways = [
            ("secrets.scan", json!(false), json!(true)),
            ("approval.self_approval", json!(true), json!(false)),
            ("retention.keep_last", json!(3), json!(10)),
            ("retention.max_store_bytes", json!(10), json!(11)),
            ("retention.max_store_bytes", json!(10), json!(0)),
            ("budget.session_usd", json!(0.0), json!(5.0)),
            ("budget.session_usd", json!(5.0), json!(1.0)),
            ("approval.resume_prefer", json!("newest"), json!("approved")),
            ("approval.escalation.paths", json!(["a"]), json!(["b", "a"])),
        ];
        for (key, laxer, stricter) in ways {
            assert!(allows(key, laxer.clone(), stricter.clone()), "{key}");
            assert!(!allows(key, stricter.clone(), laxer), "{key}");
            assert!(allows(key, stricter.clone(), stricter), "{key}");
        }
        assert!(!allows("store", json!("/a"), json!("/b")) && !allows("summary.command", json!([]), json!(["x"])));
        assert!(!allows("retention.max_store_bytes", json!(0), json!(1)));
        // A calendar removes what it does not keep.
        assert!(!allows("retention.keep_daily", json!(0), json!(7)));
        // What is left out is in no checkpoint.
        assert!(!allows("secrets.on_finding", json!("report"), json!("leave_out")));
    }
}
