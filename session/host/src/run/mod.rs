//! A session's runs: beginning one, knowing whether it lives, ending it. Two runs of a session never act at once: each begins above the
//! epoch of the one before, and only one can.

mod adopt;
mod agent;
mod begin;
mod command;
mod current;
mod end_agent;
mod failing;
mod find;
mod given_prompts;
mod hooks;
mod last_seen;
mod launch_variables;
mod lease;
mod leftovers;
mod life;
mod meaning;
mod outer;
mod own;
mod private;
mod settings;
mod strangers;

pub use adopt::{bypasses, mode_within};
pub use adopt::{incomplete, left, run_of};
pub use agent::{
    agent_in, agent_of_event, agent_to_start, config_for, environment_of, has_agent, here, kind_of, moved_folder, other_folder,
    others_in, stranger_in_newest,
};
pub use begin::{AGENT_FOLDER, Begin, RemoteLocation, begin, end, is_resumed_by_agent, new_session_id, started, taken_on};
pub use begin::{end_unheard, why_over};
pub use command::{Commands, commands_of};
pub use current::Current;
pub use end_agent::end_agent;
pub use failing::{FAILING, FailureStreak, failing, note_checkpoint};
pub use find::agent_among;
pub use find::{
    Agents, CONFIG_FOLDER, Sender, above, config_of, config_of_session, conversation_of, current, has_agent_among, is_nested,
    last_of, of_conversation, this_process,
};
pub use given_prompts::{note as note_given_prompt, prompts_of};
pub use hooks::{
    HeardHooks, RunHooks, dead_hooks, ended_unheard, has_ended_turn, heard_hooks, hooks_for, hooks_of, last_heard, note_hooks,
    note_silent_hooks, note_turn_end, silent_hooks,
};
pub use last_seen::{is_finishing, is_of_agent, why_dead};
pub use last_seen::{last_seen, worked};
pub use launch_variables::as_environment;
pub use launch_variables::{LAUNCH_VARIABLES, Variables, launch_variables, launch_variables_in, note as note_launch, of_caller};
pub use lease::{HOOKED, RENEWAL, WATCHED, heard, renew};
pub use leftovers::{left_behind, stop_leftovers};
pub use life::is_silent;
pub use life::{
    HOOKED_AGENT, LAUNCHER, Life, STOPPING, STOPPING_BY, STOPPING_UNTIL, agent_of, beside, ended_unseen, has_finished,
    has_recorded, hooked_agent_of, is_above, is_apart_in_network, is_elsewhere, is_inside, is_orphaned, launcher_of, left_alive,
    life, life_of, live_in, roots_in, roots_of, stopping, tmux_of, variables_of, was_killed, why_unheard, why_unknown, works_in,
};
pub use meaning::{EventCheckpoint, Meaning, Says, hook_actor, meaning};
pub use outer::Outer;
pub use own::{belongs_to, is_hidden, one_of, own_run};
pub use private::forget as forget_private;
pub use settings::{CONFIG, Origin, PLACES, UserSettings, settings_of_caller};
pub use strangers::{learn, sessions_in, strangers_in, unseen_in};
