//! Heartbeats of an agent in a container or on another machine, of which a service hears that it lives.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use parhelia_agent::open::said_by;
use parhelia_store::clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::emitter::{EmitError, Emitter};

/// So often it is looked whether the agent has ended.
const LOOK: Duration = Duration::from_millis(100);
/// An agent that is asked to end has so long before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// So often the end of a run is told to a service that cannot be reached.
const ENDS: u32 = 3;

/// A heartbeat, or the end of a run, that has not arrived.
#[derive(Debug)]
pub enum HeartbeatFailure<'a> {
    /// The run does not count any more; its agent is stopped.
    Fenced(&'a EmitError),
    /// The service cannot be reached; it is tried again. Said once.
    Unreachable(&'a EmitError),
    /// The end of the run is not recorded.
    EndLost(&'a EmitError),
}

/// Says that an agent lives until it has ended, and then that its run is over. An agent with a `config` folder is asked there for its state. `asked` has
/// the agent ended. Returns its exit code; none where another run has taken over, for which it was stopped.
pub fn supervise(
    emitter: &Emitter,
    mut child: Child,
    config: Option<PathBuf>,
    interval: Duration,
    asked: &AtomicBool,
    say: &(dyn Fn(HeartbeatFailure<'_>) + Sync),
) -> std::io::Result<Option<i32>> {
    let watched = ProcessWatch { process: child.id().cast_signed(), config, seen: None };
    let (over, is_over) = mpsc::channel::<()>();
    let is_fenced = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        scope.spawn(|| beat(emitter, watched, interval, is_over, &is_fenced, say));
        let ended = wait(&mut child, asked, &is_fenced);
        drop(over);
        ended
    })?;
    if is_fenced.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or_default());
    end(emitter, code, say);
    Ok(Some(code))
}

/// Says that the run lives until it is over. What cannot be told now is told with the next heartbeat; where another run has taken over, that is
/// noted, and this is the end.
fn beat(
    emitter: &Emitter,
    mut watched: ProcessWatch,
    interval: Duration,
    is_over: mpsc::Receiver<()>,
    is_fenced: &AtomicBool,
    say: &dyn Fn(HeartbeatFailure<'_>),
) {
    let mut was_unreachable = false;
    loop {
        match is_over.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let (state, metrics) = watched.look();
        match emitter.beat(Some(&state), watched.last_activity().as_deref(), &metrics) {
            Ok(()) => was_unreachable = false,
            Err(why @ EmitError::Refused(_)) => {
                say(HeartbeatFailure::Fenced(&why));
                is_fenced.store(true, Ordering::Relaxed);
                return;
            }
            Err(error) if !was_unreachable => {
                say(HeartbeatFailure::Unreachable(&error));
                was_unreachable = true;
            }
            Err(_) => {}
        }
    }
}

/// Waits for the end of an agent. It is asked to end where this process is, or where it must not go on, and killed where it does not.
fn wait(child: &mut Child, asked: &AtomicBool, is_fenced: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut asked_at: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let must_end = asked.load(Ordering::Relaxed) || is_fenced.load(Ordering::Relaxed);
        match asked_at {
            None if must_end => {
                asked_at = Some(Instant::now());
                if let Some(process) = Pid::from_raw(child.id().cast_signed()) {
                    let _ = kill_process(process, Signal::TERM);
                }
            }
            Some(at) if at.elapsed() > PATIENCE => child.kill()?,
            _ => {}
        }
        thread::sleep(LOOK);
    }
}

/// Says that a run is over.
fn end(emitter: &Emitter, code: i32, say: &dyn Fn(HeartbeatFailure<'_>)) {
    for number in 1..=ENDS {
        match emitter.end(code) {
            Err(EmitError::Unreachable(_)) if number < ENDS => thread::sleep(Duration::from_secs(1)),
            Err(error) => say(HeartbeatFailure::EndLost(&error)),
            Ok(()) => return,
        }
    }
}

/// The agent's process, as it is seen between two heartbeats.
struct ProcessWatch {
    process: i32,
    config: Option<PathBuf>,
    /// The last state and ticks of the processor, and since when they are so.
    seen: Option<(String, u64, jiff::Timestamp)>,
}

impl ProcessWatch {
    /// Its state and its numbers: an agent's own word, or else that it runs; time of the processor, and memory.
    fn look(&mut self) -> (String, Value) {
        let said = self.config.as_ref().and_then(|config| said_by(config, self.process)).and_then(|said| said.status);
        let state = said.unwrap_or_else(|| "running".to_owned());
        let (ticks, resident) = usage(self.process);
        let is_same = self.seen.as_ref().is_some_and(|(known, before, _)| *known == state && *before == ticks);
        if !is_same {
            self.seen = Some((state.clone(), ticks, clock::timestamp()));
        }
        let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        (state, json!({"cpu_seconds": seconds, "memory_bytes": resident}))
    }

    /// The time at which its state was another one, or it used the processor, last.
    fn last_activity(&self) -> Option<String> {
        self.seen.as_ref().map(|(_, _, at)| at.to_string())
    }
}

/// Ticks of the processor that a process and its children have used, and bytes of its memory (proc_pid_stat(5)).
fn usage(process: i32) -> (u64, u64) {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).unwrap_or_default();
    // Behind the name, which stands in brackets and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    let pages = number(21);
    ((11..=14).map(number).sum(), pages.saturating_mul(rustix::param::page_size() as u64))
}
