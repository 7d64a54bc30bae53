//! Listeners to the service's events, all read by one thread.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Context, Error, Result};

/// The longest wait for connections, and for events that are on their way.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// The time between two looks at whether it is to end.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

struct Listener {
    stream: UnixStream,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Sequences of the events that it heard, in their order.
    heard: Vec<u64>,
    is_open: bool,
}

impl Listener {
    fn open(socket: &Path, after: Option<u64>) -> Result<Self> {
        let mut stream = UnixStream::connect(socket).context(|| "connect a listener")?;
        let query = after.map_or(String::new(), |after| format!("?after={after}"));
        let request = format!("GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(request.as_bytes()).context(|| "ask for events")?;
        // The service listens for this connection once it answers.
        let mut first = [0; 12];
        stream.set_read_timeout(Some(LIMIT)).and_then(|()| stream.read_exact(&mut first)).context(|| "wait for events")?;
        if !first.ends_with(b"200") {
            return Err(Error::new(format!("events are refused: {}", String::from_utf8_lossy(&first))));
        }
        stream.set_nonblocking(true).context(|| "listen to events")?;
        Ok(Self { stream, line: Vec::new(), heard: Vec::new(), is_open: true })
    }

    /// Reads what has come. The service ends each event with a chunk, so that lines are not split by those.
    fn read(&mut self) {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(length) => {
                    buffer[..length].iter().for_each(|byte| self.push(*byte));
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.is_open = false,
            }
            return;
        }
    }

    fn push(&mut self, byte: u8) {
        if byte != b'\n' {
            self.line.push(byte);
            return;
        }
        let sequence = self.line.strip_prefix(b"id:").and_then(|id| std::str::from_utf8(id).ok()?.trim().parse().ok());
        self.heard.extend::<Option<u64>>(sequence);
        self.line.clear();
    }
}

/// Listeners that are connected.
pub struct Listeners {
    count: usize,
    is_over: Arc<AtomicBool>,
    /// The event that is waited for, and the number of listeners that have heard it.
    last: Arc<(AtomicU64, AtomicUsize)>,
    reader: JoinHandle<Vec<Vec<u64>>>,
}

impl Listeners {
    /// Connects listeners to events behind a sequence, or to those to come.
    pub fn connect(socket: &Path, count: usize, after: Option<u64>) -> Result<Self> {
        let listeners = (0..count).map(|_| Listener::open(socket, after)).collect::<Result<Vec<_>>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let last = Arc::new((AtomicU64::new(u64::MAX), AtomicUsize::new(0)));
        let (until, wanted) = (is_over.clone(), last.clone());
        let reader = thread::spawn(move || listen(listeners, &until, &wanted));
        Ok(Self { count, is_over, last, reader })
    }

    /// Waits until all have heard the last event, for as long as events may take. Returns what each has heard.
    pub fn heard(self, last: u64) -> Result<Vec<Vec<u64>>> {
        self.last.0.store(last, Ordering::SeqCst);
        let began = Instant::now();
        while self.last.1.load(Ordering::SeqCst) < self.count && began.elapsed() < LIMIT {
            thread::sleep(PAUSE);
        }
        self.is_over.store(true, Ordering::SeqCst);
        self.reader.join().map_err(|_| Error::new("the listeners panicked"))
    }
}

fn listen(mut listeners: Vec<Listener>, is_over: &AtomicBool, last: &(AtomicU64, AtomicUsize)) -> Vec<Vec<u64>> {
    while !is_over.load(Ordering::SeqCst) {
        let ready: Vec<bool> = {
            let watched = |listener: &Listener| if listener.is_open { PollFlags::IN } else { PollFlags::empty() };
            let mut polled: Vec<_> = listeners.iter().map(|one| PollFd::new(&one.stream, watched(one))).collect();
            // Interrupted, or nothing came: the next turn looks again.
            let _ = poll(&mut polled, Some(&TICK));
            polled.iter().map(|one| !one.revents().is_empty()).collect()
        };
        listeners.iter_mut().zip(ready).filter(|(one, is_ready)| one.is_open && *is_ready).for_each(|(one, _)| one.read());
        let wanted = last.0.load(Ordering::SeqCst);
        let done = listeners.iter().filter(|one| one.heard.last().is_some_and(|heard| *heard >= wanted)).count();
        last.1.store(done, Ordering::SeqCst);
    }
    listeners.into_iter().map(|listener| listener.heard).collect()
}
