//! Bringing sessions back whose agents died though they are wanted running: after a delay, in which a sign of life calls it off, and not again
//! and again.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::mpsc::{Receiver, TryRecvError},
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use parhelia_host::{Host, Result, run};
use parhelia_ledger::{EndKind, Goal, LedgerView as _, Place, Run, Session, kind};
use parhelia_life::{
    overview::{
        self, Shortfall,
        attention::{self, State},
    },
    resume::{Objection, SET_ASIDE_AFTER, set_aside, unasked},
};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    view::View,
};

use crate::{
    app::{App, AppState},
    log::say,
    start,
};

/// The time from a death to the resume.
const DELAY: Duration = Duration::from_secs(5);
/// The time from the first look at a lease that has run out to the resume: it is renewed before, where the machine was only asleep.
const UNHEARD_DELAY: Duration = run::RENEWAL.saturating_add(Duration::from_secs(15));
/// The time after which a death is one that nobody wanted.
const MOMENT: Duration = Duration::from_secs(1);
/// The words for a session that goes on without its conversation.
const ANEW: &str = "in a new conversation: its agent does not know the earlier one";
/// The words for a session whose agent may have been ended by its user.
const UNSEEN: &str = "it was started by hand, and nobody saw how it ended, as its hooks did not run any more";
/// The words for a session that was out of reach.
const HEARD_AGAIN: &str = "it had not died: it was out of reach, and was heard of again";
/// The words for a session whose agent does nothing by itself: what it was at was cut off.
const AMID: &str = "its turn was cut off, and it waits to be told how to go on";
/// So many runs of a session may begin within [`CRASH_WINDOW`] before it is left to a person.
const RUNS_MAX: usize = 3;
/// The time within which runs are counted.
const CRASH_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// A resume that failed is tried again after this time, and then after twice as long each time.
const RETRY: Duration = Duration::from_secs(10);
/// After so many resumes that failed, people are told.
const TOLD_AFTER: u32 = 2;
/// After so many, within some five minutes, it is left to a person: each try is a run more.
const TRIES_MAX: u32 = 6;

/// Sessions that are to be brought back.
#[derive(Default)]
pub struct Recovery {
    dead: HashMap<String, Dead>,
    /// Sessions that were called dead, with their runs, and live again without having been resumed.
    again: Vec<(String, Option<String>)>,
    /// Runs of agents that were started by hand and whose hooks do not run any more, by their sessions.
    unseen: HashMap<String, Option<String>>,
    /// True once resumes of a service before this one were looked for.
    has_looked_back: bool,
}

/// The field of a session that names the run after which a service resumes it.
const RESUMES_AFTER: &str = "resumes_after";

/// A session whose agent has died.
struct Dead {
    /// The time at which it is resumed.
    due: Instant,
    /// The resume that is under way.
    resume: Option<Receiver<Result<()>>>,
    /// Resumes that have failed.
    failed: u32,
    /// True if it is left alone, which was said.
    is_left: bool,
    /// The run that died last.
    run: Option<String>,
    /// The folder that it works in.
    folder: Option<PathBuf>,
    /// True if its death was said.
    is_told: bool,
}

impl Recovery {
    /// Takes note of who is dead, and who is not any more.
    pub fn note(&mut self, missing: &Shortfall) {
        let run_of = |id: &String| {
            let found = missing.unsupervised.iter().find(|(session, _)| session.id == *id);
            found.and_then(|(session, _)| session.run.clone())
        };
        // Those whose hooks run again are seen to end.
        let is_dead = |id: &String| missing.dead.iter().any(|session| session.id == *id);
        self.unseen.retain(|id, _| is_dead(id));
        self.unseen.extend(missing.unseen.iter().map(|id| (id.clone(), run_of(id))));
        self.dead.retain(|id, dead| {
            let is_dead = missing.dead.iter().any(|session| session.id == *id);
            if !is_dead && dead.resume.is_none() && !dead.is_left && dead.is_told {
                say(&format!("session {id} lives again; it is not resumed"));
                self.again.push((id.clone(), dead.run.clone()));
            }
            is_dead || dead.resume.is_some()
        });
        for session in &missing.dead {
            match self.dead.get_mut(&session.id) {
                // A person went on with what was left alone, and that has died before anybody looked.
                Some(dead) if dead.is_left && dead.run != session.run => {}
                Some(dead) => {
                    dead.run.clone_from(&session.run);
                    continue;
                }
                None => {}
            }
            let run = session.run.clone();
            // That it is left to a person was said when that was recorded.
            let is_told = was_left(session);
            let folder = session.workspace.as_ref().map(Place::folder);
            // Of one that cannot be seen from here there is only the lease, which runs out while a machine sleeps and is renewed when it wakes. The wait
            // of this process stands still meanwhile.
            let delay = if missing.unheard.contains(&session.id) { UNHEARD_DELAY } else { DELAY };
            let dead = Dead { due: Instant::now() + delay, resume: None, failed: 0, is_left: false, run, folder, is_told };
            self.dead.insert(session.id.clone(), dead);
        }
    }

    /// Tells of those that are still dead after a moment. Whoever ends an agent on purpose says so in the store right behind it.
    fn tell(&mut self, store: &Store) -> Result<()> {
        let before = Instant::now() + DELAY - MOMENT;
        let is_new = |dead: &Dead| !dead.is_told && dead.due <= before;
        if !self.dead.values().any(is_new) {
            return Ok(());
        }
        self.note(&overview::missing(store)?);
        for (id, dead) in self.dead.iter_mut().filter(|(_, dead)| is_new(dead)) {
            dead.is_told = true;
            say(&format!("session {id} is dead; in {} s it is resumed, if it may be", (DELAY - MOMENT).as_secs()));
            let session = store.view().session(id)?;
            if let Some(session) = session.filter(|session| session.head.is_none()) {
                say(&format!("session {id} has no checkpoint: nothing of it is saved but what its folder holds"));
                if let Err(e) = record_loss(store, &session) {
                    say(&format!("that session {id} is lost was not recorded: {e}"));
                }
            }
        }
        Ok(())
    }

    /// Takes back what was told of runs that were out of reach and have been heard of again.
    fn tell_again(&mut self, store: &Store) -> Result<()> {
        for (id, run) in std::mem::take(&mut self.again) {
            // A person has begun another run, and needs no word of it.
            if let Some(session) = store.view().session(&id)?.filter(|session| session.run == run) {
                attention::note(store, &session, Some((State::Recovered, Some(HEARD_AGAIN))), Actor::program("service"))?;
            }
        }
        Ok(())
    }

    /// Tells of sessions that a service resumed which was ended before it could tell.
    fn look_back(&mut self, store: &Store) -> Result<()> {
        if std::mem::replace(&mut self.has_looked_back, true) {
            return Ok(());
        }
        let view = store.refresh()?;
        for session in view.sessions()? {
            let after = session.extra.get(RESUMES_AFTER).and_then(|run| run.as_str());
            let is_newest = after.is_some() && after == session.runs.iter().rev().nth(1).map(String::as_str);
            let is_told = || attention::recorded(&session).is_some_and(|told| told.run == session.run);
            if is_newest && !is_told() && view.newest_run(&session)?.is_some_and(|run| run::life(&run).is_alive()) {
                attention::note(store, &session, Some(recovered_how(&view, &session)?), Actor::program("service"))?;
            }
        }
        Ok(())
    }

    /// Starts the resumes that are due, and hears of those that are done. Those that are still to be captured wait.
    pub fn go_on(&mut self, app: &App, is_captured: impl Fn(&str) -> bool) -> Result<()> {
        let mut outcome = Ok(());
        self.dead.retain(|id, dead| {
            let done = dead.is_resumed(id, app);
            let is_resumed = done.as_ref().is_ok_and(|is_resumed| *is_resumed);
            outcome = done.map(drop).and(std::mem::replace(&mut outcome, Ok(())));
            !is_resumed
        });
        outcome?;
        self.tell(&app.store)?;
        self.look_back(&app.store)?;
        self.tell_again(&app.store)?;
        let now = Instant::now();
        let is_due = |(id, dead): &(&String, &Dead)| !dead.is_left && dead.resume.is_none() && dead.due <= now && is_captured(id);
        let mut due: Vec<(&Option<String>, String)> =
            self.dead.iter().filter(is_due).map(|(id, dead)| (&dead.run, id.clone())).collect();
        // Where one folder has several, the one whose agent began last is the one that goes on; ids of runs are in the order of their beginnings.
        due.sort_by(|one, other| other.cmp(one));
        let due: Vec<String> = due.into_iter().map(|(_, id)| id).collect();
        if due.is_empty() {
            return Ok(());
        }
        // Whoever came back meanwhile is not resumed.
        let missing = overview::missing(&app.store)?;
        self.note(&missing);
        for id in due {
            // One after the other: whether it is resumed beside another one is decided by what lives then.
            if self.is_under_way_beside(&id) {
                continue;
            }
            let Some(dead) = self.dead.get_mut(&id) else { continue };
            // Not before: who watched over it records its end first. And it may have died again and again while it was being resumed.
            let session = missing.dead.iter().find(|session| session.id == id);
            let is_unseen = match session {
                Some(session) if self.unseen.get(&id) == Some(&session.run) => true,
                Some(session) => {
                    let run = app.store.view().newest_run(session)?;
                    run.map(|run| run::ended_unheard(&app.store, session, &run)).transpose()?.unwrap_or(false)
                }
                None => false,
            };
            if let Some(why) = session.map(|session| why_left(app, session, is_unseen)).transpose()?.flatten() {
                if !session.is_some_and(was_left) {
                    say(&format!("session {id} is left alone: {why}"));
                }
                dead.is_left = true;
                continue;
            }
            let after =
                NewEvent::new(kind::SESSION_CHANGED, &id, Actor::program("service")).with(RESUMES_AFTER, dead.run.clone());
            app.store.append_events(&[after], &())?;
            dead.resume = Some(start::begin_resume(app, id, None));
        }
        Ok(())
    }

    /// True while another session is being resumed in the folder of a dead one, around it or below it.
    fn is_under_way_beside(&self, id: &str) -> bool {
        let Some(folder) = self.dead.get(id).and_then(|dead| dead.folder.as_ref()) else { return false };
        let others = self.dead.iter().filter(|(other, dead)| *other != id && dead.resume.is_some());
        others.filter_map(|(_, dead)| dead.folder.as_ref()).any(|other| other.starts_with(folder) || folder.starts_with(other))
    }
}

impl Dead {
    /// Takes note that a resume failed: it is tried again later, but not for ever, and people are told.
    fn has_failed(&mut self, id: &str, app: &AppState, why: &str) -> Result<()> {
        let pause = RETRY.saturating_mul(1 << self.failed.min(16));
        (self.failed, self.due) = (self.failed + 1, Instant::now() + pause);
        self.is_left = self.failed >= TRIES_MAX;
        // Each try is a run more, and the last one is none that a person began.
        self.run = app.store.refresh()?.session(id)?.and_then(|session| session.run);
        match self.is_left {
            true => say(&format!("session {id} was not resumed: {why}; it is left to a person after {TRIES_MAX} tries")),
            false => say(&format!("session {id} was not resumed: {why}; it is tried again in {} s", pause.as_secs())),
        }
        if self.failed != TOLD_AFTER {
            return Ok(());
        }
        match app.store.refresh()?.session(id)? {
            Some(session) if session.goal() == Goal::Running => {
                attention::note(&app.store, &session, Some((State::ResumeFailed, Some(why))), Actor::program("service")).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// True if it is resumed. A resume that has failed is followed by another, later.
    fn is_resumed(&mut self, id: &str, app: &AppState) -> Result<bool> {
        let outcome = match self.resume.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return Ok(false),
            Some(Err(TryRecvError::Disconnected)) => Err("it ended before it was done".to_owned()),
            // It may have the lines of an agent's screen.
            Some(Ok(outcome)) => outcome.map_err(|e| e.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join(" ")),
        };
        self.resume = None;
        app.metrics.resumed(outcome.is_ok());
        if let Err(why) = outcome {
            self.has_failed(id, app, &why)?;
            return Ok(false);
        }
        say(&format!("session {id} is resumed"));
        let view = app.store.refresh()?;
        if let Some(session) = view.session(id)? {
            attention::note(&app.store, &session, Some(recovered_how(&view, &session)?), Actor::program("service"))?;
        }
        Ok(true)
    }
}

/// The verdict on a session that was resumed, with words for people where it does not go on as it was.
fn recovered_how(view: &View, session: &Session) -> Result<(State, Option<&'static str>)> {
    if has_begun_anew(view, session)? {
        return Ok((State::Recovered, Some(ANEW)));
    }
    let newest = view.newest_run(session)?;
    let head = view.head(&session.id)?;
    // A service before this one may have resumed it some time ago.
    if newest.as_ref().is_some_and(|run| attention::has_gone_on_since(session, head.as_ref(), run.started_at)) {
        return Ok((State::Recovered, None));
    }
    let from = newest.and_then(|run| run.resumed_from?.parse().ok());
    let from = from.map(|id| view.checkpoint(id)).transpose()?.flatten();
    let phase = from.as_ref().and_then(|from| from.record.conversation.as_ref()?.get("phase")?.as_str());
    Ok(match phase {
        Some("thinking" | "in_tool") => (State::CutOff, Some(AMID)),
        _ => (State::Recovered, None),
    })
}

/// True if the agent of a session did not know its conversation, so that a new one was begun for it.
fn has_begun_anew(view: &View, session: &Session) -> Result<bool> {
    let Some(before) = session.runs.iter().rev().nth(1) else { return Ok(false) };
    let ending = view.run(before)?.and_then(|run| run.ending());
    Ok(ending.is_some_and(|end| end.kind == EndKind::ConversationUnknown))
}

/// Records that a session died of which there is no checkpoint, once for each of its runs.
fn record_loss(store: &Store, session: &Session) -> Result<()> {
    let run = store.view().newest_run(session)?;
    let unheard = run.as_ref().and_then(run::why_unheard);
    let reason = unheard.unwrap_or_else(|| "its agent died, and only what its folder holds is left".to_owned());
    let lost = NewEvent::new(kind::SESSION_LOST, &session.id, Actor::program("service")).with("reason", reason);
    store.append_events(&[lost.once(format!("{}/lost", session.run.as_deref().unwrap_or(&session.id)))], &())?;
    Ok(())
}

/// The reason for which a dead session is not resumed. It is recorded where it is a person's turn from now on.
fn why_left(app: &AppState, session: &Session, is_unseen: bool) -> Result<Option<String>> {
    let host: &dyn Host = &*app.host;
    let unseen = is_unseen.then(|| UNSEEN.to_owned());
    if let Some(text) = unseen.map_or_else(|| refused_at_start(&app.store.view(), session), |text| Ok(Some(text)))? {
        attention::note(&app.store, session, Some((State::LeftAlone, Some(&text))), Actor::program("service"))?;
        return Ok(Some(text));
    }
    let why = match unasked(&app.store, host, session, None)? {
        None if has_crashed_often(&app.store.view(), session)? => Objection::CrashLoop { runs: RUNS_MAX },
        None => return Ok(None),
        Some(why) => why,
    };
    let text = why.to_string();
    match why {
        Objection::Policy { .. } | Objection::CrashLoop { .. } => set_aside(&app.store, session, &why)?,
        // It is wanted running all the same: with a prompt, or by whoever may start its program again.
        Objection::NoAgent | Objection::NoPrompt | Objection::UnknownCommand | Objection::Beside { .. } => {
            attention::note(&app.store, session, Some((State::LeftAlone, Some(&text))), Actor::program("service"))?;
        }
    }
    Ok(Some(text))
}

/// The reason against resuming an agent that ended of its own accord while it asked a person something, and never began to work: it was answered.
fn refused_at_start(view: &View, session: &Session) -> Result<Option<String>> {
    let Some(run) = view.newest_run(session)? else { return Ok(None) };
    let asked = attention::recorded(session).filter(|known| known.state == State::Waiting && known.run == session.run);
    let has_ended = run.ending().is_some_and(|end| end.has_finished() || end.has_failed());
    let is_answer = has_ended && run::heard_hooks(&run).is_none();
    Ok(asked.filter(|_| is_answer).map(|asked| {
        let what = asked.why.unwrap_or_else(|| "it asked something".to_owned());
        format!("its agent ended while it waited for an answer ({what})")
    }))
}

/// True of a dead session of whose newest run it is recorded that it is left to a person.
fn was_left(session: &Session) -> bool {
    attention::recorded(session).is_some_and(|known| known.run == session.run && known.state == State::LeftAlone)
}

/// True if a run ended without being asked to: of its own accord, by a signal that nobody of us sent, or unseen.
fn has_died(run: &Run) -> bool {
    run.ending().is_none_or(|end| end.is_unasked())
}

/// True if as many runs of a session began within a short time as may.
fn has_crashed_often(view: &View, session: &Session) -> Result<bool> {
    let since = parhelia_store::clock::timestamp() - CRASH_WINDOW;
    let mut count = 0;
    let set_aside = session.extra.get(SET_ASIDE_AFTER).and_then(|run| run.as_str());
    for id in session.runs.iter().rev().take(RUNS_MAX).take_while(|id| Some(id.as_str()) != set_aside) {
        let is_crash = |run: Run| run.started_at >= since && run.resumed_from.is_some() && has_died(&run);
        count += usize::from(view.run(id)?.is_some_and(is_crash));
    }
    Ok(count >= RUNS_MAX)
}
