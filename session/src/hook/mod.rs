//! Events of an agent: their meaning, what is done about them, and what the agent is told.

mod answer;
mod meaning;
mod work;

pub use answer::{Answer, answer};
pub use meaning::{EventCheckpoint, Meaning, meaning};
pub use work::{Taken, work};
