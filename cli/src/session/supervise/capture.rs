//! Checkpoints that are made beside an agent.

use std::{
    os::unix::net::UnixStream,
    sync::atomic::Ordering,
    thread::{Scope, ScopedJoinHandle},
};

use parhelia_session::{
    retention, rollback,
    run::{self, Conversation, Wanted},
};
use parhelia_store::{Store, fold::Place, progress::Progress, record::Trigger};

use super::{
    super::{
        agent::{actor, variable},
        prune::removed_text,
    },
    Supervised, TURN_LIMIT, note, say, tmux_here,
};
use crate::hook::log;

const NO_CHECKPOINT: &str = "no checkpoint was made";

/// Checkpoints that are to be made beside the agent: one at a time, in a thread of its own, so that neither signals nor the lease wait.
#[derive(Default)]
pub(super) struct Captures<'scope> {
    /// The one that is being made, and a stream that ends with it.
    running: Option<(ScopedJoinHandle<'scope, ()>, UnixStream)>,
    /// The one that comes next.
    asked: Option<(Trigger, &'static str, bool)>,
}

impl<'scope> Captures<'scope> {
    /// Makes no more of them.
    pub(super) fn stop(&mut self) {
        self.asked = None;
    }

    /// What ends with the one that is being made, if one is.
    pub(super) fn done(&self) -> Option<&UnixStream> {
        self.running.as_ref().map(|(_, done)| done)
    }

    /// Asks for one. One that is skipped where nothing has changed gives way to any other.
    pub(super) fn ask(&mut self, trigger: Trigger, detail: &'static str, skip: bool) {
        if self.asked.is_none_or(|(.., skips)| skips) {
            self.asked = Some((trigger, detail, skip));
        }
    }

    /// Begins the next one, once there is none.
    pub(super) fn go_on<'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        store: &'env Store,
        wanted: &'env Supervised<'env>,
        progress: &'env dyn Progress,
    ) {
        if let Some((handle, _)) = self.running.take_if(|(handle, _)| handle.is_finished()) {
            let _ = handle.join();
        }
        let Some((trigger, detail, skip)) = self.asked.take_if(|_| self.running.is_none()) else { return };
        let make = move || captured(store, wanted, trigger, detail, skip, progress);
        let begun = UnixStream::pair().and_then(|(ours, theirs)| {
            let work = move || {
                make();
                drop(theirs);
            };
            std::thread::Builder::new().spawn_scoped(scope, work).map(|handle| (handle, ours))
        });
        match begun {
            Ok(running) => self.running = Some(running),
            Err(e) => say(format_args!("{NO_CHECKPOINT}: there is no thread for it: {e}")),
        }
    }
}

/// Makes a checkpoint; what goes wrong is said, and kept with the session.
pub(super) fn captured(
    store: &Store,
    wanted: &Supervised<'_>,
    trigger: Trigger,
    detail: &str,
    skip: bool,
    progress: &dyn Progress,
) {
    let made = checkpoint(store, wanted, trigger, detail, skip, progress);
    if progress.is_cancelled() {
        return;
    }
    let failed = made.as_ref().err().map(ToString::to_string);
    note(made, NO_CHECKPOINT);
    if failed.is_some() && !is_open(store, wanted) {
        // Whoever has ended the run meanwhile has captured what was to be captured.
        return;
    }
    // Where the store cannot be written, this cannot be either; that was said just now.
    let _ = run::note_checkpoint(store, &wanted.current.session, failed.as_deref(), actor());
}

fn checkpoint(
    store: &Store,
    wanted: &Supervised<'_>,
    trigger: Trigger,
    detail: &str,
    skip: bool,
    progress: &dyn Progress,
) -> parhelia_session::Result<()> {
    let tell = |text: &str| say(text);
    let turn = rollback::settle(store, &wanted.current.session, TURN_LIMIT, &actor(), &tell, progress)?;
    if turn.is_none() {
        return Err(parhelia_session::Error::Invalid("another process still captures the session, or rolls it back".into()));
    }
    if !is_open(store, wanted) {
        // Somebody has ended the run, and has captured what was to be captured.
        return Ok(());
    }
    let session = store.view().session(&wanted.current.session)?;
    let current = session.as_ref().and_then(|session| run::conversation_of(session, &wanted.current.run));
    let id = match current.or_else(|| wanted.conversation.clone()) {
        None => learn(store, wanted),
        known => known,
    };
    let conversation = match &id {
        Some(id) => Conversation::of(session.as_ref(), Some(id), wanted.config_folder.as_ref().map(|config| config.path.clone())),
        None => Conversation::None,
    };
    // It may have been moved since the agent was started.
    let place = session.as_ref().and_then(|session| session.workspace.as_ref()).map(Place::folder);
    let made = run::make(
        store,
        &Wanted {
            session: &wanted.current.session,
            run: Some((&wanted.current.run, wanted.current.epoch)),
            workspace: place.as_ref().unwrap_or(&wanted.current.workspace),
            trigger,
            detail: Some(detail.to_owned()),
            message: None,
            skip_if_unchanged: skip,
            rules: None,
            conversation,
            tmux: tmux_here(),
            environment: wanted.request.clone(),
            config: &wanted.config,
            actor: actor(),
            variable: &variable,
        },
        progress,
    )?;
    if progress.is_cancelled() {
        return Ok(());
    }
    let id = made.outcome.checkpoint.id();
    if made.is_damaged() {
        say(format_args!("checkpoint {id} is damaged; `parhelia checkpoint verify {id}` says where"));
    }
    for notice in made.notice.iter() {
        say(format_args!("checkpoint {id}: {notice}"));
    }
    for failure in made.failed() {
        say(format_args!("checkpoint {id}: {failure}"));
    }
    if made.is_sound() {
        let pruned = retention::after(store, &made.outcome, &wanted.config.retention, &actor(), &());
        if let Some(report) = &pruned
            && let Some(text) = removed_text(report)
        {
            wanted.removed.fetch_add(report.removed.len() as u64, Ordering::Relaxed);
            log::line(&format!("{}: {text}", wanted.current.session));
        }
    }
    Ok(())
}

/// Whether nobody else has ended the run, as a rollback does that stops the agent.
pub(super) fn is_open(store: &Store, wanted: &Supervised<'_>) -> bool {
    let run = store.refresh().and_then(|view| view.run(&wanted.current.run));
    run.is_ok_and(|run| run.is_some_and(|run| run.is_open()))
}

/// The conversation of an agent that names none. Not to learn of it is no reason to make no checkpoint.
fn learn(store: &Store, wanted: &Supervised<'_>) -> Option<String> {
    let (kind, config) = (wanted.kind?, wanted.config_folder.as_ref()?);
    run::learn(store, wanted.current, kind, &config.path, actor()).unwrap_or_else(|e| {
        say(format_args!("the agent's conversation was not found: {e}"));
        None
    })
}
