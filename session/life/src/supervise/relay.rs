//! The relay: a process of its own between an agent's standard output and whoever reads that. What comes is passed on as it is, and a copy goes to
//! the supervisor.
//!
//! It is no thread of the supervisor's: an agent outlives that, and would die of a pipe that nobody reads. It ends with the agent's output, or with
//! its reader.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{fd::BorrowedFd, unix::net::UnixStream},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, ioctl_fionread, read, write},
};

/// A pipe that can be written to takes so many bytes without waiting (`PIPE_BUF`).
const AT_ONCE_BYTES: usize = 4096;
const READ_BYTES: usize = 64 << 10;
/// A supervisor that reads nothing, as one that was stopped, delays nobody: what goes beyond this is missing in its copy.
const COPY_BYTES_MAX: usize = 8 << 20;

/// The word of the supervisor: its agent has ended.
pub(super) const ENDED: u8 = b'e';

/// Bytes that wait to be written.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    written: usize,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.is_empty() {
            self.bytes.clear();
            self.written = 0;
        }
    }
}

/// The supervisor's copy.
struct SupervisorCopy<'a> {
    supervisor: &'a UnixStream,
    queue: Queue,
    is_torn: bool,
    /// True until the supervisor is gone, or has everything.
    is_wanted: bool,
    /// True until the supervisor is gone, or has said that the agent has ended.
    is_awaited: bool,
}

impl SupervisorCopy<'_> {
    fn add(&mut self, bytes: &[u8]) {
        if !self.is_wanted {
            return;
        }
        if self.queue.rest().len() + bytes.len() > COPY_BYTES_MAX {
            self.is_torn = true;
            return;
        }
        if std::mem::take(&mut self.is_torn) {
            self.queue.bytes.push(b'\n');
        }
        self.queue.bytes.extend_from_slice(bytes);
    }

    fn write(&mut self) {
        match self.supervisor.write(self.queue.rest()) {
            Ok(bytes) => self.queue.wrote(bytes),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.leave(),
        }
    }

    /// True if the supervisor says that the agent has ended.
    fn hear(&mut self) -> bool {
        match self.supervisor.read(&mut [0; 16]) {
            Ok(0) => self.leave(),
            Ok(_) => {
                self.is_awaited = false;
                return true;
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.leave(),
        }
        false
    }

    fn leave(&mut self) {
        (self.is_wanted, self.is_awaited) = (false, false);
        self.queue = Queue::default();
    }
}

/// Passes on what comes from `input` to `output`, and a copy of it to `supervisor`, until one of the first two is closed.
///
/// The supervisor's word that the agent has ended is answered twice: the copy ends when it has everything of the agent's, and the stream is shut when
/// that was passed on. What the agent has left behind may go on to write.
pub fn relay(input: BorrowedFd<'_>, output: BorrowedFd<'_>, supervisor: &UnixStream) -> io::Result<()> {
    supervisor.set_nonblocking(true)?;
    let mut copy = SupervisorCopy { supervisor, queue: Queue::default(), is_torn: false, is_wanted: true, is_awaited: true };
    let mut out = Queue::default();
    let mut is_open = true;
    // True from the agent's end on, until that was answered.
    let mut is_asked = false;
    let mut buffer = vec![0; READ_BYTES];
    while is_open || !out.is_empty() || !copy.queue.is_empty() {
        if is_asked && copy.queue.is_empty() && copy.is_wanted {
            copy.is_wanted = false;
            let _ = supervisor.shutdown(Shutdown::Write);
        }
        if is_asked && !copy.is_wanted && out.is_empty() {
            is_asked = false;
            let _ = supervisor.shutdown(Shutdown::Both);
        }
        let reads = is_open && out.is_empty();
        let (mut of_output, mut of_supervisor) = (PollFlags::empty(), PollFlags::empty());
        of_output.set(PollFlags::OUT, !out.is_empty());
        of_supervisor.set(PollFlags::IN, copy.is_awaited);
        of_supervisor.set(PollFlags::OUT, !copy.queue.is_empty());
        let mut fds = vec![PollFd::from_borrowed_fd(output, of_output)];
        fds.extend((!of_supervisor.is_empty()).then(|| PollFd::new(supervisor, of_supervisor)));
        let at = fds.len();
        fds.extend(reads.then(|| PollFd::from_borrowed_fd(input, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let ready = fds.iter().map(PollFd::revents).collect::<Vec<_>>();
        if ready[0].intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            // Nobody reads any more: the agent hears of it at its next write, as it would without us.
            return Ok(());
        }
        let has_news = at == 2 && !ready[1].is_empty();
        if has_news && !copy.queue.is_empty() {
            copy.write();
        }
        if has_news && copy.is_awaited && copy.hear() {
            is_asked = true;
            // All that the agent has written lies in the pipe.
            let mut left = usize::try_from(ioctl_fionread(input)?).unwrap_or(0);
            while is_open && left > 0 {
                let most = left.min(buffer.len());
                let bytes = interrupted(|| read(input, &mut buffer[..most]))?;
                is_open = bytes > 0;
                left -= bytes;
                out.bytes.extend_from_slice(&buffer[..bytes]);
                copy.add(&buffer[..bytes]);
            }
            continue;
        }
        if ready.get(at).is_some_and(|ready| !ready.is_empty()) {
            let bytes = interrupted(|| read(input, &mut buffer))?;
            is_open = bytes > 0;
            out.bytes.extend_from_slice(&buffer[..bytes]);
            copy.add(&buffer[..bytes]);
        }
        if ready[0].contains(PollFlags::OUT) {
            let rest = out.rest();
            match write(output, &rest[..rest.len().min(AT_ONCE_BYTES)]) {
                Ok(bytes) => out.wrote(bytes),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    Ok(())
}

fn interrupted(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::pipe,
        os::fd::{AsFd, OwnedFd},
        sync::mpsc,
        thread::{self, JoinHandle},
        time::Duration,
    };

    use super::*;

    /// Pauses are never waited for; something else is wrong after this time.
    const LIMIT: Duration = Duration::from_secs(60);

    struct Harness {
        agent: Option<io::PipeWriter>,
        reader: Option<io::PipeReader>,
        supervisor: Option<UnixStream>,
        relay: JoinHandle<io::Result<()>>,
    }

    fn running() -> Harness {
        let ((input, agent), (reader, output)) = (pipe().unwrap(), pipe().unwrap());
        let (supervisor, theirs) = UnixStream::pair().unwrap();
        supervisor.set_read_timeout(Some(LIMIT)).unwrap();
        let relay = thread::spawn(move || {
            let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
            relay(input.as_fd(), output.as_fd(), &theirs)
        });
        Harness { agent: Some(agent), reader: Some(reader), supervisor: Some(supervisor), relay }
    }

    /// Reads to the end in a thread of its own.
    fn all_of(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
        let (told, heard) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            let _ = told.send(bytes);
        });
        heard
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"noise");
        let mut out = vec![0; bytes];
        hasher.finalize_xof().fill(&mut out);
        out
    }

    #[test]
    fn every_byte_reaches_both() {
        let mut running = running();
        let passed = all_of(running.reader.take().unwrap());
        let copied = all_of(running.supervisor.as_ref().unwrap().try_clone().unwrap());
        let bytes = noise(3_000_001);
        let mut agent = running.agent.take().unwrap();
        bytes.chunks(70_001).for_each(|part| agent.write_all(part).unwrap());
        drop(agent);
        assert!(passed.recv_timeout(LIMIT).unwrap() == bytes && copied.recv_timeout(LIMIT).unwrap() == bytes);
        running.relay.join().unwrap().unwrap();
    }

    #[test]
    fn what_an_ended_agent_has_written_is_told_before_it_is_passed_on() {
        let mut running = running();
        let bytes = noise(40_000);
        // What the agent has left behind holds the pipe open.
        let mut agent = running.agent.take().unwrap();
        // More than the reader's pipe takes.
        (0..3).for_each(|_| agent.write_all(&bytes).unwrap());
        let mut supervisor = running.supervisor.take().unwrap();
        supervisor.write_all(&[ENDED]).unwrap();
        let mut copied = Vec::new();
        supervisor.read_to_end(&mut copied).unwrap();
        assert!(copied == bytes.repeat(3), "{}", copied.len());
        let is_passed_on = |within: Duration| {
            let mut fds = [PollFd::new(&supervisor, PollFlags::empty())];
            let limit = rustix::time::Timespec { tv_sec: within.as_secs() as i64, tv_nsec: 0 };
            poll(&mut fds, Some(&limit)).unwrap() > 0
        };
        assert!(!is_passed_on(Duration::ZERO), "nobody has read it");
        let mut reader = running.reader.take().unwrap();
        let mut passed = vec![0; copied.len()];
        reader.read_exact(&mut passed).unwrap();
        assert!(passed == copied && is_passed_on(LIMIT));
        // It goes on for what was left behind.
        agent.write_all(b"later").unwrap();
        drop(agent);
        let mut later = String::new();
        reader.read_to_string(&mut later).unwrap();
        assert_eq!(later, "later");
        running.relay.join().unwrap().unwrap();
    }

    #[test]
    fn an_agent_hears_at_once_that_its_reader_is_gone() {
        let mut running = running();
        drop(running.reader.take());
        running.relay.join().unwrap().unwrap();
        let failed = running.agent.take().unwrap().write_all(b"x").unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_supervisor_that_is_gone_or_reads_nothing_stops_nobody() {
        for is_gone in [true, false] {
            let mut running = running();
            let supervisor = running.supervisor.take().filter(|_| !is_gone);
            let passed = all_of(running.reader.take().unwrap());
            let bytes = noise(COPY_BYTES_MAX + (1 << 20));
            let mut agent = running.agent.take().unwrap();
            agent.write_all(&bytes).unwrap();
            drop(agent);
            if let Some(mut supervisor) = supervisor {
                let mut copied = Vec::new();
                supervisor.read_to_end(&mut copied).unwrap();
                assert!(copied.len() < bytes.len() && bytes.starts_with(&copied[..COPY_BYTES_MAX / 2]));
            }
            assert!(passed.recv_timeout(LIMIT).unwrap() == bytes, "{is_gone}");
            running.relay.join().unwrap().unwrap();
        }
    }
}
