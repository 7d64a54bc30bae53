//! Requests to end an agent: signals, and the pipe by which they reach the supervisor.

use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use parhelia_ledger::By;
use parhelia_store::record::{Cause, Trigger};
use rustix::process::{Signal, pidfd_send_signal};

use super::captures::{CaptureRequest, Captures};

/// The checkpoint that comes before an agent's end is not waited for longer: whoever asks for the end, as a machine that shuts down, has no
/// more patience.
const CAPTURE_LIMIT: Duration = Duration::from_secs(5);

/// Requests of the face that the supervision end: a byte in the first stream asks the agent to end; one in the second is a Ctrl-C, which a
/// started agent hears from the terminal itself, and which before that calls the start off.
pub struct Stops {
    /// A byte asks the agent to end, by SIGTERM.
    pub ends: UnixStream,
    /// Ctrl-C.
    pub interrupts: UnixStream,
}

impl Stops {
    /// The signal by which the agent is asked to end, once that was requested.
    pub(super) fn take(&self) -> Option<Signal> {
        has_read(&self.ends).then_some(Signal::TERM)
    }

    /// True if there was a Ctrl-C.
    pub(super) fn take_interrupt(&self) -> bool {
        has_read(&self.interrupts)
    }
}

/// The end of an agent that was asked for. A checkpoint comes first: how long the agent takes to end, and whether there is time for a
/// checkpoint then, nobody knows.
pub(super) struct Ending {
    /// The signal by which the agent is asked.
    pub signal: Signal,
    /// The time until which the checkpoint is waited for; none once the agent has been asked.
    pub until: Option<Instant>,
    /// The time at which the agent was asked.
    asked: Option<Instant>,
}

/// An agent that lives for longer after it was asked to end goes on with its work, and ends for another reason.
const WISH_LIMIT: Duration = Duration::from_secs(120);

impl Ending {
    /// One that begins with the checkpoint.
    pub fn begin(signal: Signal, captures: &mut Captures<'_>) -> Self {
        captures.ask(CaptureRequest {
            trigger: Trigger::Shutdown,
            cause: Cause::Shutdown,
            detail: By::Shutdown.reason(),
            skip_if_unchanged: true,
        });
        Ending { signal, until: Some(Instant::now() + CAPTURE_LIMIT), asked: None }
    }

    /// True where the agent goes on though it was asked to end.
    pub fn is_void(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now.duration_since(asked) > WISH_LIMIT)
    }

    /// Waits no longer.
    pub fn hurry(&mut self) {
        self.until = self.until.map(|_| Instant::now());
    }

    /// Asks the agent, once the checkpoint is made or has taken too long.
    pub fn go_on(&mut self, agent: &OwnedFd, captures: &Captures<'_>) {
        if self.until.is_some_and(|until| captures.is_idle() || until <= Instant::now()) {
            (self.until, self.asked) = (None, Some(Instant::now()));
            let _ = pidfd_send_signal(agent.as_fd(), self.signal);
        }
    }
}

fn has_read(mut pipe: &UnixStream) -> bool {
    std::io::Read::read(&mut pipe, &mut [0; 64]).is_ok_and(|read| read > 0)
}
