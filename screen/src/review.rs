//! The loop: keys and replies in, frames and effects out.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parhelia_host::Observer;
use parhelia_ledger::{LedgerView as _, Place, Session};
use parhelia_life::overview::Overview;
use parhelia_oversight::review::{
    annotation::Text,
    decide::{DecisionOutcome, DecisionRequest, Verdict},
    unseen::Exclusions,
};
use parhelia_store::{Store, clock, id::Ulid, journal::Position, name::NameExt as _, progress::Progress};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::{
    Caller, Error, Next, Outcome,
    draw::{self, Palette},
    layout::Pane,
    shell,
    state::{Effect, State},
    syntax::Colours,
    terminal::{TerminalGuard, hung_up_within},
    worker::{self, Reply, Request, Worker},
};

/// The store is looked at so often for what came since.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// A key is waited for so long while something is read, and while nothing is: then only signals are looked for.
const WAITS: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(100));

/// Shows a session on the terminal of this process, its newest checkpoint first, until the person leaves.
pub fn review(caller: &dyn Caller, store: Arc<Store>, session: Session) -> Result<Outcome, Error> {
    let view = store.refresh().map_err(parhelia_host::Error::from)?;
    if view.head(&session.id).map_err(parhelia_host::Error::from)?.is_none() {
        let selector = format!("{}@latest", session.id);
        return Err(parhelia_host::Error::from(parhelia_store::Error::NoCheckpoint { selector }).into());
    }
    let seen = Some(view.end().clone());
    let mut worker = Worker::start(store.clone(), session.clone())?;
    worker.ask(Request::Checkpoint(None, Default::default()));
    let mut terminal = TerminalGuard::take()?;
    let size = terminal.screen.size()?;
    let mut state = State::new((size.width, size.height));
    state.take_log(worker::log(&store, &session.id)?);
    let mut screen =
        Screen { caller, store, session, worker, state, colours: Colours::default(), asked: None, decisions: Vec::new(), seen };
    let next = screen.run(&mut terminal)?;
    Ok(Outcome { next, decisions: screen.decisions })
}

struct Screen<'a> {
    caller: &'a dyn Caller,
    store: Arc<Store>,
    session: Session,
    worker: Worker,
    state: State,
    colours: Colours,
    /// The file whose diff is on its way.
    asked: Option<usize>,
    decisions: Vec<(Ulid, Verdict, DecisionOutcome)>,
    /// The place in the journal up to which it was taken in.
    seen: Option<Position>,
}

impl Screen<'_> {
    fn run(&mut self, terminal: &mut TerminalGuard) -> Result<Next, Error> {
        let palette = Palette::new(self.caller.has_colours());
        let (mut refreshed, mut is_stale) = (Instant::now(), true);
        loop {
            if self.caller.is_stopped() {
                return Ok(Next::Stopped);
            }
            is_stale |= self.take_replies();
            if refreshed.elapsed() >= REFRESH_EVERY {
                refreshed = Instant::now();
                self.refresh();
                is_stale = true;
            }
            if is_stale {
                let size = terminal.screen.size()?;
                self.state.resize((size.width, size.height));
                self.ask();
                self.state.now = clock::timestamp();
                terminal.screen.draw(|frame| {
                    // The terminal may have got another size since it was asked.
                    self.state.resize((frame.area().width, frame.area().height));
                    draw::draw(frame, &self.state, palette);
                })?;
            }
            is_stale = false;
            let is_reading =
                self.state.facts.is_none() || self.asked.is_some() || self.state.files.iter().any(|f| f.counts.is_none());
            // Some events may have come with the one before.
            if hung_up_within(Duration::ZERO) {
                return Ok(Next::Stopped);
            }
            if !event::poll(Duration::ZERO)? {
                match hung_up_within(if is_reading { WAITS.0 } else { WAITS.1 }) {
                    true => return Ok(Next::Stopped),
                    false => continue,
                }
            }
            is_stale = true;
            if let Some(next) = self.take_event(event::read()?, terminal)? {
                return Ok(next);
            }
        }
    }

    /// True if something came.
    fn take_replies(&mut self) -> bool {
        let mut is_any = false;
        while let Some(reply) = self.worker.reply() {
            is_any = true;
            match reply {
                Reply::Checkpoint(facts, files) => {
                    self.asked = None;
                    self.state.show(*facts, files);
                }
                Reply::Diff(file, path, lines) => {
                    self.asked = None;
                    self.colours = Colours::of(&path);
                    self.state.show_diff(file, lines);
                }
                Reply::Counts(counts) => {
                    for (file, counts) in counts {
                        if let Some(file) = self.state.files.get_mut(file) {
                            file.counts = Some(counts);
                        }
                    }
                }
                Reply::Said(said) => self.state.show_said(said),
                Reply::Syntaxes => {}
                Reply::Failed(error) => self.state.complain(&self.caller.explain(&error)),
            }
        }
        is_any
    }

    /// Asks for what is to be shown and is not there, and colours what is.
    fn ask(&mut self) {
        if let Some(file) = self.state.wanted_diff().filter(|_| self.asked.is_none()) {
            self.asked = Some(file);
            self.worker.ask(Request::Diff(file));
        }
        let top = self.state.file.top;
        let is_uncounted = |n: usize| self.state.files.get(n).is_some_and(|file| file.counts.is_none());
        let height = self.state.areas().and_then(|areas| areas.content(Pane::Files)).map_or(0, |area| usize::from(area.height));
        if let Some(first) = (top..top + height).find(|n| is_uncounted(*n)) {
            self.worker.ask(Request::Counts(first));
        }
        if let Some(last) = self.state.diff.shown().last().map(|row| row.line) {
            self.colours.reach(&mut self.state.diff.lines, last);
        }
    }

    fn take_event(&mut self, event: Event, terminal: &mut TerminalGuard) -> Result<Option<Next>, Error> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => match self.state.key(key) {
                Some(effect) => self.carry_out(effect, terminal),
                None => Ok(None),
            },
            Event::Paste(text) => {
                self.state.paste(&text);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn carry_out(&mut self, effect: Effect, terminal: &mut TerminalGuard) -> Result<Option<Next>, Error> {
        match effect {
            Effect::Quit => return Ok(Some(Next::Quit)),
            Effect::Continue => return Ok(Some(Next::Continue)),
            Effect::Show(checkpoint) => {
                self.asked = None;
                self.worker.ask(Request::Checkpoint(Some(checkpoint), self.state.base));
            }
            Effect::Decide { checkpoint, verdict, reason } => self.decide(checkpoint, verdict, &reason),
            Effect::Shell => self.open_shell(terminal)?,
        }
        Ok(None)
    }

    fn open_shell(&mut self, terminal: &mut TerminalGuard) -> Result<(), Error> {
        let Some(checkpoint) = self.state.facts.as_ref().map(|facts| facts.checkpoint) else { return Ok(()) };
        let begin = |folder: &std::path::Path| {
            use std::io::Write as _;
            let at = folder.shown();
            let _ = writeln!(
                std::io::stdout(),
                "Checkpoint {checkpoint} is mounted read-only on {at}. `exit` leads back to the review."
            );
        };
        match terminal.lend(|| shell::run(self.caller, &self.store, checkpoint, begin))? {
            Ok(()) => self.state.say("The shell has ended, and its mount is gone."),
            Err(error) => self.state.complain(&error.to_string()),
        }
        Ok(())
    }

    fn decide(&mut self, checkpoint: Ulid, verdict: Verdict, reason: &str) {
        match self.decided(checkpoint, verdict, reason) {
            Ok(decided) => {
                let status = decided.approval.status.name();
                self.state.say(&match decided.had {
                    true => format!("Checkpoint {checkpoint} was {status} before."),
                    false => format!("Checkpoint {checkpoint} is {status}."),
                });
                if !decided.had {
                    self.decisions.push((checkpoint, verdict, decided));
                }
            }
            Err(error) => self.state.complain(&self.caller.explain(&error)),
        }
        self.refresh();
    }

    fn decided(&self, checkpoint: Ulid, verdict: Verdict, reason: &str) -> parhelia_host::Result<DecisionOutcome> {
        let reason = Some(reason).filter(|reason| !reason.is_empty()).map(Text::new).transpose()?;
        let host = self.caller.host();
        let folder = self.session.workspace.as_ref().map_or_else(|| "/".into(), Place::folder);
        let options = host.config(&folder)?.approval;
        let request = DecisionRequest { checkpoint, verdict, reason: reason.as_ref(), changes: false, options: &options };
        parhelia_knowledge::decide::decide(&self.store, host, &request, &Quiet(self.caller))
    }

    /// Takes in what came to the store since. Nothing that is shown moves.
    fn refresh(&mut self) {
        if let Err(error) = self.take_in() {
            self.state.complain(&self.caller.explain(&error));
        }
    }

    fn take_in(&mut self) -> parhelia_host::Result<()> {
        let view = self.store.refresh()?;
        if self.seen.as_ref() == Some(view.end()) {
            return Ok(());
        }
        self.seen = Some(view.end().clone());
        self.state.take_log(worker::log(&self.store, &self.session.id)?);
        if let Some(facts) = &mut self.state.facts {
            let approval = view.marks(facts.checkpoint)?.approval;
            // Rules that a person has approved by now are no new ones.
            if let Some(now) = view.checkpoint(facts.checkpoint)?.filter(|_| approval != facts.approval) {
                let base = facts.base.filter(|_| facts.base_approved).map(|base| view.checkpoint(base)).transpose()?.flatten();
                facts.unseen = Exclusions::of(&self.store, base.as_ref(), &now)?;
            }
            facts.approval = approval;
            let session = view.session(&self.session.id)?.unwrap_or_else(|| self.session.clone());
            facts.status = Overview::of(&self.store, &session)?.state(&session);
        }
        Ok(())
    }
}

/// Whoever decides on the screen: nothing may be printed over it.
struct Quiet<'a>(&'a dyn Caller);

impl Progress for Quiet<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.is_stopped()
    }
}

impl Observer for Quiet<'_> {}
