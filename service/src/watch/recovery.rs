//! Bringing sessions back whose agents died though they are wanted running: after a delay, in which a sign of life calls it off, and not again
//! and again.

use std::{
    collections::HashMap,
    io,
    process::{Child, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use parhelia_session::{
    Result,
    host::Host,
    overview::{self, Missing},
    resume::{Unasked, set_aside, unasked},
};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent, kind},
    projection::Session,
    view::View,
};

use crate::{
    api::problem::Problem,
    app::{App, Shared},
    log::say,
    metrics::Metrics,
};

/// The time from a death to the resume.
const DELAY: Duration = Duration::from_secs(5);
/// So many runs of a session may begin within [`CRASH_WINDOW`] before it is left to a person.
const RUNS_MAX: usize = 3;
/// The time within which runs are counted.
const CRASH_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// A resume that failed is tried again after this time, and then after twice as long each time.
const RETRY: Duration = Duration::from_secs(10);
/// ... but not less often than this.
const RETRY_MAX: Duration = Duration::from_secs(600);
/// A request waits no longer for a resume.
const RESUME_LIMIT: Duration = Duration::from_secs(600);

/// Sessions that are to be brought back.
#[derive(Default)]
pub struct Recovery {
    dead: HashMap<String, Dead>,
}

/// A session whose agent has died.
struct Dead {
    /// The time at which it is resumed.
    due: Instant,
    /// The process that resumes it.
    process: Option<Child>,
    /// Resumes that have failed.
    failed: u32,
    /// True if it is left alone, which was said.
    is_left: bool,
}

impl Recovery {
    /// Takes note of who is dead, and who is not any more.
    pub fn note(&mut self, store: &Store, missing: &Missing) {
        self.dead.retain(|id, dead| {
            let is_dead = missing.dead.iter().any(|session| session.id == *id);
            if !is_dead && dead.process.is_none() && !dead.is_left {
                say(&format!("session {id} lives again; it is not resumed"));
            }
            is_dead || dead.process.is_some()
        });
        for session in &missing.dead {
            if self.dead.contains_key(&session.id) {
                continue;
            }
            say(&format!("session {} is dead; in {} s it is resumed, if it may be", session.id, DELAY.as_secs()));
            if session.head.is_none() {
                say(&format!("session {} has no checkpoint: nothing of it is saved but what its folder holds", session.id));
                if let Err(e) = record_loss(store, session) {
                    say(&format!("that session {} is lost was not recorded: {e}", session.id));
                }
            }
            let dead = Dead { due: Instant::now() + DELAY, process: None, failed: 0, is_left: false };
            self.dead.insert(session.id.clone(), dead);
        }
    }

    /// Starts the resumes that are due, and hears of those that are done. Those that are still to be captured wait.
    pub fn go_on(&mut self, app: &App, is_captured: impl Fn(&str) -> bool) -> Result<()> {
        self.dead.retain(|id, dead| !dead.is_resumed(id, &app.metrics));
        let now = Instant::now();
        let is_due =
            |(id, dead): &(&String, &Dead)| !dead.is_left && dead.process.is_none() && dead.due <= now && is_captured(id);
        let due: Vec<String> = self.dead.iter().filter(is_due).map(|(id, _)| id.clone()).collect();
        if due.is_empty() {
            return Ok(());
        }
        // Whoever came back meanwhile is not resumed.
        let missing = overview::missing(&app.store)?;
        self.note(&app.store, &missing);
        for id in due {
            let Some(dead) = self.dead.get_mut(&id) else { continue };
            // Not before: who watched over it records its end first. And it may have died again and again while it was being resumed.
            let session = missing.dead.iter().find(|session| session.id == id);
            if let Some(why) = session.map(|session| why_left(app, session)).transpose()?.flatten() {
                say(&format!("session {id} is left alone: {why}"));
                dead.is_left = true;
                continue;
            }
            match (app.resume)(&id, Stdio::inherit()) {
                Ok(process) => dead.process = Some(process),
                Err(e) => {
                    say(&format!("session {id} was not resumed: {e}"));
                    dead.due = now + RETRY_MAX;
                }
            }
        }
        Ok(())
    }
}

impl Dead {
    /// True if the process that resumes it has done so. One that has failed is followed by another, later.
    fn is_resumed(&mut self, id: &str, metrics: &Metrics) -> bool {
        let Some(done) = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten()) else { return false };
        self.process = None;
        metrics.resumed(done.success());
        if done.success() {
            say(&format!("session {id} is resumed"));
            return true;
        }
        let pause = RETRY.saturating_mul(1 << self.failed.min(16)).min(RETRY_MAX);
        (self.failed, self.due) = (self.failed + 1, Instant::now() + pause);
        say(&format!("session {id} was not resumed ({done}); it is tried again in {} s", pause.as_secs()));
        false
    }
}

/// Records that a session died of which there is no checkpoint, once for each of its runs.
fn record_loss(store: &Store, session: &Session) -> Result<()> {
    let reason = "its agent died, and only what its folder holds is left";
    let lost = NewEvent::new(kind::SESSION_LOST, &session.id, Actor::program("service")).with("reason", reason);
    store.append_events(&[lost.once(format!("{}/lost", session.run.as_deref().unwrap_or(&session.id)))], &())?;
    Ok(())
}

/// The reason for which a dead session is not resumed. It is recorded where it is a person's turn from now on.
fn why_left(app: &Shared, session: &Session) -> Result<Option<String>> {
    let host: &dyn Host = &*app.host;
    let why = match unasked(&app.store, host, session, None)? {
        None if has_crashed_often(&app.store.view(), session)? => Unasked::CrashLoop { runs: RUNS_MAX },
        None => return Ok(None),
        Some(why) => why,
    };
    if matches!(why, Unasked::Policy { .. } | Unasked::CrashLoop { .. }) {
        set_aside(&app.store, session, &why)?;
    }
    Ok(Some(why.to_string()))
}

/// True if as many runs of a session began within a short time as may.
fn has_crashed_often(view: &View, session: &Session) -> Result<bool> {
    let since = parhelia_store::clock::timestamp() - CRASH_WINDOW;
    let mut count = 0;
    for id in session.runs.iter().rev().take(RUNS_MAX) {
        count += usize::from(view.run(id)?.is_some_and(|run| run.started_at >= since && run.resumed_from.is_some()));
    }
    Ok(count >= RUNS_MAX)
}

/// The reason for which a session that somebody asked for does not live yet.
#[derive(Debug, thiserror::Error)]
pub enum Unresumed {
    /// The process that resumes it has failed, or could not be started.
    #[error("{0}")]
    Failed(String),
    /// It is not done in time.
    #[error("the session is still being resumed after {} s; the resume goes on, so ask for the session later", .0.as_secs())]
    UnderWay(Duration),
}

impl From<Unresumed> for String {
    fn from(unresumed: Unresumed) -> Self {
        unresumed.to_string()
    }
}

impl From<Unresumed> for Problem {
    fn from(unresumed: Unresumed) -> Self {
        match &unresumed {
            Unresumed::Failed(said) => Problem::refused(said),
            Unresumed::UnderWay(_) => Problem::busy(unresumed),
        }
    }
}

/// Resumes a session now, and waits until its agent has been started, though not for ever. Fails with the words of the process that does it.
pub fn resume(app: &Shared, session: &str) -> Result<(), Unresumed> {
    let failed = |e: io::Error| Unresumed::Failed(format!("the process that resumes a session cannot be started: {e}"));
    let process = (app.resume)(session, Stdio::piped()).map_err(failed)?;
    let done = output_within(process, RESUME_LIMIT).map_err(failed)?.ok_or(Unresumed::UnderWay(RESUME_LIMIT))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Unresumed::Failed(said.trim().trim_start_matches("parhelia: ").to_owned()))
}

/// The output of a process that ends within a time; none of another one, which goes on and is waited for by a thread.
fn output_within(process: Child, limit: Duration) -> io::Result<Option<Output>> {
    let (tell, done) = mpsc::channel();
    thread::Builder::new().name("resume".into()).spawn(move || tell.send(process.wait_with_output()))?;
    done.recv_timeout(limit).ok().transpose()
}

#[cfg(test)]
mod tests {
    use std::{io::Write, process::Command};

    use super::*;

    #[test]
    fn a_process_that_takes_too_long_goes_on_without_us() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let done = output_within(start("echo words >&2; exit 3"), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((done.status.code(), &done.stderr[..]), (Some(3), &b"words\n"[..]));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let mut process = start(&format!("read line; echo done > '{}'", file.display()));
        let mut input = process.stdin.take().unwrap();
        assert!(output_within(process, Duration::from_millis(50)).unwrap().is_none());
        input.write_all(b"go on\n").unwrap();
        while !file.exists() {
            thread::sleep(Duration::from_millis(10));
        }
        let problem = Problem::from(Unresumed::UnderWay(RESUME_LIMIT));
        assert_eq!((problem.status, problem.title), (503, "locked"));
        assert!(problem.detail.contains("600 s; the resume goes on"), "{}", problem.detail);
        assert_eq!(Problem::from(Unresumed::Failed("no".into())).status, 409);
    }
}
