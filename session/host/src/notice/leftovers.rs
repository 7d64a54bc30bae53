//! Notices of processes that dead runs have left behind.

use parhelia_agent::process::{Owner, Process, StopReport, Termination};

use super::Notice;

impl Notice {
    /// The fate of processes that dead runs have left behind.
    pub fn of_leftovers(stopped: &StopReport) -> Vec<Notice> {
        let ended = stopped.ended.iter().map(|(found, how)| match how {
            Termination::Not => Notice::ProcessNotStopped { process: found.text() },
            _ => Notice::ProcessStopped { process: found.text() },
        });
        // A shell is where its user works.
        let is_named = |found: &&Process| found.owner == Owner::Marked || !found.is_shell();
        let others = stopped.others.iter().filter(is_named).map(|found| match found.owner {
            Owner::Marked => Notice::ProcessMarked { process: found.text() },
            _ => Notice::ProcessInWorkspace { process: found.text() },
        });
        ended.chain(others).collect()
    }
}
