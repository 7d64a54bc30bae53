//! Standard error of an agent.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::ChildStderr,
    thread::JoinHandle,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::lost;
use parhelia_host::Result;

/// The agent's standard error: passed on, and its end kept.
pub(super) struct AgentStderr {
    listener: JoinHandle<String>,
    /// Closed when the agent has ended.
    agent_lives: UnixStream,
}

impl AgentStderr {
    /// Starts the thread that reads the pipe and passes it on.
    pub(super) fn listen(pipe: ChildStderr) -> Result<Self> {
        let (agent_lives, until) = UnixStream::pair().map_err(|e| lost(&e.to_string()))?;
        let listener = std::thread::Builder::new().spawn(move || pass_on(pipe, &until));
        let listener = listener.map_err(|e| lost(&format!("there is no thread that reads what it says: {e}")))?;
        Ok(AgentStderr { listener, agent_lives })
    }

    /// Everything that was said before now. Nobody waits for what the agent has left behind, which may hold its standard error open.
    pub(super) fn end(self) -> String {
        drop(self.agent_lives);
        self.listener.join().unwrap_or_default()
    }
}

/// Passes on what comes until the pipe ends, or `until` is closed and the pipe is empty; returns the end of it.
fn pass_on(mut pipe: ChildStderr, until: &UnixStream) -> String {
    const KEPT_BYTES: usize = 8 << 10;
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let mut fds = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(until, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) if !fds[0].revents().is_empty() => {}
            _ => break,
        }
        let read = pipe.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            break;
        }
        let _ = std::io::stderr().write_all(&buffer[..read]);
        kept.extend_from_slice(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
    }
    String::from_utf8_lossy(&kept).into_owned()
}
