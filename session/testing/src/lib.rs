//! Callers and observers for the tests of workflows.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{Child, Command},
    sync::{Mutex, PoisonError},
};

use parhelia_store::{event::Actor, progress::Progress};

use parhelia_host::{Host, Observer, notice::Notice};

/// A caller with these variables.
pub struct Caller<F>(pub F);

/// A caller without any variable.
pub const NOBODY: Caller<fn(&str) -> Option<OsString>> = Caller(|_| None);
/// A caller with the variables of this process.
pub const PROCESS: Caller<fn(&str) -> Option<OsString>> = Caller(|name| std::env::var_os(name));

impl<F: Fn(&str) -> Option<OsString> + Sync> Host for Caller<F> {
    fn variable(&self, name: &str) -> Option<OsString> {
        (self.0)(name)
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn actor(&self) -> Actor {
        Actor::program("test")
    }

    fn program(&self) -> io::Result<PathBuf> {
        std::env::current_exe()
    }

    fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
        command.spawn()
    }
}

/// Everything that was warned of.
#[derive(Default)]
pub struct WarningLog(Mutex<String>);

impl WarningLog {
    /// All warnings, one behind the other.
    pub fn text(self) -> String {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for WarningLog {}

impl Observer for WarningLog {
    fn warn(&self, notice: &Notice) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(&notice.to_string());
    }
}
