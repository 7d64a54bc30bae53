//! Causes of checkpoints: what made one, as a word of the product. Rules, notifications and retention go by it; `trigger_detail` is for people.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::named::{Word, named};

/// The cause of a checkpoint. The product's own code sets it: no text of a caller becomes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// A person or a program asked for it.
    #[default]
    Asked,
    /// A rollback, or an undo, was about to overwrite something, which it holds.
    Safety,
    /// A restore in place was about to overwrite something, which it holds.
    RestoreSafety,
    /// An archive was imported.
    Import,
    /// A run started.
    Start,
    /// An interval was over.
    Interval,
    /// The agent was given a prompt.
    Prompt,
    /// A turn of the agent ended.
    TurnEnd,
    /// The agent was about to compact its conversation.
    PreCompact,
    /// A subagent of the agent ended its work.
    Subagent,
    /// The agent asked a person something, and waited for the answer.
    Question,
    /// The model's API failed.
    ApiError,
    /// Another conversation followed in the same agent.
    Clear,
    /// The agent said that its session ends.
    SessionEnd,
    /// The user detached from the terminal.
    Detach,
    /// The session was set aside.
    Pause,
    /// The agent was stopped.
    Stop,
    /// The session was ended for good.
    End,
    /// The agent was asked to end, by whoever ends its supervisor, its terminal or its machine.
    Shutdown,
    /// The agent's program ended of its own accord.
    Exited,
    /// A signal that nobody of the product sent ended the agent.
    Killed,
    /// The agent died unseen.
    Died,
    /// A later release's.
    Other(Word),
}

impl Cause {
    /// All that this release writes.
    pub const ALL: [Cause; 22] = [
        Cause::Asked,
        Cause::Safety,
        Cause::RestoreSafety,
        Cause::Import,
        Cause::Start,
        Cause::Interval,
        Cause::Prompt,
        Cause::TurnEnd,
        Cause::PreCompact,
        Cause::Subagent,
        Cause::Question,
        Cause::ApiError,
        Cause::Clear,
        Cause::SessionEnd,
        Cause::Detach,
        Cause::Pause,
        Cause::Stop,
        Cause::End,
        Cause::Shutdown,
        Cause::Exited,
        Cause::Killed,
        Cause::Died,
    ];

    /// True of checkpoints that hold what something was about to overwrite.
    pub fn is_safety(self) -> bool {
        matches!(self, Cause::Safety | Cause::RestoreSafety)
    }

    /// Its name, as stored.
    pub fn name(&self) -> &str {
        match self {
            Cause::Asked => "asked",
            Cause::Safety => "safety",
            Cause::RestoreSafety => "restore_safety",
            Cause::Import => "import",
            Cause::Start => "start",
            Cause::Interval => "interval",
            Cause::Prompt => "prompt",
            Cause::TurnEnd => "turn_end",
            Cause::PreCompact => "pre_compact",
            Cause::Subagent => "subagent",
            Cause::Question => "question",
            Cause::ApiError => "api_error",
            Cause::Clear => "clear",
            Cause::SessionEnd => "session_end",
            Cause::Detach => "detach",
            Cause::Pause => "pause",
            Cause::Stop => "stop",
            Cause::End => "end",
            Cause::Shutdown => "shutdown",
            Cause::Exited => "exited",
            Cause::Killed => "killed",
            Cause::Died => "died",
            Cause::Other(word) => word.as_str(),
        }
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        named(deserializer, &Cause::ALL, Cause::name, Cause::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_as_it_was_written_and_one_of_a_later_release_is_kept() {
        for cause in Cause::ALL {
            let json = serde_json::to_value(cause).unwrap();
            assert_eq!((json.as_str(), serde_json::from_value(json.clone()).ok()), (Some(cause.name()), Some(cause)));
        }
        let later: Cause = serde_json::from_value("mood".into()).unwrap();
        assert_eq!((later.name(), matches!(later, Cause::Other(_))), ("mood", true));
        assert!(Cause::ALL.iter().filter(|cause| cause.is_safety()).eq(&[Cause::Safety, Cause::RestoreSafety]));
        assert!(serde_json::from_value::<Cause>("was ended by signal 9".into()).is_err());
    }
}
