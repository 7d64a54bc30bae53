//! Classes of refusals.

use parhelia_store::ErrorKind;

use super::{DecisionRefusal, KnowledgeRefusal, MarkRefusal, Refusal, RunRefusal};

impl Refusal {
    /// The class of this refusal: a request that makes no sense as put, or a state that is against it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Refusal::NoSessionName { .. }
            | Refusal::Mark(MarkRefusal::NoTag { .. })
            | Refusal::Mark(MarkRefusal::NoLabel { .. })
            | Refusal::Mark(MarkRefusal::NoPattern { .. })
            | Refusal::Mark(MarkRefusal::NoAnnotation { .. })
            | Refusal::Mark(MarkRefusal::NoLink { .. })
            | Refusal::Decision(DecisionRefusal::NoPolicy { .. })
            | Refusal::NoQuery { .. }
            | Refusal::KeepsNoConversation
            | Refusal::WorksElsewhere { .. }
            | Refusal::NoConversation { .. }
            | Refusal::WorksUnseen { .. }
            | Refusal::PromptOfNoAgent { .. }
            | Refusal::Run(RunRefusal::TakesNoPrompt { .. })
            | Refusal::OtherSession { .. }
            | Refusal::NotInWorkspace { .. }
            | Refusal::NothingToLeave { .. }
            | Refusal::NewNeedsPrompt
            | Refusal::NobodyAsked { .. }
            | Refusal::HasFinished { .. } => ErrorKind::Usage,
            Refusal::Mark(MarkRefusal::IsDeleted { .. })
            | Refusal::Mark(MarkRefusal::NotTagged { .. })
            | Refusal::Mark(MarkRefusal::NotLinked { .. })
            | Refusal::Knowledge(KnowledgeRefusal::NoPhase { .. })
            | Refusal::Knowledge(KnowledgeRefusal::NoMemory { .. })
            | Refusal::Knowledge(KnowledgeRefusal::NotRemembered { .. })
            | Refusal::Knowledge(KnowledgeRefusal::NotSuggested { .. }) => ErrorKind::NotFound,
            _ => ErrorKind::Refused,
        }
    }
}
