//! Signals to the process that stands beside an agent.

use std::{io::Read, os::unix::net::UnixStream};

use rustix::process::Signal;
use signal_hook::{consts, low_level::pipe};

use crate::exit::{Failure, Result};

/// Signals that ask this process to end, as bytes in a pipe; Ctrl-C, as bytes in another.
pub(super) struct Signals {
    pub(super) pipe: UnixStream,
    pub(super) interrupts: UnixStream,
}

impl Signals {
    /// Takes over the signals.
    pub(super) fn install() -> Result<Self> {
        // One pipe per signal would tell them apart; those of one pipe ask for the same.
        let piped = |numbers: &[i32]| -> std::io::Result<UnixStream> {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            for number in numbers {
                pipe::register(*number, theirs.try_clone()?)?;
            }
            Ok(ours)
        };
        let make = || Ok(Signals { pipe: piped(&[consts::SIGTERM, consts::SIGHUP])?, interrupts: piped(&[consts::SIGINT])? });
        make().map_err(|source| Failure::File { action: "handle signals in", path: "this process".into(), source })
    }

    /// The signal by which the agent is asked to end, once this process is.
    pub(super) fn take(&self) -> Option<Signal> {
        has_read(&self.pipe).then_some(Signal::TERM)
    }

    /// True if there was a Ctrl-C. One that comes when the agent lives is the agent's, which hears of it from the terminal.
    pub(super) fn take_interrupt(&self) -> bool {
        has_read(&self.interrupts)
    }
}

fn has_read(mut pipe: &UnixStream) -> bool {
    pipe.read(&mut [0; 64]).is_ok_and(|read| read > 0)
}
