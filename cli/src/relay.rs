//! The process that passes on what a headless agent prints, with a copy for its supervisor. It has three streams, and nothing else: its input is what the
//! agent writes to, its output is whoever reads the agent, and its standard error is the supervisor.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use parhelia_life::supervise;
use signal_hook::{consts, flag};

use crate::{exit::Code, own_lines};

/// True if this process is one.
pub fn is_called() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == own_lines::RELAY) && std::env::args_os().len() == 2
}

/// Passes on what comes. What asks the agent to end asks this process as well, which ends with the agent's output.
pub fn run() -> ExitCode {
    for signal in [consts::SIGHUP, consts::SIGINT, consts::SIGQUIT, consts::SIGTERM] {
        let _ = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let relayed = io::stderr()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|supervisor| supervise::relay(io::stdin().as_fd(), io::stdout().as_fd(), &UnixStream::from(supervisor)));
    match relayed {
        Ok(()) => Code::Done.into(),
        Err(_) => ExitCode::FAILURE,
    }
}
