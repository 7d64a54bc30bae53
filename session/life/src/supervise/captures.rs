//! Checkpoints that are made beside an agent.

use std::{
    os::unix::net::UnixStream,
    sync::atomic::Ordering,
    thread::{Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use parhelia_ledger::{LedgerView as _, Place};
use parhelia_store::{
    Store,
    record::{Cause, Trigger},
};

use super::{Supervision, TURN_LIMIT};
use crate::{
    checkpoint::{self, CheckpointRequest, Conversation},
    rollback,
};
use parhelia_host::{Observer, Result, intent, notice::Notice, run};

/// An agent that has started has its conversation by then.
const STARTS: Duration = Duration::from_secs(15);
/// The pause between looks for its conversation until then,
const LEARNS_AT_FIRST: Duration = Duration::from_millis(100);
/// ... and later, where it waits for a first prompt.
const LEARNS_LATER: Duration = Duration::from_secs(2);

/// A checkpoint that is asked for beside an agent.
#[derive(Clone, Copy)]
pub(super) struct CaptureRequest<'a> {
    /// The reason.
    pub trigger: Trigger,
    pub cause: Cause,
    /// More about the reason, for people.
    pub detail: &'a str,
    /// True if none is made where nothing has changed.
    pub skip_if_unchanged: bool,
}

impl CaptureRequest<'static> {
    /// A periodic one, made where something has changed.
    pub fn periodic(cause: Cause, detail: &'static str) -> Self {
        CaptureRequest { trigger: Trigger::Periodic, cause, detail, skip_if_unchanged: true }
    }
}

/// Checkpoints that are to be made beside the agent: one at a time, in a thread of its own, so that neither signals nor the lease wait.
#[derive(Default)]
pub(super) struct Captures<'scope> {
    /// The one that is being made, and a stream that ends with it.
    running: Option<(ScopedJoinHandle<'scope, ()>, UnixStream)>,
    /// The one that comes next.
    asked: Option<CaptureRequest<'static>>,
}

impl<'scope> Captures<'scope> {
    /// Makes no more of them.
    pub(super) fn stop(&mut self) {
        self.asked = None;
    }

    /// A stream that ends with the one that is being made, if one is.
    pub(super) fn done(&self) -> Option<&UnixStream> {
        self.running.as_ref().map(|(_, done)| done)
    }

    /// True if none is being made, and none comes next.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && self.asked.is_none()
    }

    /// Asks for one. One that is skipped where nothing has changed gives way to any other.
    pub(super) fn ask(&mut self, asked: CaptureRequest<'static>) {
        if self.asked.is_none_or(|earlier| earlier.skip_if_unchanged) {
            self.asked = Some(asked);
        }
    }

    /// Begins the next one, once there is none.
    pub(super) fn go_on<'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        store: &'env Store,
        wanted: &'env Supervision<'env>,
        observer: &'env dyn Observer,
    ) {
        if let Some((handle, _)) = self.running.take_if(|(handle, _)| handle.is_finished()) {
            let _ = handle.join();
        }
        let Some(asked) = self.asked.take_if(|_| self.running.is_none()) else { return };
        let make = move || captured(store, wanted, asked, observer);
        let begun = UnixStream::pair().and_then(|(ours, theirs)| {
            let work = move || {
                make();
                drop(theirs);
            };
            std::thread::Builder::new().spawn_scoped(scope, work).map(|handle| (handle, ours))
        });
        match begun {
            Ok(running) => self.running = Some(running),
            Err(e) => observer.warn(&Notice::NoCheckpoint { why: format!("there is no thread for it: {e}") }),
        }
    }
}

/// Makes a checkpoint; a failure is told, and kept with the session.
pub(super) fn captured(store: &Store, wanted: &Supervision<'_>, asked: CaptureRequest<'_>, observer: &dyn Observer) {
    let made = make(store, wanted, asked, observer);
    if observer.is_cancelled() {
        return;
    }
    let failed = made.err().map(|e| observer.explain(&e));
    if let Some(why) = &failed {
        observer.warn(&Notice::NoCheckpoint { why: why.clone() });
    }
    if failed.is_some() && !is_open(store, wanted) {
        // Whoever has ended the run meanwhile has captured what was to be captured.
        return;
    }
    // Where the store cannot be written, this cannot be either; that was said just now.
    let _ = run::note_checkpoint(store, &wanted.current.session, failed.as_deref(), wanted.host.actor());
}

fn make(store: &Store, wanted: &Supervision<'_>, asked: CaptureRequest<'_>, observer: &dyn Observer) -> Result<()> {
    let turn = rollback::take_turn(store, wanted.host, &wanted.current.session, TURN_LIMIT, observer)?;
    if turn.is_none() {
        return Err(intent::busy(&wanted.current.session));
    }
    if !is_open(store, wanted) {
        // Somebody has ended the run, and has captured what was to be captured.
        return Ok(());
    }
    let session = store.view().session(&wanted.current.session)?;
    let current = session.as_ref().and_then(|session| run::conversation_of(session, &wanted.current.run));
    let id = match current.or_else(|| wanted.conversation.clone()) {
        None => learn(store, wanted, observer),
        known => known,
    };
    let conversation = match &id {
        Some(id) => Conversation::of(session.as_ref(), Some(id), wanted.config_folder.as_ref().map(|config| config.path.clone())),
        None => Conversation::None,
    };
    // It may have been moved since the agent was started.
    let place = session.as_ref().and_then(|session| session.workspace.as_ref()).map(Place::folder);
    let workspace = place.as_ref().unwrap_or(&wanted.current.workspace);
    let request = CheckpointRequest {
        run: Some((&wanted.current.run, wanted.current.epoch)),
        trigger: asked.trigger,
        cause: asked.cause,
        detail: Some(asked.detail.to_owned()),
        skip_if_unchanged: asked.skip_if_unchanged,
        conversation,
        tmux: wanted.host.tmux(),
        environment: wanted.request.clone(),
        ..CheckpointRequest::new(&wanted.current.session, workspace, &wanted.config)
    };
    let made = checkpoint::make(store, wanted.host, &request, observer)?;
    if observer.is_cancelled() {
        return Ok(());
    }
    let id = made.outcome.checkpoint.record.id;
    if made.is_damaged() {
        observer.warn(&Notice::Damaged { checkpoint: id });
    }
    for text in made.notice.iter().cloned().chain(made.failed()) {
        observer.warn(&Notice::OfCheckpoint { checkpoint: id, text });
    }
    if let Some(report) = &made.thinned {
        wanted.removed.fetch_add(report.removed.len() as u64, Ordering::Relaxed);
        observer.thinned(&wanted.current.session, &report.reasons());
    }
    Ok(())
}

/// True if nobody else has ended the run, as a rollback does that stops the agent.
pub(super) fn is_open(store: &Store, wanted: &Supervision<'_>) -> bool {
    let run = store.refresh().and_then(|view| view.run(&wanted.current.run));
    run.is_ok_and(|run| run.is_some_and(|run| run.is_open()))
}

/// The times of looking for the conversation of an agent that names none: often as it starts, as whoever is killed early has told nothing.
#[derive(Clone, Copy)]
pub(super) struct ProbeSchedule {
    began: Instant,
    /// The time of the next look.
    pub next: Instant,
}

impl ProbeSchedule {
    /// The first look; none where the conversation is known, or of a program that has none.
    pub(super) fn begin(wanted: &Supervision<'_>) -> Option<Self> {
        let has_some = wanted.kind.is_some() && wanted.config_folder.is_some() && wanted.conversation.is_none();
        let now = Instant::now();
        has_some.then(|| ProbeSchedule { began: now, next: now + LEARNS_AT_FIRST })
    }

    /// Looks for it once it is time; none where it is known then.
    pub(super) fn go_on(self, store: &Store, wanted: &Supervision<'_>) -> Option<Self> {
        let now = Instant::now();
        if now < self.next {
            return Some(self);
        }
        let session = store.refresh().and_then(|view| view.session(&wanted.current.session)).ok().flatten();
        let known = session.as_ref().and_then(|session| run::conversation_of(session, &wanted.current.run));
        // Whoever makes the next checkpoint says what keeps it from being found.
        if known.or_else(|| learned(store, wanted).ok().flatten()).is_some() {
            return None;
        }
        let pause = if now.duration_since(self.began) < STARTS { LEARNS_AT_FIRST } else { LEARNS_LATER };
        // Where there are very many conversations, looking for one takes a while.
        Some(ProbeSchedule { next: Instant::now() + pause.max(now.elapsed() * 10), ..self })
    }
}

/// The conversation of an agent that names none. Not to learn of it is no reason to make no checkpoint.
fn learn(store: &Store, wanted: &Supervision<'_>, observer: &dyn Observer) -> Option<String> {
    learned(store, wanted).unwrap_or_else(|e| {
        observer.warn(&Notice::NotRecorded { what: "the agent's conversation was not found", why: e.to_string() });
        None
    })
}

fn learned(store: &Store, wanted: &Supervision<'_>) -> Result<Option<String>> {
    let Some((kind, config)) = wanted.kind.zip(wanted.config_folder.as_ref()) else { return Ok(None) };
    run::learn(store, wanted.current, kind, &config.path, wanted.host.actor())
}
