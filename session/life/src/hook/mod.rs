//! Events of an agent: what is done about them, and what the agent is told. [`parhelia_host::run::meaning()`] says what they mean.

mod answer;
mod attention;
mod fullness;
mod receive;
mod work;

pub use answer::{Answer, answer};
pub use fullness::fullness;
pub use receive::{Destination, handed_over, receive, take_over};
pub use work::{EventOutcome, work};
