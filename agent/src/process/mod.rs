//! Processes of a run: which they are, whether the agent lives, and stopping what outlived it.
//!
//! A process number proves nothing: numbers are given anew. A process belongs to a run if the run's marker is in the environment it was
//! started with, read while a pidfd holds the process, and if it descends from the run's agent or works in the workspace. Whatever lacks
//! that proof is named and left alone.

mod identity;
mod look;
mod markers;
mod stop;
mod survey;

pub use identity::{
    Identity, ancestors, boot_id, boot_time, has_terminal, host_name, is_at_terminal, is_here, is_initial, line_of, machine,
    parent, pid_namespace, sees_all,
};
pub use look::{all, command_of, folder_of, program_of, within_container, writes_to};
pub use markers::{ASKING, RUN_MARKER, SESSION_MARKER};
pub use stop::{StopReport, Termination, stop};
pub use survey::{Owner, Process, Roots, canonical, found};
