//! Classes of refusals.

use parhelia_store::ErrorKind;

use super::{DecisionRefusal, Refusal};

impl Refusal {
    /// The class of this refusal: a request that makes no sense as put, or a state that is against it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Refusal::NoSessionName { .. }
            | Refusal::NoTag { .. }
            | Refusal::NoPattern { .. }
            | Refusal::NoAnnotation { .. }
            | Refusal::NoLink { .. }
            | Refusal::Decision(DecisionRefusal::NoPolicy { .. })
            | Refusal::NoQuery { .. }
            | Refusal::KeepsNoConversation
            | Refusal::WorksElsewhere { .. }
            | Refusal::OtherSession { .. }
            | Refusal::NotInWorkspace { .. }
            | Refusal::NothingToLeave { .. }
            | Refusal::NewNeedsPrompt
            | Refusal::NobodyAsked { .. }
            | Refusal::HasFinished { .. } => ErrorKind::Usage,
            Refusal::IsDeleted { .. }
            | Refusal::NotTagged { .. }
            | Refusal::NotLinked { .. }
            | Refusal::NoPhase { .. }
            | Refusal::NoMemory { .. }
            | Refusal::NotRemembered { .. }
            | Refusal::NotSuggested { .. } => ErrorKind::NotFound,
            _ => ErrorKind::Refused,
        }
    }
}
