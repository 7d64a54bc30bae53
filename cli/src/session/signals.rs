//! Signals to the process that stands beside an agent.

use std::os::unix::net::UnixStream;

use parhelia_life::supervise::Stops;
use signal_hook::{consts, low_level::pipe};

use crate::exit::{Failure, Result};

/// Takes over the signals: those that ask this process to end, and Ctrl-C, are bytes in streams from here on.
pub fn take_over() -> Result<Stops> {
    // One stream per signal would tell them apart; those of one stream ask for the same.
    let piped = |numbers: &[i32]| -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        for number in numbers {
            pipe::register(*number, theirs.try_clone()?)?;
        }
        Ok(ours)
    };
    let make = || Ok(Stops { ends: piped(&[consts::SIGTERM, consts::SIGHUP])?, interrupts: piped(&[consts::SIGINT])? });
    make().map_err(|source| Failure::File { action: "handle signals in", path: "this process".into(), source })
}
