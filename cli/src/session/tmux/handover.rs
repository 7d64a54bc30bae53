//! Handing over to a process in a pane: what it is to run, when, and with whose environment.
//!
//! What runs in a pane has the environment of the tmux server. The caller's is read from the kernel, while the caller waits: it stands on
//! no command line, in no file and in no memory of the server's. The arguments go through a private file, because tmux takes few.

#![expect(clippy::disallowed_methods, reason = "writes into a temporary folder")]

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use parhelia_agent::{
    process::{Identity, RUN_MARKER, SESSION_MARKER},
    tmux::Server,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{CALL_LIMIT, tmux_here};
use crate::{
    authority::OVERRULED,
    context::Context,
    exit::{Code, Failure, Result},
    limits,
};

/// The file that the other process waits for; it contains `open` once that process may go on.
const GATE: &str = "gate";
const OPEN: &[u8] = b"open";
/// The file with the caller and the arguments, each with a zero byte behind it.
const WORDS: &str = "words";
/// The file with a prompt, which the other process removes: a command line is there for every user of the machine to read.
const PROMPT: &str = "prompt";
/// The time limit for showing the texts of panes.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// Variables that are the pane's own.
const OF_THE_PANE: &[&str] = &[
    "TMUX",
    "TMUX_PANE",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERMCAP",
    "COLUMNS",
    "LINES",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
];
/// Variables that a run gives to what belongs to it: a tmux session that is made from within one does not.
const OF_A_RUN: &[&str] = &[RUN_MARKER, SESSION_MARKER, "PARHELIA_RESUMED_FROM", OVERRULED];

/// The process that hands over.
#[derive(Serialize, Deserialize)]
struct Caller {
    process: Identity,
    /// The user's, not the process's own.
    umask: u32,
}

/// A handover, as seen by the process that hands over.
pub struct Handover {
    folder: TempDir,
    /// Locked as long as the other process must wait. If this process dies, the lock is gone and the gate is not open.
    gate: File,
}

impl Handover {
    /// To hand over a verb, the prompt that it is given in a file of its own, and the other arguments.
    pub fn new(verb: Vec<OsString>, prompt: Option<&str>, arguments: &[OsString]) -> Result<Self> {
        let failed = |source| Failure::File { action: "make a folder in", path: std::env::temp_dir(), source };
        let folder = tempfile::Builder::new().prefix("parhelia-").tempdir().map_err(failed)?;
        let failed = |source| Failure::File { action: "write into", path: folder.path().to_owned(), source };
        let caller = Caller { process: Identity::of(std::process::id() as i32)?, umask: limits::users_umask() };
        let mut words = serde_json::to_vec(&caller).unwrap_or_default();
        words.push(0);
        let mut of_prompt = Vec::new();
        if let Some(prompt) = prompt {
            let path = folder.path().join(PROMPT);
            private(&path).and_then(|mut file| file.write_all(prompt.as_bytes())).map_err(failed)?;
            of_prompt = vec!["--prompt-file".into(), path.into_os_string()];
        }
        for word in verb.iter().chain(&of_prompt).chain(arguments) {
            words.extend_from_slice(word.as_bytes());
            words.push(0);
        }
        private(&folder.path().join(WORDS)).and_then(|mut file| file.write_all(&words)).map_err(failed)?;
        let gate = private(&folder.path().join(GATE)).and_then(|file| file.lock().map(|()| file)).map_err(failed)?;
        Ok(Handover { folder, gate })
    }

    /// The folder in which it is, for its owner alone.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command line of the process that takes over.
    pub fn command(&self) -> Result<Vec<OsString>> {
        Ok(vec![this_program()?.into_os_string(), "session".into(), "in-pane".into(), self.folder().as_os_str().to_owned()])
    }

    /// Lets it go on.
    pub fn open(&self) -> Result<()> {
        let failed = |source| Failure::File { action: "open the gate in", path: self.folder().to_owned(), source };
        (&self.gate).write_all(OPEN).and_then(|()| self.gate.unlock()).map_err(failed)
    }

    /// Removes everything, once every pane has shown its text.
    pub fn finish(self) {
        let until = Instant::now() + TEXT_LIMIT;
        let is_shown = || {
            let mut entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
            entries.all(|entry| [GATE, WORDS].iter().any(|name| entry.file_name() == *name))
        };
        while !is_shown() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|source| Failure::File { action: "find", path: "the program itself".into(), source })
}

/// Flags of `session in-pane`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder in which something is handed over
    folder: PathBuf,
}

/// Becomes what was handed over, with the environment of who did it.
pub fn take(_context: &mut Context, args: &Args) -> Result<Code> {
    let failed = |source| Failure::File { action: "take over what is in", path: args.folder.clone(), source };
    let gate = File::open(args.folder.join(GATE)).map_err(failed)?;
    gate.lock_shared().map_err(failed)?;
    let mut said = Vec::new();
    (&gate).read_to_end(&mut said).map_err(failed)?;
    if said != OPEN {
        return Err(Failure::Refused("whoever made this pane has given up".into()));
    }
    let bytes = fs::read(args.folder.join(WORDS)).map_err(failed)?;
    let mut words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
    let caller: Caller = serde_json::from_slice(words.next().unwrap_or_default()).map_err(|e| failed(io::Error::other(e)))?;
    // The caller waits meanwhile.
    let environment = environment(caller.process.variables().map_err(failed)?, std::env::vars_os());
    scroll_up();
    let program = this_program()?;
    limits::hand_over(caller.umask);
    let source = Command::new(&program).args(words.map(OsStr::from_bytes)).env_clear().envs(environment).exec();
    Err(Failure::File { action: "start", path: program, source })
}

/// The caller's environment, with the pane's own variables as they are in the pane.
fn environment(
    caller: Vec<(OsString, OsString)>,
    pane: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let is_own = |name: &OsStr| OF_THE_PANE.iter().any(|own| name == *own);
    let kept = caller.into_iter().filter(|(name, _)| !is_own(name) && !OF_A_RUN.iter().any(|marker| name == *marker));
    kept.chain(pane.filter(|(name, _)| is_own(name))).collect()
}

/// Moves what the pane shows up into its history: what is on the screen from here on is of what runs now.
fn scroll_up() {
    let Some(here) = tmux_here() else { return };
    let server = Server::new(Some(here.socket.into()), CALL_LIMIT);
    let Ok(Some((row, rows))) = server.cursor(&here.pane) else { return };
    let mut text = format!("\u{1b}[{rows};1H");
    text.extend(std::iter::repeat_n('\n', row as usize));
    text.push_str("\u{1b}[H");
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_has_its_way_but_for_what_is_the_panes() {
        fn pairs<const N: usize>(all: [(&str, &str); N]) -> Vec<(OsString, OsString)> {
            all.map(|(name, value)| (name.into(), value.into())).to_vec()
        }
        let caller = [("KEY", "secret"), ("TERM", "outer"), ("=hidden", "1"), ("TMUX", "other"), ("PARHELIA_RUN_ID", "run")];
        let pane = [("TERM", "screen"), ("TMUX_PANE", "%1"), ("KEY", "old"), ("SERVER", "1")];
        let merged = environment(pairs(caller), pairs(pane).into_iter());
        let merged: Vec<_> = merged.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect();
        assert_eq!(merged, ["=hidden=1", "KEY=secret", "TERM=screen", "TMUX_PANE=%1"]);
    }

    #[test]
    fn nothing_goes_on_before_the_gate_is_open() {
        let handover = Handover::new(Vec::new(), None, &["a".into(), "".into()]).unwrap();
        let gate = File::open(handover.folder().join(GATE)).unwrap();
        assert!(gate.try_lock_shared().is_err());
        handover.open().unwrap();
        gate.try_lock_shared().unwrap();
        assert_eq!(fs::read(handover.folder().join(GATE)).unwrap(), OPEN);
        let folder = handover.folder().to_owned();
        handover.finish();
        assert!(!folder.exists());
    }
}
