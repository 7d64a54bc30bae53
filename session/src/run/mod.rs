//! A session's runs: beginning one, knowing whether it lives, ending it. Two runs of a session never act at once: each begins above the
//! epoch of the one before, and only one can.

mod adopt;
mod agent;
mod begin;
mod end_agent;
mod failing;
mod find;
mod launched;
mod lease;
mod leftovers;
mod life;
mod meaning;
mod outer;
mod strangers;

pub(crate) use adopt::bypasses;
pub use adopt::{Agents, hook_actor, incomplete, run_of};
pub(crate) use agent::calls_hooks;
pub use agent::{
    agent_in, agent_of_event, agent_to_start, config_for, environment_of, has_agent, here, hooks_for, kind_of, other_folder,
    others_in, stranger_in_newest,
};
pub use begin::{Begin, Elsewhere, begin, end, new_session_id, started, taken_on};
pub use end_agent::end_agent;
pub use failing::{FAILING, Failing, failing, note_checkpoint};
pub use find::{
    CONFIG_FOLDER, Current, Sender, above, config_of, config_of_session, conversation_of, current, is_nested, last_of,
    of_conversation, this_process,
};
pub(crate) use launched::as_environment;
pub use launched::{LAUNCH_VARIABLES, Variables, launch_variables, launch_variables_in, note as note_launch, of_caller};
pub use lease::{HOOKED, RENEWAL, WATCHED, heard, renew};
pub use leftovers::{left_behind, stop_leftovers};
pub use life::{
    HOOKED_AGENT, LAUNCHER, Life, STOPPING, STOPPING_BY, agent_of, has_finished, hooked_agent_of, is_elsewhere, is_inside,
    is_orphaned, launcher_of, left_alive, life, live_in, roots_in, roots_of, stopping, tmux_of, variables_of, was_killed,
    why_unheard, works_in,
};
pub use meaning::{EventCheckpoint, Meaning, meaning};
pub use outer::Outer;
pub use strangers::{learn, sessions_in, strangers_in, unseen_in};
