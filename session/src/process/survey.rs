//! Which processes belong to a run, and which others work in its folder.

use std::{
    fs::{self, File},
    io::Read,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{
    RUN_MARKER,
    identity::{Identity, Stat, boot_id},
};
use crate::{
    error::{IoContext, Result},
    program::is_readable_within,
};

/// No environment is read further than this, in bytes.
const ENVIRONMENT_BYTES_MAX: u64 = 4 << 20;

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It carries the run's marker, or is its agent.
    Run,
    /// It carries the marker of another run.
    AnotherRun,
    /// Nothing proves whose it is.
    Unknown,
}

/// A process that belongs to a run, or works in its folder.
#[derive(Debug)]
pub struct Found {
    /// Which process.
    pub identity: Identity,
    /// Its name.
    pub name: String,
    /// Its command line, shortened.
    pub command: String,
    /// The folder it works in, where that can be told.
    pub folder: Option<PathBuf>,
    /// Whose it is.
    pub owner: Owner,
    /// Holds the process: what is sent here reaches no other.
    pub(super) fd: OwnedFd,
}

/// Processes that carry a run's marker, or are its agent as it was recorded, and those without that proof that work in `workspace`. This
/// process and its ancestors are not among them.
pub fn found(run: &str, agent: Option<&Identity>, workspace: &Path) -> Result<Vec<Found>> {
    let mine = ancestors();
    let boot = boot_id()?;
    let proc = Path::new("/proc");
    let mut all = Vec::new();
    for entry in fs::read_dir(proc).at("read folder", proc)? {
        let Ok(entry) = entry else { continue };
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if !mine.contains(&process)
            && let Some(found) = look(process, run, agent, workspace, &boot)
        {
            all.push(found);
        }
    }
    all.sort_by_key(|found| found.identity.process);
    Ok(all)
}

/// `None` where the process has nothing to do with the run, or has gone.
fn look(process: i32, run: &str, agent: Option<&Identity>, workspace: &Path, boot: &str) -> Option<Found> {
    // First the descriptor, then what is read: so that it is read of the process that the descriptor holds.
    let fd = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
    let stat = Stat::of(process).filter(|stat| !stat.has_ended())?;
    let identity = Identity { process, start_time: stat.start_time, boot_id: boot.to_owned() };
    let owner = match marker(process).as_deref() {
        _ if agent == Some(&identity) => Owner::Run,
        Some(value) if value == run.as_bytes() => Owner::Run,
        Some(_) => Owner::AnotherRun,
        None => Owner::Unknown,
    };
    let folder = fs::read_link(format!("/proc/{process}/cwd")).ok();
    let works_there = folder.as_deref().is_some_and(|folder| folder.starts_with(workspace));
    if owner != Owner::Run && !works_there {
        return None;
    }
    Some(Found { identity, name: stat.name, command: command_line(process), folder, owner, fd })
}

/// The value of the marker in the environment that a process was started with.
fn marker(process: i32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{process}/environ")).ok()?.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let mut entries = bytes.split(|b| *b == 0);
    entries.find_map(|entry| entry.strip_prefix(RUN_MARKER.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec))
}

fn command_line(process: i32) -> String {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = bytes.split(|b| *b == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    words.join(" ").chars().take(200).collect()
}

/// This process and those that it descends from.
fn ancestors() -> Vec<i32> {
    let mut line = vec![std::process::id() as i32];
    while let Some(parent) = line.last().and_then(|process| Stat::of(*process)).map(|stat| stat.parent)
        && parent > 0
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}

impl Found {
    /// Whether it is a shell that somebody types into: it was given nothing to run.
    pub fn is_shell(&self) -> bool {
        let mut words = self.command.split(' ');
        let name = words.next().unwrap_or_default().trim_start_matches('-').rsplit('/').next().unwrap_or_default().to_owned();
        let has_work = |word: &str| !word.starts_with('-') || !word.starts_with("--") && word.contains('c');
        ["bash", "zsh", "fish", "sh", "dash", "ksh", "nu"].contains(&&*name) && !words.any(has_work)
    }

    /// Whether it ends by itself within that time.
    pub fn ends_within(&self, limit: Duration) -> bool {
        is_readable_within(&self.fd, limit)
    }

    /// The process in a few words, for messages.
    pub fn text(&self) -> String {
        let command = if self.command.is_empty() { &self.name } else { &self.command };
        match &self.folder {
            Some(folder) => format!("{} ({command}) in {}", self.identity.process, folder_text(folder)),
            None => format!("{} ({command})", self.identity.process),
        }
    }
}

fn folder_text(folder: &Path) -> String {
    parhelia_store::name::display(folder.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_somebody_types_into_is_told_from_one_that_works() {
        let is_shell = |command: &str| {
            let process = std::process::id() as i32;
            let fd = pidfd_open(Pid::from_raw(process).unwrap(), PidfdFlags::empty()).unwrap();
            let (identity, name) = (Identity::of(process).unwrap(), String::new());
            Found { identity, name, command: command.into(), folder: None, owner: Owner::Unknown, fd }.is_shell()
        };
        for command in ["-bash", "/usr/bin/zsh -i", "bash --login", "fish"] {
            assert!(is_shell(command), "{command}");
        }
        for command in ["bash -c sleep 5", "sh -lc make", "bash build.sh", "vim", ""] {
            assert!(!is_shell(command), "{command}");
        }
    }
}
