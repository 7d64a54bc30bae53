//! Words for a resumed agent: summary, task, next steps, decisions, what failed, then what has changed, then files, within a budget. What does not
//! fit is named with the command that reads it.

mod earlier;
mod files;
mod gather;
mod input;
mod now;
mod render;
mod statements;
#[cfg(test)]
mod tests;

pub use earlier::{earlier, render_with};
pub use gather::{BriefingRequest, gather};
pub use input::{ChangedFile, Ending, File, Input, PendingCall, Why};
pub use render::{Injection, LeftOut, render};
