//! Handing over to a process in a pane: what it is to run, when, and with whose environment.
//!
//! A process in a pane has the environment of the tmux server. The caller's environment stands in memory of the caller's own, which the process in the pane reads
//! while the caller waits: it is on no command line, in no file and in no memory of the server's. The arguments go through a private file, because
//! tmux takes few.

#![expect(clippy::disallowed_methods, reason = "writes into a temporary folder")]

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parhelia_agent::{
    process::{Identity, RUN_MARKER, SESSION_MARKER},
    tmux::Server,
};
use parhelia_host::{Host, Result, config::call::OVERRULED, error::IoContext};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::CALL_LIMIT;

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
    /// The number of its open file with the variables: each name and each value with a zero byte behind it.
    variables: i32,
    /// The user's, not the process's own.
    umask: u32,
}

/// A handover, as seen by the process that hands over.
pub struct Handover {
    folder: TempDir,
    /// Locked as long as the other process must wait. If this process dies, the lock is gone and the gate is not open.
    gate: File,
    /// Open until the other process has read it.
    _variables: File,
}

impl Handover {
    /// To hand over the caller's environment, a prompt in a file of its own, and the arguments that `words` makes of that file.
    pub fn new(
        host: &dyn Host,
        prompt: Option<&str>,
        words: impl FnOnce(Option<&Path>) -> io::Result<Vec<OsString>>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("parhelia-").tempdir();
        let folder = folder.at("make a folder in", &std::env::temp_dir())?;
        let write = || {
            let path = folder.path().join(PROMPT);
            let prompt =
                prompt.map(|prompt| private(&path)?.write_all(prompt.as_bytes()).map(|()| path.as_path())).transpose()?;
            let mut variables = File::from(memfd_create("variables", MemfdFlags::CLOEXEC)?);
            for (name, value) in host.variables() {
                variables.write_all(&[name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat())?;
            }
            let process = Identity::of(std::process::id() as i32).map_err(io::Error::other)?;
            let caller = Caller { process, variables: variables.as_raw_fd(), umask: host.umask() };
            let mut handed = serde_json::to_vec(&caller)?;
            handed.push(0);
            words(prompt)?.iter().for_each(|word| handed.extend_from_slice(&[word.as_bytes(), b"\0"].concat()));
            private(&folder.path().join(WORDS))?.write_all(&handed)?;
            let gate = private(&folder.path().join(GATE))?;
            gate.lock()?;
            io::Result::Ok((gate, variables))
        };
        let (gate, variables) = write().at("write into", folder.path())?;
        Ok(Handover { folder, gate, _variables: variables })
    }

    /// The folder in which it is, for its owner alone.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command line of the process that takes over.
    pub fn command(&self, host: &dyn Host) -> Result<Vec<OsString>> {
        host.pane_command(self.folder()).at("find", Path::new("the program itself"))
    }

    /// Lets it go on.
    pub fn open(&self) -> Result<()> {
        (&self.gate).write_all(OPEN).and_then(|()| self.gate.unlock()).at("open the gate in", self.folder())
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

/// Everything that was handed over to this process.
pub struct ProcessContext {
    /// The arguments that it goes on with.
    pub arguments: Vec<OsString>,
    /// The environment that it goes on with: the caller's, with the pane's own variables as they are in the pane.
    pub environment: BTreeMap<OsString, OsString>,
    /// The umask of the caller's user.
    pub umask: u32,
}

/// Waits until the process that made this pane lets it go on. None where that one has given up.
pub fn take(folder: &Path, host: &dyn Host) -> Result<Option<ProcessContext>> {
    let read = || -> io::Result<Option<ProcessContext>> {
        let gate = File::open(folder.join(GATE))?;
        gate.lock_shared()?;
        let mut said = Vec::new();
        (&gate).read_to_end(&mut said)?;
        if said != OPEN {
            return Ok(None);
        }
        let bytes = fs::read(folder.join(WORDS))?;
        let mut words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
        let caller: Caller = serde_json::from_slice(words.next().unwrap_or_default())?;
        let environment = environment(caller.variables()?, host.variables());
        let arguments = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
        Ok(Some(ProcessContext { arguments, environment, umask: caller.umask }))
    };
    read().at("take over what is in", folder)
}

impl Caller {
    /// Its environment. It waits meanwhile.
    fn variables(&self) -> io::Result<Vec<(OsString, OsString)>> {
        let bytes = fs::read(PathBuf::from(format!("/proc/{}/fd/{}", self.process.process, self.variables)))?;
        if !self.process.is_alive() {
            // The number may be another process's by now.
            return Err(io::Error::new(io::ErrorKind::NotFound, "the process is gone"));
        }
        let words: Vec<&[u8]> = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0).collect();
        let of = |word: &[u8]| OsStr::from_bytes(word).to_owned();
        Ok(words.chunks_exact(2).map(|pair| (of(pair[0]), of(pair[1]))).collect())
    }
}

/// The caller's environment, with the pane's own variables as they are in the pane.
fn environment(caller: Vec<(OsString, OsString)>, pane: Vec<(OsString, OsString)>) -> BTreeMap<OsString, OsString> {
    let is_own = |name: &OsStr| OF_THE_PANE.iter().any(|own| name == *own);
    let kept = caller.into_iter().filter(|(name, _)| !is_own(name) && !OF_A_RUN.iter().any(|marker| name == *marker));
    kept.chain(pane.into_iter().filter(|(name, _)| is_own(name))).collect()
}

/// The characters that move what the caller's pane shows up into its history: what is on the screen from here on is of what runs now.
pub fn scroll_up(host: &dyn Host) -> Option<String> {
    let here = host.tmux()?;
    let server = Server::new(Some(here.socket.into()), CALL_LIMIT);
    let (row, rows) = server.cursor(&here.pane).ok()??;
    Some(format!("\u{1b}[{rows};1H{}\u{1b}[H", "\n".repeat(row as usize)))
}

#[cfg(test)]
mod tests {
    use parhelia_session_testing::NOBODY;

    use super::*;

    #[test]
    fn the_caller_has_its_way_but_for_what_is_the_panes() {
        fn pairs<const N: usize>(all: [(&str, &str); N]) -> Vec<(OsString, OsString)> {
            all.map(|(name, value)| (name.into(), value.into())).to_vec()
        }
        let caller = [("KEY", "secret"), ("TERM", "outer"), ("=hidden", "1"), ("TMUX", "other"), ("PARHELIA_RUN_ID", "run")];
        let pane = [("TERM", "screen"), ("TMUX_PANE", "%1"), ("KEY", "old"), ("SERVER", "1")];
        let merged = environment(pairs(caller), pairs(pane));
        let merged: Vec<_> = merged.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect();
        assert_eq!(merged, ["=hidden=1", "KEY=secret", "TERM=screen", "TMUX_PANE=%1"]);
    }

    #[test]
    fn nothing_goes_on_before_the_gate_is_open() {
        let handover = Handover::new(&NOBODY, None, |_| Ok(vec!["a".into(), "".into()])).unwrap();
        let gate = File::open(handover.folder().join(GATE)).unwrap();
        assert!(gate.try_lock_shared().is_err());
        handover.open().unwrap();
        gate.try_lock_shared().unwrap();
        let taken = take(handover.folder(), &NOBODY).unwrap().unwrap();
        assert_eq!((taken.arguments, taken.environment.len()), (vec!["a".into(), "".into()], 0));
        let folder = handover.folder().to_owned();
        handover.finish();
        assert!(!folder.exists());
    }
}
