//! Running other programs for a bounded time: a hook must never hang because tmux does.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit},
};

use crate::error::{Error, Result};

/// The most that a program may print, in bytes.
const PRINTED_BYTES_MAX: usize = 64 << 20;

/// The standard output of a program that succeeded.
pub type ProgramOutput = Vec<u8>;

/// Checks whether a path, links followed, lies in a workspace: files in there are captured and never run. False if the workspace is `/`, as
/// everything lies in it, this program included.
pub fn is_in(workspace: &Path, path: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let workspace = real(workspace);
    workspace.parent().is_some() && real(path).starts_with(&workspace)
}

/// The folders of a search path that a program may be run from on behalf of a workspace: absolute ones outside the workspace. A relative one
/// is looked up in the folder where the program runs.
pub fn search_path(path: Option<&OsStr>, workspace: &Path) -> Option<OsString> {
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute() && !is_in(workspace, folder));
    std::env::join_paths(folders).ok()
}

/// The program of a name on a search path, or of a path.
pub fn locate(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0);
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(is_program)
}

/// The first program of a name on a search path that does not lie in a workspace, links followed.
pub fn outside(name: &str, path: Option<&OsStr>, workspace: &Path) -> Option<PathBuf> {
    let folders = std::env::split_paths(path?);
    folders.filter_map(|folder| locate(OsStr::new(name), Some(folder.as_os_str()))).find(|found| !is_in(workspace, found))
}

/// Runs a program to its end, at most for so long. Fails with its own words where it fails.
pub fn run(command: &mut Command, limit: Duration) -> Result<ProgramOutput> {
    run_on(command, Stdio::null(), limit)
}

/// As [`run`], with something to read.
pub fn run_on(command: &mut Command, input: Stdio, limit: Duration) -> Result<ProgramOutput> {
    run_within(command, input, limit, None)
}

/// As [`run_on`], with a limit to the program's own memory, in bytes.
pub fn run_within(command: &mut Command, input: Stdio, limit: Duration, memory_bytes_max: Option<u64>) -> Result<ProgramOutput> {
    let began = Instant::now();
    let shown = shown(command);
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| Error::Start { program: program(command), source })?;
    if let (Some(_), Some(pid)) = (memory_bytes_max, i32::try_from(child.id()).ok().and_then(Pid::from_raw)) {
        // A kernel that refuses it runs the program all the same.
        let _ = prlimit(Some(pid), Resource::Data, Rlimit { current: memory_bytes_max, maximum: memory_bytes_max });
    }
    let readers = reader(child.stdout.take()).and_then(|out| Ok((out, reader(child.stderr.take())?)));
    let (out, err) = readers.map_err(|source| {
        let _ = child.kill();
        let _ = child.wait();
        Error::Start { program: format!("{} (a thread that reads what it prints)", program(command)), source }
    })?;
    if !has_ended_within(&child, limit) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::Slow { command: shown, waited_ms: began.elapsed().as_millis() });
    }
    let status = child.wait().map_err(|source| Error::Start { program: program(command), source })?;
    // Something that it has started may hold its pipes, and is not waited for.
    let left = || limit.saturating_sub(began.elapsed());
    if status.success() {
        let late = |_| Error::Slow { command: shown.clone(), waited_ms: began.elapsed().as_millis() };
        let printed = out.recv_timeout(left()).map_err(late)?;
        if printed.len() > PRINTED_BYTES_MAX {
            return Err(Error::Program { command: shown, reason: format!("it printed more than {PRINTED_BYTES_MAX} bytes") });
        }
        return Ok(printed);
    }
    let words = err.recv_timeout(left()).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    Err(Error::Program { command: shown, reason: if words.is_empty() { status.to_string() } else { words } })
}

/// Waits for a child to end; returns whether it did within the time limit.
pub fn has_ended_within(child: &Child, limit: Duration) -> bool {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return false };
    // It is our child and was not waited for, so that its number cannot be another's.
    pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|fd| is_readable_within(&fd, limit))
}

/// Waits until a descriptor can be read (of a process: until its end); returns whether that was within the time limit.
pub fn is_readable_within(fd: &impl std::os::fd::AsFd, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Reads a pipe to its end, so that the program never waits for us. Of what is too long the beginning is given, one byte more than the limit.
fn reader(pipe: Option<impl Read + Send + 'static>) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(PRINTED_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        // Nobody may wait any more.
        let _ = sender.send(bytes);
    })?;
    Ok(receiver)
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// The first words of a command line, for messages.
fn shown(command: &Command) -> String {
    let mut words = vec![program(command)];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    let text = words.join(" ");
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_it_prints_comes_back_whole() {
        let printed = run(&mut sh("head -c 300000 /dev/zero"), Duration::from_secs(20)).unwrap();
        assert_eq!(printed.len(), 300_000);
    }

    #[test]
    fn a_pipe_that_another_process_holds_is_not_waited_for_and_too_much_is_refused() {
        let began = Instant::now();
        let error = run(&mut sh("sleep 300 & echo $!"), Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, Error::Slow { .. }) && began.elapsed() < Duration::from_secs(100), "{error}");
        let error = run(&mut sh("head -c 70000000 /dev/zero"), Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("it printed more than"), "{error}");
    }

    #[test]
    fn a_failure_has_the_programs_words() {
        let error = run(&mut sh("echo oops >&2; exit 3"), Duration::from_secs(20)).unwrap_err();
        assert!(matches!(&error, Error::Program { reason, .. } if reason == "oops"), "{error}");
        let error = run(&mut Command::new("/no/such/program"), Duration::from_secs(20)).unwrap_err();
        assert!(matches!(error, Error::Start { .. }), "{error}");
    }

    #[test]
    fn a_program_that_wants_too_much_memory_fails() {
        let greedy = "x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo ${#x}";
        let run = |bytes_max| run_within(&mut sh(greedy), Stdio::null(), Duration::from_secs(100), bytes_max);
        assert_eq!(run(None).unwrap(), b"200000000\n");
        assert!(run(Some(64 << 20)).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let error = run(&mut sh("exec sleep 1000"), Duration::from_millis(30)).unwrap_err();
        assert!(matches!(error, Error::Slow { .. }), "{error}");
    }
}
