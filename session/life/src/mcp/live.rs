//! The proxies before live MCP servers. Each listens on a socket in the store's folder `mcp/live/` that is named after its process, and
//! answers one question for each connection. Question and answer are a line of JSON each.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::process::command_of;
use parhelia_host::mcp::StateReply;
use parhelia_store::files::Folder;
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};

/// The resource by which a server hands out its state.
pub const RESOURCE: &str = "checkpoint://state";
/// The tool by which a server takes its state back.
pub const TOOL: &str = "restore_checkpoint";
/// The argument of that tool.
pub const ARGUMENT: &str = "state";

/// An answer is this much longer than the state in it at most, in bytes: JSON writes a byte as six at worst.
const ESCAPED: u64 = 6;
/// Beside the state, in bytes.
const REST_BYTES_MAX: u64 = 64 << 10;
/// A proxy has this much longer to answer than it has to ask.
const MARGIN: Duration = Duration::from_secs(1);

/// A question to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The time that the server has, in milliseconds.
    pub limit_ms: u64,
    /// The longest state, in bytes.
    pub bytes_max: u64,
}

/// The answer of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The server's name in the agent's configuration.
    pub name: String,
    /// The outcome of giving it a state back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<GivenBack>,
    /// The state.
    #[serde(flatten)]
    pub told: StateReply,
}

/// The outcome of giving a server a state back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// The checkpoint that it was from.
    pub checkpoint: String,
    /// The reason why the server did not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A proxy that stands before a live server, found by its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its process id, after which the socket is named.
    pub process: i32,
    store: PathBuf,
}

/// The place of a proxy that listens. It goes with this.
#[derive(Debug)]
pub struct ProxyListener {
    /// Accepts connections.
    pub listener: UnixListener,
    folder: Folder,
    name: String,
}

impl Drop for ProxyListener {
    fn drop(&mut self) {
        let _ = self.folder.remove(OsStr::new(&self.name));
    }
}

/// The folder of the sockets in a store's.
const FOLDER: &str = "mcp/live";

/// Listens as the proxy that this process is.
pub fn listen(store: &Path) -> io::Result<ProxyListener> {
    let folder = Folder::made_inside(store, FOLDER)?;
    let name = std::process::id().to_string();
    // One of a process that had the same number.
    let _ = folder.remove(OsStr::new(&name));
    let listener = UnixListener::bind(short(&folder.listable()?, &name))?;
    Ok(ProxyListener { listener, folder, name })
}

/// Removes a socket on which nobody listens. A process in another namespace is not seen from here, and listens all the same.
fn remove_dead(folder: &Folder, process: i32) {
    let name = process.to_string();
    let connected = folder.listable().and_then(|opened| UnixStream::connect(short(&opened, &name)));
    if connected.is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
        let _ = folder.remove(OsStr::new(&name));
    }
}

/// The proxies among some processes, in their order. Sockets of dead ones are removed.
pub fn proxies(store: &Path, is_one: &dyn Fn(i32) -> bool) -> Vec<Proxy> {
    let Ok(folder) = Folder::inside(store, FOLDER) else { return Vec::new() };
    let names = folder.names().unwrap_or_default();
    let processes = names.iter().filter_map(|name| std::str::from_utf8(name).ok()?.parse::<i32>().ok());
    let mut found: Vec<i32> = processes.collect();
    found.retain(|process| {
        let lives = Path::new("/proc").join(process.to_string()).exists();
        if !lives {
            remove_dead(&folder, *process);
        }
        lives && is_one(*process)
    });
    found.sort_unstable();
    found.into_iter().map(|process| Proxy { process, store: store.to_owned() }).collect()
}

impl Proxy {
    /// The server's name, by the proxy's command line.
    pub fn name(&self) -> Option<String> {
        let words = command_of(self.process).into_iter().map(|word| word.to_string_lossy().into_owned());
        let own: Vec<String> = words.take_while(|word| word != "--").collect();
        let behind = own.iter().position(|word| word == "--name").and_then(|at| own.get(at + 1));
        behind.map(String::as_str).or_else(|| own.iter().find_map(|word| word.strip_prefix("--name="))).map(str::to_owned)
    }

    /// Asks it. Fails where it does not answer, or is another process than its name says.
    pub fn ask(&self, question: Question) -> io::Result<Answer> {
        let opened = Folder::inside(&self.store, FOLDER)?.listable()?;
        let mut stream = UnixStream::connect(short(&opened, &self.process.to_string()))?;
        if socket_peercred(&stream)?.pid.as_raw_nonzero().get() != self.process {
            return Err(io::Error::other("another process has taken its place"));
        }
        let limit = Duration::from_millis(question.limit_ms) + MARGIN;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        write_line(&mut stream, &question)?;
        let most = question.bytes_max.saturating_mul(ESCAPED).saturating_add(REST_BYTES_MAX);
        read_line(&stream, most)
    }
}

/// A path in an open folder that fits a socket's address, however long the folder's own path is.
fn short(folder: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
}

/// Reads a line of JSON.
pub fn read_line<T: for<'de> Deserialize<'de>>(stream: &UnixStream, bytes_max: u64) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(bytes_max.saturating_add(1))).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "it ended in the middle of a line, or that was too long"));
    }
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// Writes a line of JSON.
pub fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}
