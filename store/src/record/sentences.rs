//! Sentences of releases that did not record the cause of a checkpoint: the one place where a record's text is read for its meaning. It is asked
//! where the typed field is absent, and nowhere else: what this release writes always has it.

use super::{Cause, Trigger};

/// Details of checkpoints, each whole.
const DETAILS: [(&str, Cause); 16] = [
    ("safety", Cause::Safety),
    ("import", Cause::Import),
    ("start", Cause::Start),
    ("interval", Cause::Interval),
    ("prompt", Cause::Prompt),
    ("turn_end", Cause::TurnEnd),
    ("pre_compact", Cause::PreCompact),
    ("subagent", Cause::Subagent),
    ("clear", Cause::Clear),
    ("resume", Cause::Clear),
    ("tmux", Cause::Detach),
    ("pause", Cause::Pause),
    ("stop", Cause::Stop),
    ("end", Cause::End),
    ("asked to end", Cause::Shutdown),
    ("its agent died", Cause::Died),
];

/// Beginnings of details of checkpoints.
const BEGINNINGS: [(&str, Cause); 7] = [
    ("import of ", Cause::Import),
    ("api_error", Cause::ApiError),
    ("session_end: ", Cause::SessionEnd),
    ("asked to end; ", Cause::Shutdown),
    ("paused; ", Cause::Shutdown),
    ("stopped; ", Cause::Shutdown),
    ("stopped for a rollback; ", Cause::Shutdown),
];

const EXITED: &str = "ended with exit code ";
const SIGNALLED: &str = "was ended by signal ";

/// The beginning of the message of a safety checkpoint before a restore in place.
const BEFORE_RESTORE: &str = "before the restore of ";

/// The cause of a checkpoint: the one that was recorded, or else what its sentences tell; none where they do not.
pub(super) fn cause_of(told: Option<Cause>, trigger: Trigger, detail: Option<&str>, message: Option<&str>) -> Option<Cause> {
    let of_restore = |cause| match cause {
        Cause::Safety if message.is_some_and(|message| message.starts_with(BEFORE_RESTORE)) => Cause::RestoreSafety,
        cause => cause,
    };
    told.or_else(|| cause(trigger, detail?).map(of_restore))
}

/// The cause of a checkpoint that an earlier release made; none where its sentence does not tell.
fn cause(trigger: Trigger, detail: &str) -> Option<Cause> {
    let whole = DETAILS.iter().find(|(known, _)| *known == detail);
    let begun = || BEGINNINGS.iter().find(|(known, _)| detail.starts_with(known));
    let of_end = || match () {
        () if detail.starts_with(EXITED) => Some(Cause::Exited),
        // It stood beside this trigger alone: of an agent that was asked to end, the reason came first.
        () if detail.starts_with(SIGNALLED) && trigger == Trigger::Error => Some(Cause::Killed),
        () => None,
    };
    whole.or_else(begun).map(|(_, cause)| *cause).or_else(of_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_earlier_releases_wrote_tell_their_cause() {
        for (detail, expected) in DETAILS {
            assert_eq!(cause(Trigger::Periodic, detail), Some(expected), "{detail}");
        }
        let told = [
            (Trigger::Manual, "import of 01J", Some(Cause::Import)),
            (Trigger::Error, "api_error: overloaded", Some(Cause::ApiError)),
            (Trigger::Error, "api_error: was ended by signal 9", Some(Cause::ApiError)),
            (Trigger::Shutdown, "session_end: other", Some(Cause::SessionEnd)),
            (Trigger::Shutdown, "asked to end; was ended by signal 15", Some(Cause::Shutdown)),
            (Trigger::Shutdown, "paused; was ended by signal 15", Some(Cause::Shutdown)),
            (Trigger::Shutdown, "stopped for a rollback; ended with exit code 1", Some(Cause::Shutdown)),
            (Trigger::Error, "ended with exit code 3", Some(Cause::Exited)),
            (Trigger::Complete, "ended with exit code 0", Some(Cause::Exited)),
            (Trigger::Error, "was ended by signal 9", Some(Cause::Killed)),
            (Trigger::Manual, "was ended by signal 9", None),
            (Trigger::Manual, "it was ended by signal 9", None),
            (Trigger::Manual, "mcp", None),
            (Trigger::Manual, "safety first", None),
        ];
        for (trigger, detail, expected) in told {
            assert_eq!(cause(trigger, detail), expected, "{detail}");
        }
    }

    #[test]
    fn a_message_tells_a_cause_of_a_safety_checkpoint_of_an_earlier_release_alone() {
        let of = |told, detail| cause_of(told, Trigger::Manual, detail, Some("before the restore of 01J"));
        assert_eq!(of(None, Some("safety")), Some(Cause::RestoreSafety));
        assert_eq!(of(Some(Cause::Safety), Some("safety")), Some(Cause::Safety));
        assert_eq!(of(Some(Cause::Asked), Some("safety")), Some(Cause::Asked));
        assert_eq!((of(None, Some("mcp")), of(None, None)), (None, None));
    }
}
