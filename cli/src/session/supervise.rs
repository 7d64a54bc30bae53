//! Waiting for an agent: passing on signals, making checkpoints now and then and at the end, recording how it went.

mod capture;
mod said;
mod signals;

use std::{
    ffi::OsString,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread::Scope,
    time::{Duration, Instant},
};

use parhelia_agent::{
    environment::Request,
    folder::ConfigFolder,
    kind::Kind,
    process::{self, Identity},
    tmux::{Detaches, Server},
    trouble::{Trouble, does_not_know, trouble},
};
use parhelia_session::{
    config::Config,
    run::{self, Current},
};
use parhelia_store::{
    Store,
    fold::{Goal, NOT_STARTED, Status, Tmux},
    record::Trigger,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use self::{
    capture::{Captures, captured, is_open},
    said::Said,
    signals::Signals,
};
use super::{
    agent::{actor, variable},
    terminal::Terminal,
};
use crate::{
    exit::{Failure, Result},
    human,
    interrupt::Cancel,
    limits,
    progress::Bar,
    session::agent::own_folder,
};

/// Another checkpoint of the session, or its rollback, is waited for, but not longer.
const TURN_LIMIT: Duration = Duration::from_secs(10);
/// No call of tmux takes longer.
const TMUX_LIMIT: Duration = Duration::from_secs(5);

/// The detail of the checkpoints that are made as a run starts.
const START: &str = "start";

/// An agent that does not know its conversation ends sooner.
pub const EARLY: Duration = Duration::from_secs(15);
/// How long what an agent has said may take to be on the screen.
const SCREEN_LIMIT: Duration = Duration::from_secs(2);

/// What to start, and what to know of it.
pub struct Supervised<'a> {
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
    /// Where it starts.
    pub folder: PathBuf,
    /// The conversation's id.
    pub conversation: Option<String>,
    /// Whether it answers one prompt and ends.
    pub is_headless: bool,
    /// The conversation that it is told to go on with. What it says on standard error is listened to, as it may know none of that name.
    pub resumes: Option<&'a str>,
    /// How often a checkpoint is made.
    pub interval: Option<Duration>,
    /// What has to be looked at to tell the agent's environment; none for a program that is no agent.
    pub request: Option<Request>,
    /// What is configured for the workspace.
    pub config: Config,
    /// The goal of the session before. It stays so where the start is called off.
    pub before: Goal,
    /// Whether nothing is said of a good end.
    pub is_quiet: bool,
    /// How many checkpoints retention has removed meanwhile. The agent has the terminal: that is said when it has ended.
    pub removed: AtomicU64,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The exit code for this process.
    pub code: u8,
    /// Whether it failed of its own accord: no signal has ended it, and nobody has ended its run.
    pub has_failed: bool,
    /// How long it ran.
    pub ran: Duration,
    /// The end of what it said where that was listened to: on standard error, or in tmux on the screen.
    pub said: String,
    /// Whether it said that it does not know the conversation. Then no checkpoint was made, and the run is still open.
    pub is_unknown: bool,
}

/// This process, as the launcher of a run.
pub fn this_process() -> Result<Option<Identity>> {
    Ok(Some(Identity::of(std::process::id() as i32)?))
}

/// Where in tmux this process is.
pub fn tmux_here() -> Option<Tmux> {
    run::tmux(&variable)
}

/// What came of starting a run's agent. Where that failed, a run whose agent was never started ends.
pub fn or_ended<T>(store: &Store, current: &Current, started: Result<T>) -> Result<T> {
    started.inspect_err(|failure| {
        let run = store.refresh().and_then(|view| view.run(&current.run)).ok().flatten();
        if run.is_some_and(|run| run.is_open() && run.pid.is_none()) {
            let reason = format!("{NOT_STARTED}: {failure}");
            note(run::end(store, current, &reason, (Status::Error, None), actor()), "the run's end was not recorded");
        }
    })
}

/// Starts the agent, and waits for it to end. Signals that ask this process to end are passed on.
pub fn supervise(store: &Store, wanted: &Supervised<'_>) -> Result<Ended> {
    let signals = Signals::install()?;
    if !is_open(store, wanted) {
        return Err(Failure::Refused(format!("run {} was ended before its agent could be started", wanted.current.run)));
    }
    capture_first(store, wanted, &signals).inspect_err(|failure| {
        let (status, goal) = match wanted.before {
            Goal::Running => (Status::Error, Goal::Running),
            Goal::Paused => (Status::Paused, Goal::Paused),
            Goal::Ended => (Status::Ended, Goal::Ended),
        };
        let reason = format!("{NOT_STARTED}: {failure}");
        note(run::end(store, wanted.current, &reason, (status, Some(goal)), actor()), "the run's end was not recorded");
    })?;
    let terminal = Terminal::here();
    let mut child = start(wanted)?;
    let began = Instant::now();
    let watched = watch(&mut child);
    if watched.is_err() {
        // Nobody would see to it.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (said, agent, fd) = watched?;
    note(run::started(store, wanted.current, &agent, actor()), "the run's process was not recorded");
    let detaches = tmux_here().map(detaches).transpose().unwrap_or_else(|e| {
        say(format_args!("no checkpoint is made when you detach from tmux: {e}"));
        None
    });
    let (asked, ended) = std::thread::scope(|scope| watch_over(scope, store, wanted, (&signals, &fd), detaches.as_ref()))?;
    drop(detaches);
    let status = child.wait().map_err(|e| lost(&e.to_string()))?;
    let ran = ended.duration_since(began);
    let said = said.map(Said::end);
    let has_terminal = terminal.as_ref().is_none_or(Terminal::is_there);
    if let Some(terminal) = terminal.filter(|_| has_terminal) {
        terminal.restore();
    }
    let asked = asked.or((!has_terminal).then_some(Signal::HUP));
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    let has_failed = asked.is_none() && status.code().is_some_and(|code| code != 0) && is_open(store, wanted);
    let mut ended = Ended { code: u8::try_from(code).unwrap_or(1), has_failed, ran, said: String::new(), is_unknown: false };
    if let Some(conversation) = wanted.resumes.filter(|_| has_failed) {
        (ended.said, ended.is_unknown) = match said {
            Some(said) => (said.clone(), wanted.kind.and_then(|kind| trouble(kind, &said)) == Some(Trouble::NoConversation)),
            None => on_screen(wanted.kind, conversation, ran),
        };
    }
    if !ended.is_unknown {
        finish(store, wanted, status, asked);
    }
    Ok(ended)
}

/// Makes a checkpoint before the agent starts: the first thing that it does may be to remove what no checkpoint has. Fails where somebody
/// asks this process to end meanwhile.
fn capture_first(store: &Store, wanted: &Supervised<'_>, signals: &Signals) -> Result<()> {
    let cancel = Cancel::default();
    let bar = Bar::new(true, wanted.is_quiet, cancel.clone());
    std::thread::scope(|scope| {
        let mut captures = Captures::default();
        captures.ask(Trigger::Periodic, START, true);
        captures.go_on(scope, store, wanted, &bar);
        let mut renewal = Some(Instant::now() + run::RENEWAL);
        while let Some(done) = captures.done() {
            let mut fds = [&signals.pipe, &signals.interrupts, done].map(|stream| PollFd::new(stream, PollFlags::IN));
            match poll(&mut fds, until(renewal).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(lost(&e.to_string())),
            }
            if signals.take().is_some() || signals.take_interrupt() {
                cancel.store(true, Ordering::Relaxed);
            }
            renewal = renewed(store, wanted.current, renewal);
            captures.go_on(scope, store, wanted, &bar);
        }
        Ok(())
    })?;
    match cancel.load(Ordering::Relaxed) {
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
fn renewed(store: &Store, current: &Current, renewal: Option<Instant>) -> Option<Instant> {
    match renewal {
        Some(at) if at <= Instant::now() => renew(store, current).then(|| Instant::now() + run::RENEWAL),
        other => other,
    }
}

/// What the pane of tmux shows in which this process is, and whether the agent says there that it does not know the conversation. It shows
/// what was said before as well, so that the conversation must be named.
fn on_screen(kind: Option<Kind>, conversation: &str, ran: Duration) -> (String, bool) {
    let Some(here) = tmux_here().filter(|_| ran < EARLY) else { return Default::default() };
    let server = Server::new(Some(here.socket.into()), TMUX_LIMIT);
    let until = Instant::now() + SCREEN_LIMIT;
    loop {
        // tmux may not yet have shown everything that was said.
        let screen = server.screen(&here.pane).unwrap_or_default();
        let is_unknown = kind.is_some_and(|kind| does_not_know(kind, &screen, conversation));
        if is_unknown || Instant::now() > until {
            return (screen, is_unknown);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for the agent's end, and for that of the checkpoint that is made then. Returns the signal that asked for it, and when the agent ended.
fn watch_over<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    store: &'env Store,
    wanted: &'env Supervised<'env>,
    (signals, agent): (&Signals, &OwnedFd),
    detaches: Option<&Detaches>,
) -> Result<(Option<Signal>, Instant)> {
    let mut captures = Captures::default();
    if tmux_here().is_some() {
        // One that dies early is brought back with the windows that it had.
        captures.ask(Trigger::Periodic, START, true);
    }
    let mut asked = None;
    let mut ended = None;
    let mut next = wanted.interval.map(|interval| Instant::now() + interval);
    let mut renewal = Some(Instant::now() + run::RENEWAL);
    loop {
        if ended.is_some() {
            captures.stop();
        }
        captures.go_on(scope, store, wanted, &());
        if let Some(ended) = ended.filter(|_| captures.done().is_none()) {
            return Ok((asked, ended));
        }
        let left = until(next.into_iter().chain(renewal).min());
        // Of an agent that has ended nothing more is heard; what a capture has to say is that it is done.
        let mut fds: Vec<PollFd> = ended.is_none().then(|| PollFd::new(&signals.pipe, PollFlags::IN)).into_iter().collect();
        fds.extend(captures.done().map(|done| PollFd::new(done, PollFlags::IN)));
        let at = fds.len();
        fds.extend(ended.is_none().then(|| PollFd::new(agent, PollFlags::IN)));
        fds.extend(detaches.filter(|_| ended.is_none()).map(|detaches| PollFd::new(detaches.heard(), PollFlags::IN)));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(lost(&e.to_string())),
        }
        let has_signal = ended.is_none() && !fds[0].revents().is_empty();
        let is_over = ended.is_none() && !fds[at].revents().is_empty();
        drop(fds);
        // Of a machine that shuts down both hear at once; what comes after the agent's end has nothing to do with it.
        if (has_signal || is_over)
            && ended.is_none()
            && let Some(signal) = signals.take()
        {
            // Ctrl-C reaches the agent from the terminal itself, and is its own business.
            asked = Some(signal);
            let _ = pidfd_send_signal(agent.as_fd(), signal);
        }
        ended = ended.or(is_over.then(Instant::now));
        if detaches.is_some_and(|detaches| ended.is_none() && detaches.take()) {
            captures.ask(Trigger::Detach, "tmux", false);
        }
        renewal = renewed(store, wanted.current, renewal);
        if next.is_some_and(|next| next <= Instant::now()) {
            next = wanted.interval.map(|interval| Instant::now() + interval);
            captures.ask(Trigger::Periodic, "interval", true);
        }
    }
}

/// Renews the run's lease; false where there is no more to renew.
fn renew(store: &Store, current: &Current) -> bool {
    match run::renew(store, current, run::WATCHED, actor()) {
        Err(parhelia_session::Error::Store(parhelia_store::Error::Fenced { .. })) => {
            say(format_args!(
                "another run has taken over session {}; checkpoints of this one are kept beside its history",
                current.session
            ));
            false
        }
        other => {
            note(other, "the run's lease was not renewed");
            true
        }
    }
}

fn detaches(here: Tmux) -> parhelia_session::Result<Detaches> {
    Ok(Detaches::of(Server::new(Some(here.socket.into()), TMUX_LIMIT), &here.pane)?)
}

/// Fails where there is no such program: a session that nothing was ever done in would stay behind.
pub fn ensure_startable(argv: &[OsString], folder: &Path) -> Result<()> {
    let Some(program) = argv.first() else { return Ok(()) };
    let is_program = |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    let places: Vec<PathBuf> = match (program.as_bytes().contains(&b'/'), variable("PATH")) {
        (true, _) => vec![folder.join(program)],
        (false, Some(path)) => std::env::split_paths(&path).map(|at| folder.join(at).join(program)).collect(),
        // The system has a path of its own.
        (false, None) => return Ok(()),
    };
    if places.iter().any(is_program) {
        return Ok(());
    }
    let is_there = places.iter().any(|path| path.exists());
    let why = if is_there { rustix::io::Errno::ACCESS } else { rustix::io::Errno::NOENT };
    Err(Failure::File { action: "start", path: program.into(), source: why.into() })
}

fn start(wanted: &Supervised<'_>) -> Result<Child> {
    let (program, arguments) = wanted.argv.split_first().ok_or_else(|| lost("there is nothing to start"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&wanted.folder).envs(wanted.environment.iter().map(|(name, value)| (name, value)));
    for (name, value) in own_folder(wanted.config_folder.as_ref()) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let failed = |source| Failure::File { action: "start", path: program.into(), source };
    // In tmux, an interactive agent keeps its terminal, as what it says can be seen on the screen.
    if wanted.resumes.is_some() && (wanted.is_headless || tmux_here().is_none()) {
        command.stderr(Stdio::piped());
    }
    limits::for_others(|| command.spawn()).map_err(failed)
}

fn lost(reason: &str) -> Failure {
    Failure::File { action: "wait for", path: "the agent".into(), source: std::io::Error::other(reason.to_owned()) }
}

/// Says something where there may be nobody any more to hear it, because the terminal has closed.
pub fn say(text: impl std::fmt::Display) {
    tell!("parhelia: {text}");
}

/// What went wrong behind the agent's back is said, and does it no harm.
fn note<T, E: std::fmt::Display>(done: Result<T, E>, what: &str) {
    if let Err(e) = done {
        say(format_args!("{what}: {e}"));
    }
}

/// What a started agent says, which process it is, and what tells of its end.
fn watch(child: &mut Child) -> Result<(Option<Said>, Identity, OwnedFd)> {
    let said = child.stderr.take().map(Said::listen).transpose()?;
    let agent = Identity::of(child.id() as i32)?;
    let pid = Pid::from_raw(agent.process).ok_or_else(|| lost("the agent has no process"))?;
    let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| lost(&e.to_string()))?;
    Ok((said, agent, fd))
}

/// The last checkpoint, and the run's end.
fn finish(store: &Store, wanted: &Supervised<'_>, status: ExitStatus, asked: Option<Signal>) {
    let how = how(status);
    // Whoever ends this process has not asked the agent to be done: that may be a machine that shuts down, or a terminal that dies.
    let (trigger, session, goal, reason) = match (asked, stopping(store, wanted), status.code()) {
        (Some(_), ..) => (Trigger::Shutdown, Status::Paused, None, format!("asked to end; {how}")),
        (None, Some(why), _) => (Trigger::Shutdown, Status::Paused, None, format!("{why}; {how}")),
        (None, None, Some(0)) if wanted.is_headless => (Trigger::Complete, Status::Paused, Some(Goal::Paused), how),
        (None, None, Some(0)) => (Trigger::Shutdown, Status::Paused, Some(Goal::Paused), how),
        _ => (Trigger::Error, Status::Error, None, how),
    };
    let has_failed = trigger == Trigger::Error;
    // What the agent's hooks have handed over comes before the last checkpoint, not behind it.
    let until = Instant::now() + TURN_LIMIT;
    for work in processes(wanted).filter(process::Found::is_hook_work) {
        work.ends_within(until.saturating_duration_since(Instant::now()));
    }
    captured(store, wanted, trigger, &reason, false, &());
    if is_open(store, wanted) {
        note(run::end(store, wanted.current, &reason, (session, goal), actor()), "the run's end was not recorded");
    }
    let removed = wanted.removed.load(Ordering::Relaxed);
    if removed > 0 && !wanted.is_quiet {
        let number = human::count(removed, "older checkpoint");
        say(format_args!("retention removed {number} meanwhile (`parhelia log --kind checkpoint.deleted`)"));
    }
    let session = store.refresh().and_then(|view| view.session(&wanted.current.session)).ok().flatten();
    let has_ended = session.as_ref().is_some_and(|session| session.status == Status::Ended);
    if has_ended {
        say(format_args!(
            "the agent {reason}. Session {} had ended before, so that no last checkpoint was made",
            wanted.current.session
        ));
    } else if !wanted.is_quiet || has_failed {
        say(format_args!("the agent {reason}. To go on: parhelia session resume {}", wanted.current.session));
    }
    if let Some(conversation) = session
        .filter(|_| !has_ended)
        .and_then(|session| run::conversation_of(&session, &wanted.current.run).filter(|_| wanted.request.is_none()))
    {
        say(format_args!(
            "an agent ran in it, in conversation {conversation}; resuming the session runs the program again, and not that conversation"
        ));
    }
    for left in processes(wanted).filter(|found| !found.is_hook_work()) {
        say(format_args!("left behind by the agent: {}", left.text()));
    }
}

/// The reason for which somebody ends the agent.
fn stopping(store: &Store, wanted: &Supervised<'_>) -> Option<String> {
    let run = store.refresh().ok()?.run(&wanted.current.run).ok()??;
    run.extra.get(run::STOPPING)?.as_str().map(str::to_owned)
}

/// What still lives and carries the run's marker.
fn processes(wanted: &Supervised<'_>) -> impl Iterator<Item = process::Found> {
    let current = wanted.current;
    let found = process::found(&current.run, &process::Roots::default(), &current.workspace).unwrap_or_default();
    found.into_iter().filter(|found| matches!(found.owner, process::Owner::Run | process::Owner::Marked))
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{}{code}", run::BY_ITSELF),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}
