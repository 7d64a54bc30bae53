//! The pager in which long output is shown on a terminal.

use std::{
    ffi::OsString,
    io::{self, ErrorKind, Write},
    process::{Child, Command, Stdio},
};

use crate::limits;

/// The pager that is used where none is named.
const DEFAULT: &str = "less";
/// Options of less: it ends where one screen is enough, shows colours, and leaves what it showed on the screen.
const LESS: &str = "FRX";

/// A pager that reads from this process.
#[derive(Debug)]
pub struct Pager {
    process: Child,
}

impl Pager {
    /// The user's pager; none where it is switched off or does not start.
    pub fn start() -> Option<Self> {
        let named = ["PARHELIA_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
        let command = named.unwrap_or_else(|| OsString::from(DEFAULT));
        if command.is_empty() || command == "cat" || std::env::var_os("TERM").is_none_or(|term| term == "dumb") {
            return None;
        }
        let mut shell = Command::new("/bin/sh");
        // The shell says nothing where there is no such program: then everything is printed as it is.
        shell
            .arg("-c")
            .arg("command -v ${1%% *} >/dev/null 2>&1 && eval \"exec $1\" || exec cat")
            .arg("sh")
            .arg(command)
            .stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            shell.env("LESS", LESS);
        }
        Some(Pager { process: limits::for_others(|| shell.spawn()).ok()? })
    }

    /// Waits until the user has read it.
    pub fn wait(&mut self) {
        drop(self.process.stdin.take());
        while self.process.wait().is_err_and(|e| e.kind() == ErrorKind::Interrupted) {}
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.process.stdin.as_mut().map_or(Err(ErrorKind::BrokenPipe.into()), |input| input.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.process.stdin.as_mut().map_or(Ok(()), Write::flush)
    }
}
