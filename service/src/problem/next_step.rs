//! Next steps behind a refusal, as fields of requests: the library knows neither these nor the flags of the command line.

use parhelia_host::{DecisionRefusal, Refusal};

/// The words behind a refusal that say how the request can be made to succeed; none where the refusal says it, or nothing helps.
pub fn behind(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::HasEnded { .. } => "; POST /v1/sessions begins another",
        Refusal::AgentAlive { .. } => "; give \"leave_agent\": true to end the session without it",
        Refusal::LiveElsewhere { .. } => "; give \"take_over\": true if that is over",
        Refusal::AliveElsewhere { .. } => {
            "; if that is over, wait for its lease to run out: a person at a terminal need not wait"
        }
        Refusal::MustStop { .. } => "; give \"files_only\": true to leave the conversation alone, or \"stop\": true to end it",
        Refusal::OpenInStranger { .. } => "; give \"files_only\": true to leave the conversation alone",
        Refusal::MayBeOpen { .. } => "; give \"files_only\": true, or \"take_over\": true if that is over",
        Refusal::Unwritable { .. } => "; give their paths in \"leave\", or \"leave_unwritable\": true, to put the rest back",
        Refusal::GitUnknown { .. } | Refusal::GitOfAnother { .. } | Refusal::GitState { .. } => {
            "; give \"any_git_state\": true to roll the files back all the same (git itself is not touched)"
        }
        Refusal::NobodyAsked { .. } => "; POST …/prompt says what it is to do",
        Refusal::NewNeedsPrompt => "; POST …/prompt resumes it with one",
        Refusal::Decision(DecisionRefusal::Rejected { .. }) => "; choose another one",
        Refusal::Decision(DecisionRefusal::AlreadyDecided { .. }) => "; give \"change\": true to decide otherwise",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_help_are_named() {
        assert!(behind(&Refusal::MustStop { session: "s".into(), process: 7 }).contains("\"stop\": true"));
        assert_eq!(behind(&Refusal::NothingToRecover), "");
    }
}
