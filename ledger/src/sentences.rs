//! Sentences of releases that did not record the kind of a run's end: the one place where an event's text is read for its meaning. It is asked where the
//! typed field is absent, and nowhere else: what this release writes always has it.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::end::{By, End, EndKind};

const EXITED: &str = "ended with exit code ";
const SIGNALLED: &str = "was ended by signal ";
const NOT_STARTED: &str = "could not be started";
const UNKNOWN: &str = "the agent does not know its conversation";
const NEW_CONVERSATION: &str = "a new conversation begins";
const SESSION_END: &str = "session end: ";
const SESSION_ENDED: &str = "the session was ended";

/// Reasons for which somebody ended an agent; the end of its process may follow, behind `; `.
const REASONS: [(&str, By); 4] =
    [("asked to end", By::Shutdown), ("paused", By::Pause), ("stopped", By::Stop), ("stopped for a rollback", By::Rollback)];

/// The person or program at whose wish an agent was ended, by the reason that an earlier release recorded.
fn by(reason: &str) -> Option<By> {
    REASONS.iter().find(|(known, _)| *known == reason).map(|(_, by)| *by)
}

/// The end of a run that an earlier release recorded.
fn end(reason: &str) -> End {
    let of_process = |text: &str| {
        let number = |from: &str| text.strip_prefix(from).map(|number| number.parse().ok());
        let exited = number(EXITED).map(|code| End { code, ..End::of(EndKind::Exited) });
        exited.or_else(|| number(SIGNALLED).map(|signal| End { signal, ..End::of(EndKind::Signalled) }))
    };
    let (reason, rest) = reason.split_once("; ").unwrap_or((reason, ""));
    if let Some(by) = by(reason) {
        return End { by: Some(by), ..of_process(rest).unwrap_or(End::of(EndKind::Asked)) };
    }
    match reason {
        UNKNOWN => End::of(EndKind::ConversationUnknown),
        NEW_CONVERSATION => End { by: Some(By::Resume), ..End::of(EndKind::Asked) },
        SESSION_ENDED => End { by: Some(By::End), ..End::of(EndKind::Asked) },
        _ if reason.starts_with(NOT_STARTED) => End::of(EndKind::NotStarted),
        _ if reason.starts_with(SESSION_END) => End::of(EndKind::SessionEnd),
        _ => of_process(reason).unwrap_or(End::of(EndKind::Unknown)),
    }
}

impl By {
    /// The wish that a run's field of this value tells; none where it tells of none. Earlier releases gave the reason alone.
    pub fn told(by: Option<&Value>, reason: Option<&str>) -> Option<Self> {
        match by.filter(|by| !by.is_null()) {
            Some(by) => Some(By::deserialize(by).unwrap_or(By::Other)),
            None => self::by(reason?),
        }
    }
}

impl End {
    /// The end that the words of an earlier release tell.
    pub(crate) fn of_reason(reason: &str) -> Self {
        end(reason)
    }

    /// The end that an event [`RUN_ENDED`](crate::kind::RUN_ENDED) tells. Of one of an earlier release, what its reason tells.
    pub fn of_data(data: &Map<String, Value>) -> Self {
        match data.get("end").filter(|told| !told.is_null()) {
            Some(told) => End::deserialize(told).unwrap_or(End::of(EndKind::Unknown)),
            None => end(data.get("exit_reason").and_then(Value::as_str).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_earlier_releases_wrote_tell_the_end() {
        let of = |kind, code, signal, by| End { kind, code, signal, by };
        let told = [
            ("ended with exit code 0", of(EndKind::Exited, Some(0), None, None)),
            ("ended with exit code 3", of(EndKind::Exited, Some(3), None, None)),
            ("was ended by signal 9", of(EndKind::Signalled, None, Some(9), None)),
            ("paused", of(EndKind::Asked, None, None, Some(By::Pause))),
            ("paused; was ended by signal 15", of(EndKind::Signalled, None, Some(15), Some(By::Pause))),
            ("stopped; ended with exit code 143", of(EndKind::Exited, Some(143), None, Some(By::Stop))),
            ("asked to end; was ended by signal 15", of(EndKind::Signalled, None, Some(15), Some(By::Shutdown))),
            ("stopped for a rollback", of(EndKind::Asked, None, None, Some(By::Rollback))),
            ("the session was ended", of(EndKind::Asked, None, None, Some(By::End))),
            ("a new conversation begins", of(EndKind::Asked, None, None, Some(By::Resume))),
            ("the agent does not know its conversation", of(EndKind::ConversationUnknown, None, None, None)),
            ("could not be started: no such file; try again", of(EndKind::NotStarted, None, None, None)),
            ("session end: was ended by signal 9", of(EndKind::SessionEnd, None, None, None)),
            ("killed", of(EndKind::Unknown, None, None, None)),
        ];
        for (reason, expected) in told {
            assert_eq!(end(reason), expected, "{reason}");
        }
    }
}
