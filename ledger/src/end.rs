//! The end of a run: how its program ended, and at whose wish.

use parhelia_store::record::Cause;
use serde::{Deserialize, Serialize};

/// The end of a run, as a field of its own: what is decided by it is not read out of the reason, which is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The way in which the run ended.
    pub kind: EndKind,
    /// The exit code of the program, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended the program, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The wish at which it ended; none where nobody asked for it through the product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
}

/// The way in which a run ended, as far as somebody saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The program ended with an exit code.
    Exited,
    /// A signal ended the program.
    Signalled,
    /// It was ended on purpose, and nobody saw how the program took that.
    Asked,
    /// The program never ran.
    NotStarted,
    /// The agent did not know the conversation that it was to go on with.
    ConversationUnknown,
    /// The agent said that its session ends.
    SessionEnd,
    /// Nothing is known of it, or a later release's.
    #[serde(other)]
    Unknown,
}

/// Wishes at which runs end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The session was set aside.
    Pause,
    /// The agent was stopped.
    Stop,
    /// It was stopped for a rollback.
    Rollback,
    /// The session was ended for good.
    End,
    /// A resume began anew.
    Resume,
    /// The supervisor, the terminal or the machine was asked to end.
    Shutdown,
    /// A later release's.
    #[serde(other)]
    Other,
}

impl By {
    /// The cause of the checkpoint that is made at such an end.
    pub fn cause(self) -> Cause {
        match self {
            By::Pause => Cause::Pause,
            By::Stop | By::Rollback => Cause::Stop,
            By::End => Cause::End,
            By::Resume | By::Shutdown | By::Other => Cause::Shutdown,
        }
    }

    /// It as a reason, for people.
    pub fn reason(self) -> &'static str {
        match self {
            By::Pause => "paused",
            By::Stop => "stopped",
            By::Rollback => "stopped for a rollback",
            By::End => "the session was ended",
            By::Resume => "a new conversation begins",
            By::Shutdown => "asked to end",
            By::Other => "ended on purpose",
        }
    }
}

impl End {
    /// An end of a kind of which no more is known.
    pub fn of(kind: EndKind) -> Self {
        End { kind, code: None, signal: None, by: None }
    }

    /// An end that somebody asked for, of whose program no more is known.
    pub fn asked(by: By) -> Self {
        End { by: Some(by), ..End::of(EndKind::Asked) }
    }

    /// The end of a program with an exit code.
    pub fn exited(code: i32) -> Self {
        End { code: Some(code), ..End::of(EndKind::Exited) }
    }

    /// The end of a program by a signal.
    pub fn signalled(signal: i32) -> Self {
        End { signal: Some(signal), ..End::of(EndKind::Signalled) }
    }

    /// True if the program ended of its own accord with exit code 0.
    pub fn has_finished(&self) -> bool {
        self.kind == EndKind::Exited && self.code == Some(0) && self.by.is_none()
    }

    /// True if the program ended of its own accord with another exit code.
    pub fn has_failed(&self) -> bool {
        self.kind == EndKind::Exited && self.code != Some(0) && self.by.is_none()
    }

    /// True if a signal that nobody of the product sent ended the program.
    pub fn was_killed(&self) -> bool {
        self.kind == EndKind::Signalled && self.by.is_none()
    }

    /// True if nobody asked for it: the program ended by itself, or by a signal of others.
    pub fn is_unasked(&self) -> bool {
        self.has_finished() || self.has_failed() || self.was_killed()
    }

    /// It as a reason, for people.
    pub fn reason(&self) -> String {
        let of_process = match (self.kind, self.code, self.signal) {
            (EndKind::Exited, Some(code), _) => Some(format!("ended with exit code {code}")),
            (EndKind::Signalled, _, Some(signal)) => Some(format!("was ended by signal {signal}")),
            (EndKind::ConversationUnknown, ..) => Some("the agent does not know its conversation".to_owned()),
            _ => None,
        };
        match (self.by, of_process) {
            (Some(by), Some(process)) => format!("{}; {process}", by.reason()),
            (Some(by), None) => by.reason().to_owned(),
            (None, Some(process)) => process,
            (None, None) => "ended".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_somebody_asked_for_is_none_of_its_own_accord() {
        let asked = |end: End| End { by: Some(By::Pause), ..end };
        assert!(End::exited(0).has_finished() && End::exited(3).has_failed() && End::signalled(9).was_killed());
        for end in [End::exited(0), End::exited(143), End::signalled(15)] {
            assert!(end.is_unasked() && !asked(end).is_unasked(), "{end:?}");
        }
        assert_eq!(asked(End::signalled(15)).reason(), "paused; was ended by signal 15");
        let text = serde_json::to_string(&asked(End::signalled(15))).unwrap();
        assert_eq!(text, r#"{"kind":"signalled","signal":15,"by":"pause"}"#);
        let later: End = serde_json::from_str(r#"{"kind":"evaporated","by":"weather"}"#).unwrap();
        assert_eq!(later, End { by: Some(By::Other), ..End::of(EndKind::Unknown) });
    }
}
