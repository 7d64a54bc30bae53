//! Whole working sessions of an agent by script: played with the real agent CLI, killed in the middle, and gone on with by an agent that knows
//! nothing of them but what it is told.
//!
//! A script is a file of TOML ([`Script`]): the user's prompts, the model's calls and replies, and the facts of its first half that the
//! agent that goes on should know. It works on a copy of the sources of a crate that this workspace depends on.

mod play;
mod resumed;
mod script;

pub use play::{Played, play};
pub use resumed::{Cost, resumed_bare, resumed_briefed};
pub use script::{Fact, Kind, Script, scripts};
