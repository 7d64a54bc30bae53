//! Ctrl-C and SIGTERM: the first asks the work to stop where that is safe, the second ends the process at once.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::{
    SigId,
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, low_level,
};

use crate::exit::{Code, Failure, Result};

/// Set once the user asked to stop.
pub type Cancel = Arc<AtomicBool>;

/// Signals that are taken for a wish to stop, for as long as this is there. After that they do nothing until somebody else takes them over.
pub struct SignalGuard(Vec<SigId>);

impl Drop for SignalGuard {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Takes over the signals: each sets the flag, or ends the process where that is set already.
pub fn install(cancel: &Cancel) -> Result<SignalGuard> {
    let install = || -> io::Result<SignalGuard> {
        let mut handled = SignalGuard(Vec::new());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In the order in which they are called.
            handled.0.push(flag::register_conditional_shutdown(signal, Code::Interrupted as i32, cancel.clone())?);
            handled.0.push(flag::register(signal, cancel.clone())?);
        }
        Ok(handled)
    };
    install().map_err(|source| Failure::File { action: "handle signals in", path: "this process".into(), source })
}
