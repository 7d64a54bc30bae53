//! Waiting for an agent: passing on signals, making checkpoints now and then and at the end, recording how it went.

mod captures;
mod child;
mod cost_totals;
mod finish;
mod launch;
mod observers;
mod printed;
mod relay;
mod screen;
mod silent_hooks;
mod stderr;
mod stops;

use std::{
    ffi::OsString,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::Scope,
    time::{Duration, Instant},
};

use parhelia_agent::{
    environment::Request,
    folder::ConfigFolder,
    kind::Kind,
    tmux::{Detaches, Server},
    transcript::index::Format,
    trouble::Trouble,
};
use parhelia_ledger::{End, EndKind, Goal, LedgerView as _, NOT_STARTED, Status, Tmux};
use parhelia_store::{
    Store,
    progress::Progress,
    record::{Cause, Trigger},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
};

use self::{
    captures::{CaptureRequest, Captures, ProbeSchedule, is_open},
    child::{start, watch},
    cost_totals::Costs,
    finish::finish,
    observers::{Cancellable, Quiet},
    printed::{AgentStdout, PrintedCost},
    screen::on_screen,
    stderr::AgentStderr,
};
use parhelia_host::{
    Error, Host, Observer, Result, RunRefusal,
    config::Config,
    notice::Notice,
    run::{self, Current},
};

pub use child::ensure_startable;
pub use launch::{Launch, LaunchRequest, PendingLaunch, ensure_launchable, policy_of_outer, prompted};
pub use relay::relay;
use stops::Ending;
pub use stops::Stops;

/// Another checkpoint of the session, or its rollback, is waited for, but not longer.
const TURN_LIMIT: Duration = Duration::from_secs(10);
/// No call of tmux takes longer.
const TMUX_LIMIT: Duration = Duration::from_secs(5);

/// The detail of the checkpoints that are made as a run starts.
const START: &str = "start";

/// An agent that does not know its conversation ends sooner.
pub const EARLY: Duration = Duration::from_secs(15);

/// An agent that is to be started and watched over.
pub struct Supervision<'a> {
    /// The caller.
    pub host: &'a dyn Host,
    /// The run.
    pub current: &'a Current,
    /// The command line.
    pub argv: &'a [OsString],
    /// Variables that are added.
    pub environment: Vec<(String, OsString)>,
    /// The kind of agent; none for a program that is no agent.
    pub kind: Option<Kind>,
    /// The agent's own folder.
    pub config_folder: Option<ConfigFolder>,
    /// The folder in which it starts.
    pub folder: PathBuf,
    /// The conversation's id.
    pub conversation: Option<String>,
    /// True if it answers one prompt and ends.
    pub is_headless: bool,
    /// The format of the records that it prints, and that are read beside it; none for what nothing of ours reads.
    pub prints: Option<Format>,
    /// The conversation that it is told to go on with. What it says on standard error is listened to, as it may know none of that name.
    pub resumes: Option<&'a str>,
    /// The interval between checkpoints.
    pub interval: Option<Duration>,
    /// The places to look at for the agent's environment; none for a program that is no agent.
    pub request: Option<Request>,
    /// The configuration in force for the workspace.
    pub config: Config,
    /// The goal of the session before. It stays so where the start is called off.
    pub before: Goal,
    /// True if a checkpoint has all that is in the workspace, as where that was just restored from it: then none is waited for before the start.
    pub is_captured: bool,
    /// True if nothing is said of a good end.
    pub is_quiet: bool,
    /// The number of checkpoints that retention has removed meanwhile. The agent has the terminal: that is said when it has ended.
    pub removed: AtomicU64,
    /// True once it was said that no event of the agent's hooks comes.
    pub is_silent: AtomicBool,
}

/// The end of an agent.
#[derive(Clone, Debug)]
pub struct AgentExit {
    /// The exit code for this process.
    pub code: u8,
    /// True if it failed of its own accord: no signal has ended it, and nobody has ended its run.
    pub has_failed: bool,
    /// The time that it ran.
    pub ran: Duration,
    /// The end of what it said where that was listened to: on standard error, or in tmux on the screen.
    pub said: String,
    /// True if it said that it does not know the conversation. Then no checkpoint was made, and the run is still open.
    pub is_unknown: bool,
}

/// The result of starting a run's agent. Where that failed, a run whose agent was never started ends.
pub fn or_ended<T, E: std::fmt::Display>(
    store: &Store,
    host: &dyn Host,
    current: &Current,
    observer: &dyn Observer,
    started: Result<T, E>,
) -> Result<T, E> {
    started.inspect_err(|failure| {
        let run = store.refresh().and_then(|view| view.run(&current.run)).ok().flatten();
        if run.is_some_and(|run| run.is_open() && run.pid.is_none()) {
            let reason = format!("{NOT_STARTED}: {failure}");
            note(
                observer,
                run::end(store, current, (End::of(EndKind::NotStarted), &reason), (Status::Error, None), host.actor()),
                NO_END,
            );
        }
    })
}

const NO_END: &str = "the run's end was not recorded";

/// Starts the agent, and waits for it to end. Requests that this process end are passed on.
pub fn supervise(store: &Store, wanted: &Supervision<'_>, stops: &Stops, observer: &dyn Observer) -> Result<AgentExit> {
    if !is_open(store, wanted) {
        return Err(RunRefusal::EndedBefore { run: wanted.current.run.clone() }.into());
    }
    let host = wanted.host;
    let captured = if wanted.is_captured { Ok(()) } else { capture_first(store, wanted, stops, observer) };
    captured.inspect_err(|failure| {
        let (status, goal) = match wanted.before {
            Goal::Running => (Status::Error, Goal::Running),
            Goal::Paused => (Status::Paused, Goal::Paused),
            Goal::Ended => (Status::Ended, Goal::Ended),
        };
        let reason = format!("{NOT_STARTED}: {failure}");
        let end = (End::of(EndKind::NotStarted), &*reason);
        note(observer, run::end(store, wanted.current, end, (status, Some(goal)), host.actor()), NO_END);
    })?;
    let mut costs = Costs::known(store, &wanted.current.session);
    let (printed, output) = relayed(wanted, observer).unzip();
    let mut child = start(wanted, output)?;
    let began = Instant::now();
    let watched = watch(&mut child);
    if watched.is_err() {
        // Unwatched, it would run without checkpoints.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (stderr, agent, fd) = watched?;
    note(observer, run::started(store, wanted.current, &agent, host.actor()), "the run's process was not recorded");
    let detaches = host.tmux().map(detaches).transpose().unwrap_or_else(|e| {
        observer.warn(&Notice::NoDetach { why: e.to_string() });
        None
    });
    let quiet = Quiet(observer);
    let streams = Streams { stops, agent: &fd, detaches: detaches.as_ref(), printed: printed.as_ref() };
    let (asked, ended) = std::thread::scope(|scope| watch_over(scope, store, wanted, &streams, &mut costs, &quiet))?;
    drop(detaches);
    let status = child.wait().map_err(|e| lost(&e.to_string()))?;
    // Interrupts that came meanwhile were meant for this agent, and do not cancel another one that is started in its place.
    let _ = stops.take_interrupt();
    let ran = ended.duration_since(began);
    let said = stderr.map(AgentStderr::end);
    if let Some(cost) = printed.as_ref().and_then(AgentStdout::ended) {
        note_cost(store, wanted, &mut costs, cost, observer);
    }
    let has_terminal = host.agent_ended();
    let asked = asked.or((!has_terminal).then_some(Signal::HUP));
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    let has_failed = asked.is_none() && status.code().is_some_and(|code| code != 0) && is_open(store, wanted);
    let mut ended = AgentExit { code: u8::try_from(code).unwrap_or(1), has_failed, ran, said: String::new(), is_unknown: false };
    if let Some(conversation) = wanted.resumes.filter(|_| has_failed) {
        (ended.said, ended.is_unknown) = match said {
            Some(said) => (said.clone(), wanted.kind.and_then(|kind| kind.trouble(&said)) == Some(Trouble::NoConversation)),
            None => on_screen(host, wanted.kind, conversation, ran),
        };
    }
    if !ended.is_unknown {
        finish(store, wanted, status, asked, observer);
    }
    if let Some(printed) = printed {
        printed.passed_on(stops);
    }
    Ok(ended)
}

/// Makes a checkpoint before the agent starts: the first thing that it does may be to remove what no checkpoint has. Fails where somebody
/// asks this process to end meanwhile.
fn capture_first(store: &Store, wanted: &Supervision<'_>, stops: &Stops, observer: &dyn Observer) -> Result<()> {
    let observer = Cancellable::new(observer);
    let captured = std::thread::scope(|scope| {
        let mut captures = Captures::default();
        captures.ask(CaptureRequest::periodic(Cause::Start, START));
        captures.go_on(scope, store, wanted, &observer);
        let mut renewal = Some(Instant::now() + run::RENEWAL);
        while let Some(done) = captures.done() {
            let mut fds = [&stops.ends, &stops.interrupts, done].map(|stream| PollFd::new(stream, PollFlags::IN));
            match poll(&mut fds, until(renewal).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(lost(&e.to_string())),
            }
            if stops.take().is_some() || stops.take_interrupt() {
                observer.cancel();
            }
            renewal = renewed(store, wanted, renewal, &observer);
            captures.go_on(scope, store, wanted, &observer);
        }
        Ok(())
    });
    observer.leave_terminal();
    captured?;
    match observer.is_cancelled() {
        true => Err(parhelia_store::Error::Cancelled.into()),
        false => Ok(()),
    }
}

/// The time that is left until then, for `poll`.
fn until(at: Option<Instant>) -> Option<Timespec> {
    let left = at?.saturating_duration_since(Instant::now());
    Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
}

/// Renews the run's lease once it is time; when it is time again, or none where there is no more to renew.
fn renewed(store: &Store, wanted: &Supervision<'_>, renewal: Option<Instant>, observer: &dyn Observer) -> Option<Instant> {
    match renewal {
        Some(at) if at <= Instant::now() => renew(store, wanted, observer).then(|| Instant::now() + run::RENEWAL),
        other => other,
    }
}

/// Waits for the agent's end, and for that of the checkpoint that is made then. Returns the signal that asked for it, and when the agent ended.
fn watch_over<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    store: &'env Store,
    wanted: &'env Supervision<'env>,
    streams: &Streams<'_>,
    costs: &mut Costs,
    observer: &'env dyn Observer,
) -> Result<(Option<Signal>, Instant)> {
    let Streams { stops, agent, detaches, mut printed } = *streams;
    let mut captures = Captures::default();
    if wanted.host.tmux().is_some() || wanted.is_captured {
        // One that dies early is brought back with the windows that it had; and one that nothing was captured for before is captured now.
        captures.ask(CaptureRequest::periodic(Cause::Start, START));
    }
    let mut ending: Option<Ending> = None;
    let mut ended = None;
    let mut next = wanted.interval.map(|interval| Instant::now() + interval);
    let mut renewal = Some(Instant::now() + run::RENEWAL);
    let mut interval = wanted.interval;
    let mut listens = silent_hooks::begin(wanted);
    let mut learning = ProbeSchedule::begin(wanted);
    loop {
        if ended.is_some() {
            captures.stop();
        }
        captures.go_on(scope, store, wanted, observer);
        if let Some(ended) = ended.filter(|_| captures.done().is_none()) {
            return Ok((ending.filter(|ending| !ending.is_void(ended)).map(|ending| ending.signal), ended));
        }
        if let Some(ending) = ending.as_mut().filter(|_| ended.is_none()) {
            ending.go_on(agent, &captures);
        }
        let ends = ending.as_ref().filter(|_| ended.is_none()).and_then(|ending| ending.until);
        let learns = learning.filter(|_| ended.is_none()).map(|learning| learning.next);
        let left = until([next, renewal, ends, listens, learns].into_iter().flatten().min());
        // Once the agent has ended, only the end of captures is waited for.
        let mut fds: Vec<PollFd> = ended.is_none().then(|| PollFd::new(&stops.ends, PollFlags::IN)).into_iter().collect();
        fds.extend(captures.done().map(|done| PollFd::new(done, PollFlags::IN)));
        let at = fds.len();
        fds.extend(ended.is_none().then(|| PollFd::new(agent, PollFlags::IN)));
        fds.extend(detaches.filter(|_| ended.is_none()).map(|detaches| PollFd::new(detaches.heard(), PollFlags::IN)));
        fds.extend(printed.filter(|_| ended.is_none()).map(|printed| PollFd::new(printed.news(), PollFlags::IN)));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(lost(&e.to_string())),
        }
        let has_signal = ended.is_none() && !fds[0].revents().is_empty();
        let is_over = ended.is_none() && !fds[at].revents().is_empty();
        drop(fds);
        // On shutdown the agent and this process get the signal at once. A signal after the agent's end is none for it.
        if (has_signal || is_over)
            && ended.is_none()
            && let Some(signal) = stops.take()
        {
            // Ctrl-C reaches the agent from the terminal itself, and is its own business.
            match ending.as_mut().filter(|ending| !ending.is_void(Instant::now())) {
                None => ending = Some(Ending::begin(signal, &mut captures)),
                Some(ending) => ending.hurry(),
            }
        }
        ended = ended.or(is_over.then(Instant::now));
        if detaches.is_some_and(|detaches| ended.is_none() && detaches.take()) {
            captures.ask(CaptureRequest {
                trigger: Trigger::Detach,
                cause: Cause::Detach,
                detail: "tmux",
                skip_if_unchanged: false,
            });
        }
        if let Some((cost, may_go_on)) = printed.filter(|_| ended.is_none()).map(AgentStdout::take) {
            cost.into_iter().for_each(|cost| note_cost(store, wanted, costs, cost, observer));
            printed = printed.filter(|_| may_go_on);
        }
        renewal = renewed(store, wanted, renewal, observer);
        learning = learning.and_then(|learning| learning.go_on(store, wanted));
        if listens.is_some_and(|at| at <= Instant::now()) {
            let heard = silent_hooks::look(store, wanted);
            listens = (heard == silent_hooks::HookStatus::NotYet).then(|| Instant::now() + silent_hooks::AGAIN);
            if heard == silent_hooks::HookStatus::Nothing {
                wanted.is_silent.store(true, Ordering::Relaxed);
                let silent = silent_hooks::silent(wanted);
                observer.warn(&silent);
                // The agent has the terminal; who lists sessions reads it there.
                let noted = run::note_silent_hooks(store, wanted.current, &silent.to_string(), wanted.host.actor());
                note(observer, noted, "that no event of the agent's hooks has come was not recorded");
                // What hooks would have made is made by the clock.
                interval = Some(interval.map_or(silent_hooks::INTERVAL, |interval| interval.min(silent_hooks::INTERVAL)));
                next = Some(next.map_or_else(Instant::now, |next| next.min(Instant::now() + silent_hooks::INTERVAL)));
            }
        }
        if next.is_some_and(|next| next <= Instant::now()) {
            next = interval.map(|interval| Instant::now() + interval);
            captures.ask(CaptureRequest::periodic(Cause::Interval, "interval"));
        }
    }
}

/// The streams that are waited for beside an agent.
struct Streams<'a> {
    stops: &'a Stops,
    agent: &'a OwnedFd,
    detaches: Option<&'a Detaches>,
    printed: Option<&'a AgentStdout>,
}

/// The standard output of an agent whose records are read, and what it writes to. Without a relay it has the caller's.
fn relayed(wanted: &Supervision<'_>, observer: &dyn Observer) -> Option<(AgentStdout, OwnedFd)> {
    AgentStdout::begin(wanted.host, wanted.prints?).unwrap_or_else(|e| {
        observer.warn(&Notice::NotRecorded { what: "what the agent prints is not read", why: e.to_string() });
        None
    })
}

/// Records what the agent has printed of its cost.
fn note_cost(store: &Store, wanted: &Supervision<'_>, costs: &mut Costs, cost: PrintedCost, observer: &dyn Observer) {
    let config = wanted.config_folder.as_ref().map(|config| config.path.as_path());
    let noted = costs.note(store, wanted.current, (cost.usd, cost.conversation), config, wanted.host.actor());
    note(observer, noted, "what the agent says of its cost was not recorded");
}

/// Renews the run's lease; false where there is no more to renew.
fn renew(store: &Store, wanted: &Supervision<'_>, observer: &dyn Observer) -> bool {
    match run::renew(store, wanted.current, run::WATCHED) {
        Err(Error::Store(parhelia_store::Error::Fenced { .. })) => {
            observer.warn(&Notice::TakenOver { session: wanted.current.session.clone() });
            false
        }
        other => {
            note(observer, other, "the run's lease was not renewed");
            true
        }
    }
}

fn detaches(here: Tmux) -> Result<Detaches> {
    Ok(Detaches::of(Server::new(Some(here.socket.into()), TMUX_LIMIT), &here.pane)?)
}

/// The error where an agent cannot be watched over.
fn lost(reason: &str) -> Error {
    Error::Io { action: "wait for", path: "the agent".into(), source: std::io::Error::other(reason.to_owned()) }
}

/// Tells what went wrong behind the agent's back, and does it no harm.
fn note<T, E: std::fmt::Display>(observer: &dyn Observer, done: Result<T, E>, what: &'static str) {
    if let Err(e) = done {
        observer.warn(&Notice::NotRecorded { what, why: e.to_string() });
    }
}
