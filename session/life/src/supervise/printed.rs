//! What a headless agent prints: passed on by a relay, and read for what the run has cost.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use parhelia_agent::transcript::{index::Format, output_parser::OutputParser};
use rustix::event::{PollFd, PollFlags, poll};

use super::{Stops, lost, relay::ENDED, until};
use parhelia_host::{Host, Result};

/// A relay answers at once, unless it was stopped.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

/// A cost that an agent has printed, and the conversation that it is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PrintedCost {
    /// US dollars, of this process of the agent's.
    pub usd: f64,
    /// The agent's id of the conversation.
    pub conversation: Option<String>,
}

/// The standard output of an agent, which a relay passes on.
pub(super) struct AgentStdout {
    relay: UnixStream,
    printed: Arc<Mutex<OutputParser>>,
    /// A byte for each time that a cost was told; ends with the copy.
    news: UnixStream,
}

impl AgentStdout {
    /// Starts the relay. Returns the other end of its pipe, which is the agent's; none for a caller that has no relay.
    pub(super) fn begin(host: &dyn Host, format: Format) -> Result<Option<(Self, OwnedFd)>> {
        let failed = |e: std::io::Error| lost(&e.to_string());
        let (input, output) = std::io::pipe().map_err(failed)?;
        let (relay, theirs) = UnixStream::pair().map_err(failed)?;
        if !host.start_relay(input.into(), theirs.into()).map_err(failed)? {
            return Ok(None);
        }
        let (news, told) = UnixStream::pair().map_err(failed)?;
        news.set_nonblocking(true).map_err(failed)?;
        told.set_nonblocking(true).map_err(failed)?;
        let printed = Arc::new(Mutex::new(OutputParser::new(format)));
        let (copy, taking) = (relay.try_clone().map_err(failed)?, Arc::clone(&printed));
        std::thread::Builder::new().spawn(move || listen(copy, &taking, told)).map_err(failed)?;
        Ok(Some((AgentStdout { relay, printed, news }, output.into())))
    }

    /// A stream that can be read from once there is something to take.
    pub(super) fn news(&self) -> &UnixStream {
        &self.news
    }

    /// The cost that was told last, where that is news; and whether there may be more.
    pub(super) fn take(&self) -> (Option<PrintedCost>, bool) {
        let read = (&self.news).read(&mut [0; 64]);
        let may_go_on = !matches!(read, Ok(0));
        let cost = read.is_ok_and(|bytes| bytes > 0).then(|| self.cost()).flatten();
        (cost, may_go_on)
    }

    fn cost(&self) -> Option<PrintedCost> {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        Some(PrintedCost { usd: printed.cost_usd()?, conversation: printed.conversation().map(str::to_owned) })
    }

    /// The cost in all that the agent has printed until its end. Waits for no reader of that.
    pub(super) fn ended(&self) -> Option<PrintedCost> {
        let _ = (&self.relay).write_all(&[ENDED]);
        let limit = Instant::now() + ANSWER_LIMIT;
        while Instant::now() < limit {
            let mut fds = [PollFd::new(&self.news, PollFlags::IN)];
            let _ = poll(&mut fds, until(Some(limit)).as_ref());
            if !self.take().1 {
                break;
            }
        }
        self.cost()
    }

    /// Waits until all that was printed is passed on, or this process is asked to end: the relay goes on by itself.
    pub(super) fn passed_on(self, stops: &Stops) {
        loop {
            let mut fds = [
                PollFd::new(&self.relay, PollFlags::empty()),
                PollFd::new(&stops.ends, PollFlags::IN),
                PollFd::new(&stops.interrupts, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        let _ = self.relay.shutdown(Shutdown::Both);
    }
}

/// Reads the copy to its end.
fn listen(mut copy: UnixStream, printed: &Mutex<OutputParser>, mut told: UnixStream) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let bytes = match copy.read(&mut buffer) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.unwrap_or(0),
        };
        let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        let has_told = if bytes == 0 { printed.end() } else { printed.take(&buffer[..bytes]) };
        drop(printed);
        if has_told {
            // One byte is as good as many.
            let _ = told.write(&[1]);
        }
        if bytes == 0 {
            return;
        }
    }
}
