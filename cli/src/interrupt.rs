//! Ctrl-C and SIGTERM: the first asks the work to stop where that is safe, the second ends the process at once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::exit::{Code, Failure, Result};

/// Set once the user asked to stop.
pub type Cancel = Arc<AtomicBool>;

/// Takes over the signals.
pub fn install() -> Result<Cancel> {
    let cancel = Cancel::default();
    let flag = cancel.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(Code::Interrupted as i32);
        }
    })
    .map_err(|e| Failure::File {
        action: "start what handles signals in",
        path: "this process".into(),
        source: match e {
            ctrlc::Error::System(source) => source,
            other => std::io::Error::other(other),
        },
    })?;
    Ok(cancel)
}
