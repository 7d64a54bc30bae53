//! The agents of sessions as the kernel's handles, which tell of their end at once.

use std::{collections::HashMap, os::fd::OwnedFd, time::Duration};

use parhelia_agent::process::Identity;
use parhelia_host::{
    Result,
    run::{self, Life},
};
use parhelia_ledger::{Goal, LedgerView as _};
use parhelia_store::Store;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// Agents that are watched, by their session.
#[derive(Default)]
pub struct Agents {
    watched: HashMap<String, (Identity, OwnedFd)>,
}

impl Agents {
    /// Watches the agents of all sessions that are wanted running.
    pub fn watch(&mut self, store: &Store) -> Result<()> {
        let view = store.view();
        let mut found = HashMap::new();
        for session in view.sessions()?.into_iter().filter(|session| session.goal() == Goal::Running) {
            let Some(run) = view.newest_run(&session)?.filter(|run| run.is_open()) else { continue };
            let Life::Agent(agent) = run::life(&run) else { continue };
            let before = self.watched.remove(&session.id).filter(|(known, _)| known.is_same(&agent));
            if let Some(watched) = before.or_else(|| Some((agent.clone(), handle(&agent)?))) {
                found.insert(session.id, watched);
            }
        }
        self.watched = found;
        Ok(())
    }

    /// The sessions whose agents are watched.
    pub fn alive(&self) -> Vec<String> {
        self.watched.keys().cloned().collect()
    }

    /// Waits for the end of one of them, but not longer than this. True if one has ended.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let mut fds: Vec<PollFd> = self.watched.values().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let _ = poll(&mut fds, Some(&limit));
        let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut ended = ended.into_iter();
        let before = self.watched.len();
        self.watched.retain(|_, _| !ended.next().unwrap_or(false));
        self.watched.len() < before
    }
}

/// A handle of a process that lives.
fn handle(agent: &Identity) -> Option<OwnedFd> {
    let fd = pidfd_open(Pid::from_raw(agent.process)?, PidfdFlags::empty()).ok()?;
    // Else the number may be another process's by now.
    agent.is_alive().then_some(fd)
}
