//! The processes of a run, and others that work in its folder.
//!
//! The run's marker is inherited by whatever a tool starts, also by what is nobody's tool any more: a tmux server, and everything in its
//! panes. It proves a process to be the run's only together with descent from the run's agent, or a working folder in the workspace.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io::Read,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{
    identity::{Identity, Stat, ancestors, boot_id, pid_namespace},
    look::command_of,
    markers::RUN_MARKER,
};
use crate::{
    error::{IoContext, Result},
    program::is_readable_within,
};

/// No environment is read further than this, in bytes.
const ENVIRONMENT_BYTES_MAX: u64 = 4 << 20;
/// Servers that hold terminals for people, by the names of their processes: they outlive whoever starts them, on purpose.
const MULTIPLEXERS: [&str; 6] = ["tmux: server", "screen", "SCREEN", "zellij", "dtach", "abduco"];
/// Names of a multiplexer's processes that hold no terminal themselves, beside the servers.
const CLIENTS: [&str; 1] = ["tmux: client"];
/// The arguments that start the process which does a hook's work.
const HOOK_WORK: &str = " hook --work";
/// The words of our own processes that deliver notifications, and push to a remote.
const DELIVERIES: [[&str; 3]; 2] = [["outbox", "deliver", "--detached"], ["remote", "push", "--detached"]];

/// The recorded processes from which everything of a run descends, and those that are certainly others'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The process that was recorded as the run's agent; none where none was.
    pub agent: Option<Identity>,
    /// The agent itself, where what is recorded is what started it, such as a script.
    pub hooked: Option<Identity>,
    /// The process that started it.
    pub launcher: Option<Identity>,
    /// Live agents of other runs, which may have been started by hand where they inherit the marker.
    pub apart: Vec<Identity>,
}

impl Roots {
    /// Each that is known.
    pub fn all(&self) -> impl Iterator<Item = &Identity> {
        self.agent.iter().chain(&self.hooked).chain(&self.launcher)
    }
}

/// The owner of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is the run's agent, or carries the run's marker and descends from it or works in the workspace.
    Run,
    /// It carries the run's marker, and nothing else proves it to be the run's.
    Marked,
    /// It carries the marker of another run.
    AnotherRun,
    /// Nothing proves whose it is.
    Unknown,
}

/// A process that belongs to a run, or works in its folder.
#[derive(Debug)]
pub struct Process {
    /// The identity of the process.
    pub identity: Identity,
    /// Name of the process, as the kernel has it: at most 15 bytes.
    pub name: String,
    /// Its command line, shortened.
    pub command: String,
    /// The folder it works in, where that can be told.
    pub folder: Option<PathBuf>,
    /// The run that it belongs to, as far as that is proven.
    pub owner: Owner,
    /// Holds the process: what is sent here reaches no other.
    pub(super) fd: OwnedFd,
}

/// A process as it was looked at.
struct ProcessSnapshot {
    identity: Identity,
    stat: Stat,
    marker: Option<Vec<u8>>,
    folder: Option<PathBuf>,
    works_there: bool,
    /// None if it is not one that is looked for: there may be more processes than descriptors.
    fd: Option<OwnedFd>,
}

/// Processes that carry a run's marker, or are its agent as it was recorded, and those without that proof that work in `workspace`. This
/// process, its ancestors, and what reads its output are not among them.
pub fn found(run: &str, roots: &Roots, workspace: &Path) -> Result<Vec<Process>> {
    let workspace = canonical(workspace);
    let (boot, namespace) = (boot_id()?, pid_namespace());
    let proc = Path::new("/proc");
    let mut seen = HashMap::new();
    for entry in fs::read_dir(proc).at("read folder", proc)? {
        let Ok(entry) = entry else { continue };
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Some(found) = look(process, roots, &workspace, (&boot, &namespace)) {
            seen.insert(process, found);
        }
    }
    let owners: HashMap<i32, Owner> = seen.iter().map(|(process, one)| (*process, owner(one, &seen, run, roots))).collect();
    let mine: Vec<i32> = ancestors().into_iter().map(|ancestor| ancestor.process).collect();
    let outputs = [1, 2].map(|number| pipe("self", number));
    let reads_from_here = |process: i32| pipe(&process.to_string(), 0).is_some_and(|input| outputs.contains(&Some(input)));
    let mut all = Vec::new();
    for (process, one) in seen {
        let (owner, Some(fd)) = (owners[&process], one.fd) else { continue };
        if mine.contains(&process) || !one.works_there && !matches!(owner, Owner::Run | Owner::Marked) {
            continue;
        }
        // Such as the `less` that this is piped into.
        if owner == Owner::Unknown && reads_from_here(process) {
            continue;
        }
        let command = command_line(process);
        all.push(Process { identity: one.identity, name: one.stat.name, command, folder: one.folder, owner, fd });
    }
    all.sort_by_key(|found| found.identity.process);
    Ok(all)
}

/// The pipe that a process has as one of its standard streams.
fn pipe(process: &str, number: u8) -> Option<PathBuf> {
    let found = fs::read_link(format!("/proc/{process}/fd/{number}")).ok()?;
    found.as_os_str().as_bytes().starts_with(b"pipe:").then_some(found)
}

/// `None` where the process has gone, or is the kernel's own.
fn look(process: i32, roots: &Roots, workspace: &Path, (boot, namespace): (&str, &Option<String>)) -> Option<ProcessSnapshot> {
    // First the descriptor, then what is read: so that it is read of the process that the descriptor holds.
    let fd = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
    let stat = Stat::of(process).filter(|stat| !stat.has_ended())?;
    let identity = Identity { process, start_time: stat.start_time, boot_id: boot.to_owned(), pid_namespace: namespace.clone() };
    let folder = fs::read_link(format!("/proc/{process}/cwd")).ok();
    let works_there = folder.as_deref().is_some_and(|folder| is_below(folder, workspace));
    let marker = marker(process);
    let fd = (works_there || marker.is_some() || is_agent(&identity, roots)).then_some(fd);
    Some(ProcessSnapshot { identity, stat, marker, folder, works_there, fd })
}

fn is_agent(identity: &Identity, roots: &Roots) -> bool {
    roots.agent.iter().chain(&roots.hooked).any(|agent| agent.is_same(identity))
}

fn owner(one: &ProcessSnapshot, all: &HashMap<i32, ProcessSnapshot>, run: &str, roots: &Roots) -> Owner {
    if is_agent(&one.identity, roots) {
        return Owner::Run;
    }
    match &one.marker {
        None => Owner::Unknown,
        Some(marker) if marker != run.as_bytes() => Owner::AnotherRun,
        Some(_) if is_apart(one, all, run, &roots.apart) => Owner::Marked,
        Some(_) if one.works_there || descends(one, all, roots) => Owner::Run,
        Some(_) => Owner::Marked,
    }
}

/// A process and those that it descends from, nearest first, as far as they were seen.
fn line<'a>(one: &'a ProcessSnapshot, all: &'a HashMap<i32, ProcessSnapshot>) -> impl Iterator<Item = &'a ProcessSnapshot> {
    // Numbers are given anew, so that what was read at different moments might form a circle.
    std::iter::successors(Some(one), |one| all.get(&one.stat.parent)).take(all.len())
}

/// True if a process belongs to something independent that a tool has started: a multiplexer with everything in its terminals, or what
/// stands beside an agent of another run.
fn is_apart(one: &ProcessSnapshot, all: &HashMap<i32, ProcessSnapshot>, run: &str, apart: &[Identity]) -> bool {
    let is_marked = |seen: &&ProcessSnapshot| seen.marker.as_deref() == Some(run.as_bytes());
    let is_multiplexer = |seen: &ProcessSnapshot| MULTIPLEXERS.contains(&seen.stat.name.as_str());
    let is_agent = |seen: &ProcessSnapshot| apart.iter().any(|agent| agent.is_same(&seen.identity));
    let is_anothers =
        |seen: &ProcessSnapshot| is_agent(seen) || seen.marker.as_ref().is_some_and(|marker| marker != run.as_bytes());
    line(one, all).take_while(is_marked).any(|seen| is_multiplexer(seen) || is_agent(seen))
        || all.values().any(|other| is_anothers(other) && other.stat.parent == one.identity.process)
}

/// True if a process descends from one of the roots, by its parents or by the group or terminal session that a root led.
fn descends(one: &ProcessSnapshot, all: &HashMap<i32, ProcessSnapshot>, roots: &Roots) -> bool {
    roots.all().any(|root| {
        let is_led = !one.identity.is_same(root)
            && root.is_visible()
            && one.stat.start_time >= root.start_time
            && (one.stat.group == root.process || one.stat.session == root.process);
        is_led || line(one, all).skip(1).any(|above| above.identity.is_same(root))
    })
}

/// A path as the kernel names it: links followed, as far as it is there.
pub fn canonical(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => canonical(parent).join(name),
        _ => path.to_owned(),
    }
}

/// True if a working folder is a workspace or lies in it, also if it has been removed since.
fn is_below(folder: &Path, workspace: &Path) -> bool {
    let removed = || folder.as_os_str().as_bytes().strip_suffix(b" (deleted)").map(parhelia_name::as_path);
    folder.starts_with(workspace) || removed().is_some_and(|folder| folder.starts_with(workspace))
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

impl Process {
    /// True for an interactive shell, which was given nothing to run.
    pub fn is_shell(&self) -> bool {
        let mut words = self.command.split(' ');
        let name = words.next().unwrap_or_default().trim_start_matches('-').rsplit('/').next().unwrap_or_default().to_owned();
        let has_work = |word: &str| !word.starts_with('-') || !word.starts_with("--") && word.contains('c');
        ["bash", "zsh", "fish", "sh", "dash", "ksh", "nu"].contains(&&*name) && !words.any(has_work)
    }

    /// Waits for it to end by itself; true if it ends within the limit.
    pub fn ends_within(&self, limit: Duration) -> bool {
        is_readable_within(&self.fd, limit)
    }

    /// True for our own process that does a hook's work.
    pub fn is_hook_work(&self) -> bool {
        self.command.contains(HOOK_WORK)
    }

    /// True for our own process that does what a hook has led to: it ends by itself, and is nothing that the agent has left behind.
    pub fn is_of_hooks(&self) -> bool {
        self.is_hook_work() || self.is_delivery()
    }

    /// True for our own process that delivers notifications, or pushes. Its words may stand behind long paths, and any program can be given them.
    fn is_delivery(&self) -> bool {
        let process = self.identity.process;
        is_own_program(process) && DELIVERIES.iter().any(|words| command_of(process).ends_with(&words.map(OsString::from)))
    }

    /// True of a process that changes no file of its own accord: a multiplexer, whose panes are processes themselves, or one of this very program, such as
    /// the supervisor of a run.
    pub fn is_bystander(&self) -> bool {
        let names = || MULTIPLEXERS.iter().chain(&CLIENTS);
        names().any(|name| *name == self.name) || is_own_program(self.identity.process)
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

/// True if a process runs the program of this one, also where that was replaced since.
fn is_own_program(process: i32) -> bool {
    let program = |process: &str| {
        let path = fs::read_link(format!("/proc/{process}/exe")).ok()?.into_os_string().into_encoded_bytes();
        Some(path.strip_suffix(b" (deleted)").map(<[u8]>::to_vec).unwrap_or(path))
    };
    program("self").is_some_and(|own| program(&process.to_string()) == Some(own))
}

fn folder_text(folder: &Path) -> String {
    parhelia_name::display(folder.as_os_str().as_bytes())
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
            Process { identity, name, command: command.into(), folder: None, owner: Owner::Unknown, fd }.is_shell()
        };
        for command in ["-bash", "/usr/bin/zsh -i", "bash --login", "fish"] {
            assert!(is_shell(command), "{command}");
        }
        for command in ["bash -c sleep 5", "sh -lc make", "bash build.sh", "vim", ""] {
            assert!(!is_shell(command), "{command}");
        }
    }
}
