//! Values of a record that have names. Later releases may add names; what this one does not know is kept, and shown as it is.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Length of the longest word, in bytes.
const WORD_BYTES_MAX: usize = 31;

/// A name that a later release has given a meaning: 1 to 31 of `a` to `z`, `0` to `9` and `_`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word {
    bytes: u8,
    text: [u8; WORD_BYTES_MAX],
}

impl Word {
    /// The word; `None` where the text is none.
    pub fn new(text: &str) -> Option<Self> {
        let is_word = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        let mut word = Word { bytes: u8::try_from(text.len()).ok()?, text: [0; WORD_BYTES_MAX] };
        word.text.get_mut(..text.len()).filter(|_| is_word && !text.is_empty())?.copy_from_slice(text.as_bytes());
        Some(word)
    }

    /// The word as text.
    pub fn as_str(&self) -> &str {
        self.text.get(..usize::from(self.bytes)).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// The reason for which a checkpoint was made. `trigger_detail` says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// At intervals, or between turns.
    Periodic,
    /// The user detached from the terminal.
    Detach,
    /// Something failed.
    Error,
    /// The task is done.
    Complete,
    /// The machine or container is about to stop.
    Shutdown,
    /// Somebody asked for it.
    #[default]
    Manual,
    /// A later release's.
    Other(Word),
}

impl Trigger {
    /// All that can be asked for.
    pub const ALL: [Trigger; 6] =
        [Trigger::Periodic, Trigger::Detach, Trigger::Error, Trigger::Complete, Trigger::Shutdown, Trigger::Manual];

    /// Its name, as stored.
    pub fn name(&self) -> &str {
        match self {
            Trigger::Periodic => "periodic",
            Trigger::Detach => "detach",
            Trigger::Error => "error",
            Trigger::Complete => "complete",
            Trigger::Shutdown => "shutdown",
            Trigger::Manual => "manual",
            Trigger::Other(word) => word.as_str(),
        }
    }
}

/// The agent's state while the workspace was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Nothing: the checkpoint lies between two turns.
    TurnBoundary,
    /// A tool was running.
    MidTool,
    /// Not known.
    #[default]
    Unknown,
    /// A later release's.
    Other(Word),
}

impl Consistency {
    const ALL: [Consistency; 3] = [Consistency::TurnBoundary, Consistency::MidTool, Consistency::Unknown];

    /// Its name, as stored.
    pub fn name(&self) -> &str {
        match self {
            Consistency::TurnBoundary => "turn_boundary",
            Consistency::MidTool => "mid_tool",
            Consistency::Unknown => "unknown",
            Consistency::Other(word) => word.as_str(),
        }
    }
}

impl Serialize for Trigger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Trigger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        named(deserializer, &Trigger::ALL, Trigger::name, Trigger::Other)
    }
}

impl Serialize for Consistency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Consistency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        named(deserializer, &Consistency::ALL, Consistency::name, Consistency::Other)
    }
}

/// The known value of a name, or else the name itself.
pub(super) fn named<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    known: &[T],
    name: impl Fn(&T) -> &str,
    other: impl Fn(Word) -> T,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = known.iter().find(|value| name(value) == text).copied();
    found.or_else(|| Word::new(&text).map(other)).ok_or_else(|| de::Error::custom("not a word"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_later_release_is_kept_and_shown_as_it_is() {
        for text in ["periodic", "manual", "mood", "a_2", "abcdefghijklmnopqrstuvwxyz01234"] {
            let json = serde_json::Value::from(text);
            let trigger: Trigger = serde_json::from_value(json.clone()).unwrap();
            assert_eq!((trigger.name(), serde_json::to_value(trigger).unwrap()), (text, json.clone()));
            assert_eq!(matches!(trigger, Trigger::Other(_)), Trigger::ALL.iter().all(|known| known.name() != text));
            let consistency: Consistency = serde_json::from_value(json.clone()).unwrap();
            assert_eq!((consistency.name(), serde_json::to_value(consistency).unwrap()), (text, json));
        }
        for known in Consistency::ALL {
            assert_eq!(serde_json::from_value::<Consistency>(known.name().into()).unwrap(), known);
        }
        for text in ["", "Mood", "a b", "a-b", "é", "\u{1b}[2J", "abcdefghijklmnopqrstuvwxyz012345"] {
            assert!(serde_json::from_value::<Trigger>(text.into()).is_err(), "{text:?}");
        }
        assert!(serde_json::from_value::<Trigger>(1.into()).is_err());
    }
}
