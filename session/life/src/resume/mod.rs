//! A dead session lives again: from which checkpoint, with which workspace and conversation, and what the agent is told.

mod alive;
mod background;
mod begin;
mod choose;
mod consent;
mod diagnosis;
mod foreseen;
mod plan;
mod request;
mod start;
mod workspace;

pub use alive::{Alive, if_alive};
pub use background::{Background, in_background};
pub use begin::{PendingResume, take_on};
pub use consent::{Consent, Objection, SET_ASIDE_AFTER, consent, set_aside, unasked, why_set_aside};
pub use diagnosis::{Diagnosis, left_alone};
pub use foreseen::Foreseen;
use plan::meant;
pub use plan::{Preparation, Resume, chosen, old, others, preference, rollback_first};
pub use request::ResumeRequest;

pub use choose::{Choice, candidates, choose, choose_ahead};
pub use workspace::{Fate, Workspace, bring_back, foresee};
