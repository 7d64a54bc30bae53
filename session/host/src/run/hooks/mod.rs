//! Hooks of a run's agent: those that its settings have, and the events that came of them.

mod heard;
mod installed;

pub use heard::{
    HeardHooks, has_ended_turn, heard_hooks, last_heard, note as note_hooks, note_silent_hooks, note_turn_end, silent_hooks,
};
pub use installed::{RunHooks, dead_hooks, ended_unheard, hooks_for, hooks_of};
