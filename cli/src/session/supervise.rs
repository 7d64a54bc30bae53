//! Waiting for an agent: passing on signals, making checkpoints now and then and at the end, recording how it went.

use std::{
    ffi::OsString,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::PathBuf,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parhelia_session::{
    config::Config,
    environment::Request,
    process::{self, Identity},
    retention, rollback,
    run::{self, Conversation, Current, Wanted},
    tmux::{Detaches, Server},
};
use parhelia_store::{
    Store,
    fold::{Place, Status, Tmux},
    record::Trigger,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{
    agent::{actor, config_folder, variable},
    prune::removed_text,
};
use crate::{
    exit::{Failure, Result},
    hook::{is_work, log},
    human, limits,
};

/// Another checkpoint of the session, or its rollback, is waited for, but not longer.
const TURN_LIMIT: Duration = Duration::from_secs(10);
/// No call of tmux takes longer.
const TMUX_LIMIT: Duration = Duration::from_secs(5);

const NO_CHECKPOINT: &str = "no checkpoint was made";

/// What to start, and what to know of it.
pub struct Supervised<'a> {
    /// The run.
    pub current: &'a Current,
    /// The command line.
    pub argv: &'a [OsString],
    /// Variables that are added.
    pub environment: Vec<(String, OsString)>,
    /// Where it starts.
    pub folder: PathBuf,
    /// The conversation's id.
    pub conversation: Option<String>,
    /// Whether it answers one prompt and ends.
    pub is_headless: bool,
    /// How often a checkpoint is made.
    pub interval: Option<Duration>,
    /// What has to be looked at to tell the agent's environment; none for a program that is no agent.
    pub request: Option<Request>,
    /// What is configured for the workspace.
    pub config: Config,
    /// Whether nothing is said of a good end.
    pub is_quiet: bool,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The exit code for this process.
    pub code: u8,
    /// Whether the agent's process ended badly by itself.
    pub has_failed: bool,
    /// How long it ran.
    pub ran: Duration,
    /// Of a headless agent, what it said last on standard error.
    pub said: String,
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
            let reason = format!("could not be started: {failure}");
            note(run::end(store, current, &reason, Status::Error, actor()), "the run's end was not recorded");
        }
    })
}

/// Starts the agent, and waits for it to end. Signals that ask this process to end are passed on.
pub fn supervise(store: &Store, wanted: &Supervised<'_>) -> Result<Ended> {
    let signals = Signals::install()?;
    if !is_open(store, wanted) {
        return Err(Failure::Usage(format!("run {} was ended before its agent could be started", wanted.current.run)));
    }
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
    let (mut asked, mut removed) = (None, 0);
    let mut next = wanted.interval.map(|interval| Instant::now() + interval);
    let mut renewal = Some(Instant::now() + run::RENEWAL);
    loop {
        let left = next.into_iter().chain(renewal).min().map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        let mut fds = vec![PollFd::new(&fd, PollFlags::IN), PollFd::new(&signals.pipe, PollFlags::IN)];
        fds.extend(detaches.as_ref().map(|detaches| PollFd::new(detaches.heard(), PollFlags::IN)));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(lost(&e.to_string())),
        }
        let (has_ended, has_signal) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        drop(fds);
        if has_signal && let Some(signal) = signals.take() {
            // Ctrl-C reaches the agent from the terminal itself, and is its own business.
            asked = Some(signal);
            let _ = pidfd_send_signal(fd.as_fd(), signal);
        }
        if has_ended {
            break;
        }
        if detaches.as_ref().is_some_and(Detaches::take) {
            note(checkpoint(store, wanted, Trigger::Detach, "tmux", false, &mut removed), NO_CHECKPOINT);
        }
        if renewal.is_some_and(|renewal| renewal <= Instant::now()) {
            renewal = renew(store, wanted.current).then(|| Instant::now() + run::RENEWAL);
        }
        if next.is_some_and(|next| next <= Instant::now()) {
            next = wanted.interval.map(|interval| Instant::now() + interval);
            note(checkpoint(store, wanted, Trigger::Periodic, "interval", true, &mut removed), NO_CHECKPOINT);
        }
    }
    drop(detaches);
    let status = child.wait().map_err(|e| lost(&e.to_string()))?;
    let ran = began.elapsed();
    let said = said.map(Said::end).unwrap_or_default();
    Ok(Ended { said, ..finish(store, wanted, status, (asked, ran), removed) })
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
    Detaches::of(Server::new(Some(here.socket.into()), TMUX_LIMIT), &here.pane)
}

fn start(wanted: &Supervised<'_>) -> Result<Child> {
    let (program, arguments) = wanted.argv.split_first().ok_or_else(|| lost("there is nothing to start"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&wanted.folder).envs(wanted.environment.iter().map(|(name, value)| (name, value)));
    let failed = |source| Failure::File { action: "start", path: program.into(), source };
    if wanted.is_headless {
        command.stderr(Stdio::piped());
    }
    limits::for_others(|| command.spawn()).map_err(failed)
}

/// What the agent says on standard error: passed on, and its end kept.
struct Said {
    listener: JoinHandle<String>,
    /// Closed when the agent has ended.
    agent_lives: UnixStream,
}

impl Said {
    fn listen(pipe: ChildStderr) -> Result<Self> {
        let (agent_lives, until) = UnixStream::pair().map_err(|e| lost(&e.to_string()))?;
        let listener = std::thread::Builder::new().spawn(move || pass_on(pipe, &until));
        let listener = listener.map_err(|e| lost(&format!("there is no thread that reads what it says: {e}")))?;
        Ok(Said { listener, agent_lives })
    }

    /// Everything that was said before now. Nobody waits for what the agent has left behind, which may hold its standard error open.
    fn end(self) -> String {
        drop(self.agent_lives);
        self.listener.join().unwrap_or_default()
    }
}

/// Passes on what comes until the pipe ends, or `until` is closed and the pipe is empty; returns the end of it.
fn pass_on(mut pipe: ChildStderr, until: &UnixStream) -> String {
    const KEPT_BYTES: usize = 8 << 10;
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let mut fds = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(until, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) if !fds[0].revents().is_empty() => {}
            _ => break,
        }
        let read = pipe.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            break;
        }
        let _ = std::io::stderr().write_all(&buffer[..read]);
        kept.extend_from_slice(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
    }
    String::from_utf8_lossy(&kept).into_owned()
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

fn checkpoint(
    store: &Store,
    wanted: &Supervised<'_>,
    trigger: Trigger,
    detail: &str,
    skip: bool,
    removed: &mut u64,
) -> parhelia_session::Result<()> {
    let tell = |text: &str| say(text);
    let turn = rollback::settle(store, &wanted.current.session, TURN_LIMIT, &actor(), &tell, &())?;
    if turn.is_none() {
        return Err(parhelia_session::Error::Invalid("another process still captures the session, or rolls it back".into()));
    }
    if !is_open(store, wanted) {
        // Somebody has ended the run, and has captured what was to be captured.
        return Ok(());
    }
    let session = store.view().session(&wanted.current.session)?;
    let current = session.as_ref().and_then(|session| run::conversation_of(session, &wanted.current.run));
    let id = current.or_else(|| wanted.conversation.clone());
    let conversation = match &id {
        Some(id) => Conversation::of(session.as_ref(), Some(id), config_folder()),
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
        &(),
    )?;
    let id = made.outcome.checkpoint.id();
    if made.is_damaged() {
        say(format_args!("checkpoint {id} is damaged; `parhelia checkpoint verify {id}` says where"));
    }
    for failure in made.failed() {
        say(format_args!("checkpoint {id}: {failure}"));
    }
    if made.is_sound() {
        let pruned = retention::after(store, &made.outcome, &wanted.config.retention, &actor(), &());
        // The agent has the terminal: it is told when that is over.
        if let Some(report) = &pruned
            && let Some(text) = removed_text(report)
        {
            *removed += report.removed.len() as u64;
            log::line(&format!("{}: {text}", wanted.current.session));
        }
    }
    Ok(())
}

/// Whether nobody else has ended the run, as a rollback does that stops the agent.
fn is_open(store: &Store, wanted: &Supervised<'_>) -> bool {
    let run = store.refresh().and_then(|view| view.run(&wanted.current.run));
    run.is_ok_and(|run| run.is_some_and(|run| run.is_open()))
}

/// The last checkpoint, and the run's end.
fn finish(
    store: &Store,
    wanted: &Supervised<'_>,
    status: ExitStatus,
    (asked, ran): (Option<Signal>, Duration),
    mut removed: u64,
) -> Ended {
    let how = how(status);
    let (trigger, session, reason) = match (asked, status.code()) {
        (Some(_), _) => (Trigger::Shutdown, Status::Paused, format!("asked to end; {how}")),
        (None, Some(0)) if wanted.is_headless => (Trigger::Complete, Status::Paused, how),
        (None, Some(0)) => (Trigger::Shutdown, Status::Paused, how),
        _ => (Trigger::Error, Status::Error, how),
    };
    let has_failed = trigger == Trigger::Error;
    // What the agent's hooks have handed over comes before the last checkpoint, not behind it.
    let until = Instant::now() + TURN_LIMIT;
    for work in processes(wanted).filter(is_work) {
        work.ends_within(until.saturating_duration_since(Instant::now()));
    }
    note(checkpoint(store, wanted, trigger, &reason, false, &mut removed), "no last checkpoint was made");
    if is_open(store, wanted) {
        note(run::end(store, wanted.current, &reason, session, actor()), "the run's end was not recorded");
    }
    if removed > 0 && !wanted.is_quiet {
        let number = human::count(removed, "older checkpoint");
        say(format_args!("retention removed {number} meanwhile (`parhelia log --kind checkpoint.deleted`)"));
    }
    if !wanted.is_quiet || has_failed {
        say(format_args!("the agent {reason}. To go on: parhelia session resume {}", wanted.current.session));
    }
    for left in processes(wanted).filter(|found| !is_work(found)) {
        say(format_args!("left behind by the agent: {}", left.text()));
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ended { code: u8::try_from(code).unwrap_or(1), has_failed, ran, said: String::new() }
}

/// The processes of the run that still live.
fn processes(wanted: &Supervised<'_>) -> impl Iterator<Item = process::Found> {
    let found = process::found(&wanted.current.run, None, &wanted.current.workspace).unwrap_or_default();
    found.into_iter().filter(|found| found.owner == process::Owner::Run)
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Signals that ask this process to end, as bytes in a pipe.
struct Signals {
    pipe: UnixStream,
    _kept: UnixStream,
}

impl Signals {
    fn install() -> Result<Self> {
        use signal_hook::{consts, low_level::pipe};
        let make = || -> std::io::Result<Self> {
            let (pipe, kept) = UnixStream::pair()?;
            pipe.set_nonblocking(true)?;
            // One pipe per signal would tell them apart; all three ask for the same.
            for signal in [consts::SIGTERM, consts::SIGHUP] {
                pipe::register(signal, kept.try_clone()?)?;
            }
            signal_hook::flag::register(consts::SIGINT, std::sync::Arc::<std::sync::atomic::AtomicBool>::default())?;
            Ok(Signals { pipe, _kept: kept })
        };
        make().map_err(|source| Failure::File { action: "handle signals in", path: "this process".into(), source })
    }

    fn take(&self) -> Option<Signal> {
        let mut bytes = [0; 64];
        let read = (&self.pipe).read(&mut bytes).unwrap_or(0);
        (read > 0).then_some(Signal::TERM)
    }
}
