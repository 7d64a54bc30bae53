//! Requests to end an agent: signals, and the pipe by which they reach the supervisor.

use std::os::unix::net::UnixStream;

use rustix::process::Signal;

/// Requests of the face that the supervision end: a byte in the first stream asks the agent to end; one in the second is a Ctrl-C, which a
/// started agent hears from the terminal itself, and which before that calls the start off.
pub struct Stops {
    /// Requests to end.
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

fn has_read(mut pipe: &UnixStream) -> bool {
    std::io::Read::read(&mut pipe, &mut [0; 64]).is_ok_and(|read| read > 0)
}
