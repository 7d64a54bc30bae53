//! `session`: one file per verb.

mod attach;
mod context;
mod decide;
mod in_pane;
mod label;
pub mod list;
pub mod moved;
mod pause;
mod prompt;
mod prompt_file;
pub mod prune;
mod recover;
pub mod resume;
mod review;
pub mod run;
pub mod show;
mod signals;
pub mod stop;
pub mod summary;
pub mod tmux;
mod unit;

use clap::Subcommand;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// The verbs of `session`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List sessions: those that need you, and then the one that changed last first
    List(list::Args),
    /// Show everything about one session
    Show(show::Args),
    /// Print what was done in a session, what failed, and where to go on
    Summary(summary::Args),
    /// Remove the checkpoints that retention does not keep
    Prune(prune::Args),
    /// Start an agent, and keep checkpoints of what it does
    Run(run::Args),
    /// Bring a session back to life: workspace, conversation and surroundings
    Resume(resume::Args),
    /// Print or install a unit for systemd that resumes at boot what was interrupted
    Unit(unit::Args),
    /// Say what is the matter with a session, and resume or end it
    Recover(recover::Args),
    /// Show the tmux session in which a session's agent works
    Attach(attach::Args),
    /// End the agent of a session
    Stop(stop::Args),
    /// Make a checkpoint and set the session aside; its agent lives on
    Pause(pause::PauseArgs),
    /// Take over what another process of ours does in a new pane of tmux; started by it
    #[command(hide = true)]
    InPane(in_pane::Args),
    /// Say something to the agent of a session
    Prompt(prompt::Args),
    /// Show how full the model's context window is, or the conversation made shorter
    Context(context::Args),
    /// Set, remove or print labels of a session
    Label(label::Args),
    /// Record that a session's workspace was moved
    Move(moved::Args),
    /// End a session for good; its checkpoints stay
    End(pause::EndArgs),
    /// Show what was done since the last state that a person approved, and decide
    Review(review::Args),
    /// Approve a checkpoint: what was done until then is good
    Approve(decide::Args),
    /// Reject a checkpoint: nothing goes on from it unless somebody asks for that
    Reject(decide::Args),
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::List(args) => list::run(context, args),
            Verb::Show(args) => show::run(context, args),
            Verb::Summary(args) => summary::run(context, args),
            Verb::Prune(args) => prune::run(context, args),
            Verb::Run(args) => run::run(context, args),
            Verb::Resume(args) => resume::run(context, args),
            Verb::Unit(args) => unit::run(context, args),
            Verb::Recover(args) => recover::run(context, args),
            Verb::InPane(args) => in_pane::take(context, args),
            Verb::Attach(args) => attach::run(context, args),
            Verb::Stop(args) => stop::run(context, args),
            Verb::Pause(args) => pause::pause(context, args),
            Verb::Prompt(args) => prompt::run(context, args),
            Verb::Context(args) => context::run(context, args),
            Verb::Label(args) => label::run(context, args),
            Verb::Move(args) => moved::run(context, args),
            Verb::End(args) => pause::end(context, args),
            Verb::Review(args) => review::run(context, args),
            Verb::Approve(args) => decide::approve(context, args),
            Verb::Reject(args) => decide::reject(context, args),
        }
    }

    /// True if the verb handles signals itself.
    pub fn has_own_signals(&self) -> bool {
        matches!(self, Verb::Run(_) | Verb::Resume(_) | Verb::Recover(_) | Verb::Review(_) | Verb::Prompt(_) | Verb::InPane(_))
    }
}
