//! Waiting until it is known what has come of an agent in a pane: it lives with its conversation, waits for somebody, or has failed.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use parhelia_agent::{
    kind::Kind,
    open::{open, open_in},
    process::Identity,
    said::Open,
    tmux::PaneStatus,
    trouble::Trouble,
};
use parhelia_ledger::{LedgerView as _, Run};
use parhelia_store::Store;

use super::place::Pane;
use parhelia_host::{
    Error, Observer, Result,
    run::{Life, launcher_of, life},
};

/// The time after which an agent that has said nothing is left to its user.
const LIMIT: Duration = Duration::from_secs(60);
/// The time after which an agent that was asked for a conversation counts as alive; one that does not know it ends sooner.
const ASKED_LIMIT: Duration = Duration::from_secs(3);
/// The longest time that a dead pane may have no exit code yet.
const DEAD_LIMIT: Duration = Duration::from_secs(2);
/// The time between two looks at the pane.
const PAUSE: Duration = Duration::from_millis(60);
/// The most lines of a pane that are repeated.
const LINES_MAX: usize = 20;

/// The state of an agent that was started in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupState {
    /// It lives, an agent with its conversation open.
    Alive,
    /// It lives, and its screen asks for somebody.
    Waits(Trouble),
    /// It lives, and has said nothing.
    Silent,
    /// It has done what it had to do, and ended.
    Ended,
}

/// An agent in a pane that is waited for.
pub(super) struct Watch<'a> {
    /// Store in which its run is recorded.
    pub store: &'a Store,
    pub pane: Pane<'a>,
    /// The process in the pane that starts it.
    pub launcher: Identity,
    /// The kind of agent; none for a program that is no agent.
    pub kind: Option<Kind>,
    /// The agent's folder.
    pub config: Option<PathBuf>,
    /// Tells when the user has had enough.
    pub observer: &'a dyn Observer,
}

impl Watch<'_> {
    /// Waits. Fails with what the pane shows.
    pub fn wait(&self) -> Result<(Run, StartupState)> {
        let until = Instant::now() + LIMIT;
        let (mut asked, mut dead_since) = (None, None);
        loop {
            if self.observer.is_cancelled() {
                return Err(parhelia_store::Error::Cancelled.into());
            }
            // First the pane, so that a run that ended meanwhile has all of it recorded.
            let pane = self.pane.server.pane(self.pane.id)?;
            let run = self.run()?;
            match (pane, run) {
                (None, _) => return Err(Error::Background("the pane was closed".into())),
                (Some(pane), Some(run)) if pane.dead && pane.exit_code == Some(0) => return Ok((run, StartupState::Ended)),
                (Some(pane), _) if pane.dead && pane.exit_code.is_none() && is_recent(&mut dead_since) => {
                    let _ = self.pane.server.look_for_ends();
                }
                (Some(pane), _) if pane.dead => return Err(Error::Background(self.shown(&ended(pane)))),
                (Some(_), Some(run)) => {
                    if let Some(settled) = self.look(&run, &mut asked) {
                        return Ok((run, settled));
                    }
                    if Instant::now() > until && matches!(life(&run), Life::Agent(_)) {
                        return Ok((run, StartupState::Silent));
                    }
                }
                (Some(_), None) => {}
            }
            if Instant::now() > until {
                return Err(Error::Background(self.shown("nothing was started in time")));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The newest run that the process in the pane has begun.
    fn run(&self) -> Result<Option<Run>> {
        let is_ours = |run: &Run| launcher_of(run).is_some_and(|launcher| launcher.is_same(&self.launcher));
        let runs = self.store.refresh()?.runs()?.into_values();
        Ok(runs.filter(is_ours).max_by_key(|run| run.epoch))
    }

    /// `asked` is the run whose agent was found asked for its conversation, and when it was.
    fn look(&self, run: &Run, asked: &mut Option<(String, Instant)>) -> Option<StartupState> {
        let Life::Agent(agent) = life(run) else { return None };
        let Some(kind) = self.kind else { return Some(StartupState::Alive) };
        let said = match (&self.config, &run.conversation) {
            (None, _) => None,
            (Some(config), Some(conversation)) => open(config, conversation),
            // The agent chooses one itself.
            (Some(config), None) => open_in(config, agent.process),
        };
        let screen = self.pane.server.screen(self.pane.id).unwrap_or_default();
        if said == Some(Open::Ready) {
            // By now it shows the conversation, in which anything may stand; below that is what it has to say itself.
            let needs_login = kind.trouble(&end_of(&screen)) == Some(Trouble::Login);
            return Some(if needs_login { StartupState::Waits(Trouble::Login) } else { StartupState::Alive });
        }
        if let Some(trouble) = kind.trouble(&screen).filter(|trouble| trouble.waits_for_someone()) {
            return Some(StartupState::Waits(trouble));
        }
        // An agent without a status file counts as ready where it is alive and asks for nobody.
        let is_heard = said.is_some() || !kind.abilities().leaves_word;
        asked.take_if(|(id, _)| !is_heard || *id != run.id);
        if !is_heard {
            return None;
        }
        let (_, since) = asked.get_or_insert_with(|| (run.id.clone(), Instant::now()));
        (since.elapsed() > ASKED_LIMIT).then_some(StartupState::Alive)
    }

    fn shown(&self, what: &str) -> String {
        let screen = self.pane.server.last_screen(self.pane.id).unwrap_or_default();
        // tmux says itself that a pane is dead, and our own process there how the agent ended.
        let is_agents = |line: &&str| !line.starts_with("Pane is dead") && !line.starts_with("parhelia: the agent ended");
        let lines: Vec<&str> = lines_of(&screen).filter(is_agents).collect();
        match lines.as_slice() {
            [] => format!("the agent was started in tmux, and {what}; it printed nothing"),
            lines => format!(
                "the agent was started in tmux, and {what}; its last lines:\n{}",
                lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
            ),
        }
    }
}

fn ended(pane: PaneStatus) -> String {
    pane.exit_code.map_or("it was ended by a signal".into(), |code| format!("it has ended with exit code {code}"))
}

/// tmux sees that a terminal has closed before it hears how the process ended, and never hears a code of one that a signal ended.
fn is_recent(dead_since: &mut Option<Instant>) -> bool {
    dead_since.get_or_insert_with(Instant::now).elapsed() < DEAD_LIMIT
}

fn lines_of(screen: &str) -> impl Iterator<Item = &str> {
    screen.lines().map(str::trim_end).filter(|line| !line.is_empty())
}

/// The last lines of the screen, without blank ones: the agent shows its state there, below the conversation.
fn end_of(screen: &str) -> String {
    const LINES: usize = 4;
    let lines: Vec<&str> = lines_of(screen).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
