//! A caller of the library's workflows.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{Child, Command},
};

use parhelia_host::Host;
use parhelia_store::event::Actor;

/// The test's own process as the caller.
pub struct Caller;

impl Host for Caller {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }

    fn actor(&self) -> Actor {
        Actor::default()
    }

    fn program(&self) -> io::Result<PathBuf> {
        std::env::current_exe()
    }

    fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
        command.spawn()
    }
}
