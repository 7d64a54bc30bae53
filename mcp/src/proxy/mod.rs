//! The proxy: stands between an agent and a server over standard streams, and passes on what each says to the other, byte for byte. A
//! checkpoint asks it for the server's state (`asked`), and when it starts it gives the server a state that waits for it (`given`).
//!
//! Messages are lines of JSON (MCP, *Transports*, stdio). Requests of ours go between two lines of the agent's; their answers are known by
//! ids that nobody else makes, and go no further. While none is under way, nothing is read but the ends of lines.

mod agents;
mod asked;
mod given;
mod hello;
mod ours;
mod servers;

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    thread,
};

use parhelia_life::mcp::live::{self, GivenBack};
use parhelia_store::name::printable;
use rustix::process::{Pid, Signal, kill_process};

use hello::Hello;
use ours::Ours;

/// A server that a proxy is to stand before.
#[derive(Clone, Debug)]
pub struct ProxyTarget {
    /// Its name in the agent's configuration.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The store in which checkpoints are made; none where it is not known.
    pub store: Option<PathBuf>,
    /// The session, where the environment tells.
    pub session: Option<String>,
    /// The longest state, in bytes.
    pub state_bytes_max: u64,
}

/// The server, as the proxy's threads share it.
struct Server {
    proxied: ProxyTarget,
    /// Writes to the server; one message at a time.
    input: Mutex<Input>,
    ours: Ours,
    /// The beginning of the conversation between agent and server.
    hello: Mutex<Hello>,
    /// The thread that gives back the state that waited.
    giving: Mutex<Option<thread::JoinHandle<()>>>,
    /// The outcome of giving back the state that waited.
    given_back: Mutex<Option<GivenBack>>,
    /// Held by who asks for the state.
    asking: Mutex<()>,
    /// True once the last state was asked for.
    is_over: AtomicBool,
}

/// The way to the server.
struct Input {
    /// None once the agent has said all it has to say.
    pipe: Option<ChildStdin>,
    /// Requests of the agent that wait until the server has its state.
    held: Option<Vec<Vec<u8>>>,
}

impl Input {
    /// Writes a line to the server.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the agent has ended");
        self.pipe.as_mut().ok_or_else(closed)?.write_all(line)
    }
}

/// Runs a server until it ends, and returns the exit code that says how. Agent and server talk over the standard streams of this process.
/// `start` starts a program that is not ours.
pub fn run(proxied: ProxyTarget, start: impl FnOnce(&mut Command) -> io::Result<Child>) -> io::Result<u8> {
    let (program, arguments) = proxied.command.split_first().ok_or_else(|| io::Error::other("no program is named"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = start(&mut command)?;
    let (pipe, output) = (child.stdin.take(), child.stdout.take().ok_or_else(|| io::Error::other("the server has no output"))?);
    let waiting = given::waiting(&proxied);
    let server = Arc::new(Server {
        proxied,
        input: Mutex::new(Input { pipe, held: None }),
        ours: Ours::new(),
        hello: Mutex::new(Hello::default()),
        giving: Mutex::new(None),
        given_back: Mutex::new(None),
        asking: Mutex::default(),
        is_over: AtomicBool::new(false),
    });
    pass_signals(server.clone(), &child)?;
    // Whoever cannot be asked passes on all the same.
    let listening = server.proxied.store.as_deref().map(live::listen);
    let listening =
        listening.and_then(|listening| listening.map_err(|e| server.note(&format!("no checkpoint can ask it: {e}"))).ok());
    if let Some(listener) = listening.as_ref().and_then(|listening| listening.listener.try_clone().ok()) {
        let server = server.clone();
        thread::Builder::new().name("asked".into()).spawn(move || asked::answer(&server, &listener))?;
    }
    let to_server = server.clone();
    thread::Builder::new().name("agent".into()).spawn(move || agents::pass(&to_server, waiting))?;
    servers::pass(&server, output);
    server.ours.give_up();
    let status = child.wait()?;
    drop(listening);
    // What became of its state is told before the process ends.
    if let Some(giving) = locked(&server.giving).take() {
        let _ = giving.join();
    }
    // Whoever is being answered hears that it has ended.
    drop(locked(&server.asking));
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Signals that end a program reach the server, which decides. It is asked for its last state before.
fn pass_signals(server: Arc<Server>, child: &Child) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return Ok(()) };
    thread::Builder::new().name("signals".into()).spawn(move || {
        for number in signals.forever() {
            asked::keep_last(&server);
            if let Some(signal) = Signal::from_named_raw(number) {
                let _ = kill_process(process, signal);
            }
        }
    })?;
    Ok(())
}

impl Server {
    /// Says something to people: servers' standard error is what agents keep as their log.
    fn note(&self, text: &str) {
        // Nobody may read it.
        let text = format!("{}: {text}", self.proxied.name);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(io::stderr(), "parhelia mcp-proxy: {}", printable(&text));
    }
}

/// The value that a lock guards. A thread that panicked with it has left a whole message.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
