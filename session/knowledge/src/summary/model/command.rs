//! Asking a command: text on its standard input, the answer on its standard output, in bounded time and of bounded length.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use parhelia_agent::{
    process::RUN_MARKER,
    program::{has_ended_within, is_in, locate, search_path},
};
use parhelia_store::name;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{super::quoted, ASKING, answer::BYTES_MAX};
use parhelia_host::Host;

/// So much of what it says on standard error is read.
const WORDS_BYTES_MAX: usize = 4 << 10;
/// A command of which everything was killed has closed its standard error by then.
const WORDS_LIMIT: Duration = Duration::from_secs(1);
/// Longest command line that is shown, in characters.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// A command that is asked.
pub struct Invocation<'a> {
    /// Its program and arguments.
    pub words: &'a [String],
    /// Its folder, in which there is nothing.
    pub folder: &'a Path,
    /// The session's workspace: no program in there is run.
    pub workspace: &'a Path,
    /// The time that it has.
    pub limit: Duration,
    /// The caller, whose environment it has.
    pub host: &'a dyn Host,
}

/// A command line in a line, without what looks like a secret.
pub fn shown(words: &[String]) -> String {
    let words = words.iter().map(|word| name::shell(word.as_bytes()));
    quoted(&words.collect::<Vec<_>>().join(" "), SHOWN_CHARACTERS_MAX)
}

/// The answer to a text. Fails with a reason. Nothing that the command has started is left, as far as it stayed in its process group.
pub fn answer(asked: &Invocation<'_>, text: &str) -> Result<String, String> {
    let mut command = command(asked)?;
    let mut started = Err(io::Error::other("it was not started"));
    // It is no program of ours.
    asked.host.with_own_limits(&mut || started = command.spawn());
    let mut child = started.map_err(|e| format!("{} cannot be started: {e}", shown(asked.words)))?;
    let answered = exchanged(&mut child, text, asked.limit);
    // Before it is waited for, its number cannot be another group's.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait();
    let (answered, words) = answered?;
    let (bytes, has_ended) = answered.map_err(|why| format!("{} {why}", shown(asked.words)))?;
    match status {
        Ok(status) if status.success() && has_ended => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(status) => {
            let words = words.recv_timeout(WORDS_LIMIT).unwrap_or_default();
            let words = quoted(&String::from_utf8_lossy(&words), SHOWN_CHARACTERS_MAX);
            let colon = if words.is_empty() { "" } else { ": " };
            Err(format!("{} failed ({status}){colon}{words}", shown(asked.words)))
        }
        Err(e) => Err(format!("{} cannot be waited for: {e}", shown(asked.words))),
    }
}

fn command(asked: &Invocation<'_>) -> Result<Command, String> {
    let (program, arguments) = asked.words.split_first().ok_or_else(|| "no command is configured".to_owned())?;
    let folders = asked.host.variable("PATH");
    let path = search_path(folders.as_deref(), asked.workspace);
    let found = locate(OsStr::new(program), path.as_deref()).filter(|found| !is_in(asked.workspace, found));
    let found =
        found.ok_or_else(|| format!("there is no program {} outside of the workspace", name::shell(program.as_bytes())))?;
    let is_kept = |(name, _): &(OsString, OsString)| name != RUN_MARKER && name != "PATH";
    let mut command = Command::new(found);
    command.args(arguments).env_clear().envs(asked.host.variables().into_iter().filter(is_kept)).env(ASKING, "1");
    command.envs(path.map(|path| ("PATH", path))).current_dir(asked.folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    Ok(command)
}

/// The bytes of an answer and true if the command has ended, or the reason why there is none; and its words on standard error.
type CommandOutput = (Result<(Vec<u8>, bool), String>, Receiver<Vec<u8>>);

/// Hands a text over and reads the answer.
fn exchanged(child: &mut Child, text: &str, limit: Duration) -> Result<CommandOutput, String> {
    let until = Instant::now() + limit;
    let no_thread = |e: io::Error| format!("there is no thread for it: {e}");
    let (input, text) = (child.stdin.take(), text.to_owned());
    let hand_over = move || {
        // A command that reads no further knows enough.
        let _ = input.map(|mut input| input.write_all(text.as_bytes()));
    };
    thread::Builder::new().name("input".into()).spawn(hand_over).map_err(no_thread)?;
    let words = reading(child.stderr.take(), WORDS_BYTES_MAX, true).map_err(no_thread)?;
    let answer = reading(child.stdout.take(), BYTES_MAX + 1, false).map_err(no_thread)?;
    let slow = || format!("did not answer within {} s", limit.as_secs_f64());
    let answered = match answer.recv_timeout(limit) {
        Err(_) => Err(slow()),
        Ok(bytes) if bytes.len() > BYTES_MAX => Err(format!("printed more than {} KiB", BYTES_MAX >> 10)),
        Ok(bytes) => match has_ended_within(child, until.saturating_duration_since(Instant::now())) {
            true => Ok((bytes, true)),
            false => Err(slow()),
        },
    };
    Ok((answered, words))
}

/// Reads so many bytes of a pipe, and sends them when there are that many or no more; then, with `on`, reads on, so that nobody waits for us.
fn reading(pipe: Option<impl Read + Send + 'static>, bytes_max: usize, on: bool) -> io::Result<Receiver<Vec<u8>>> {
    let (send, receive) = mpsc::channel();
    thread::Builder::new().name("output".into()).spawn(move || {
        let mut bytes = Vec::new();
        let Some(mut pipe) = pipe else { return };
        let _ = pipe.by_ref().take(bytes_max as u64).read_to_end(&mut bytes);
        let _ = send.send(bytes);
        if on {
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
    })?;
    Ok(receive)
}
