//! The effect that resuming would have on a workspace.

use parhelia_ledger::Session;
use parhelia_store::Store;

use super::{Choice, Fate, choose::ensure_not_rejected, foresee, others};
use parhelia_host::{Error, Host, Refusal, run};

/// The effect that resuming would have on a workspace.
#[derive(Debug)]
pub enum Foreseen {
    /// It is kept or restored.
    Fate(Fate),
    /// It is put back to the checkpoint that was chosen.
    PutBack,
    /// Resuming would be refused.
    Refused(Error),
}

impl Foreseen {
    /// Predicts the effect of a resume on a session's workspace. `is_chosen` is true where somebody has chosen the checkpoint. Changes nothing.
    pub fn of(store: &Store, host: &dyn Host, session: &Session, choice: &Choice, is_chosen: bool) -> Self {
        let fate = || {
            let own = run::commands_of(store, session)?.own;
            let own = own.ok_or_else(|| Refusal::UnknownCommand { session: session.id.clone() })?;
            let fate = foresee(store, session, choice.checkpoint.as_ref())?;
            // A program that is no agent has no conversation that it goes on with.
            if run::agent_in(&own).is_some() {
                others(store, host, session, choice, is_chosen, false)?;
            }
            Ok(fate)
        };
        match fate() {
            Ok(Fate::Keep | Fate::RestoreGit) if is_chosen => Foreseen::PutBack,
            Ok(fate @ (Fate::Keep | Fate::RestoreGit)) => match ensure_not_rejected(store, session) {
                Ok(()) => Foreseen::Fate(fate),
                Err(why) => Foreseen::Refused(why),
            },
            Ok(fate @ (Fate::Restore | Fate::Copy)) => Foreseen::Fate(fate),
            Err(why) => Foreseen::Refused(why),
        }
    }

    /// Its name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Foreseen::Fate(Fate::Keep) => "kept",
            Foreseen::Fate(Fate::Restore) => "restored",
            Foreseen::Fate(Fate::Copy) => "copied",
            Foreseen::Fate(Fate::RestoreGit) => "git_restored",
            Foreseen::PutBack => "put_back",
            Foreseen::Refused(_) => "refused",
        }
    }
}
