//! The service from its start to its end.

use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parhelia_store::{Store, lock::ServiceLock, name::Shown as _};
use tokio::{net::TcpListener, runtime::Builder, sync::watch::channel};

use crate::{
    api,
    app::{ServiceHost, Shared},
    connection::{self, Listeners},
    listen,
    log::say,
    outbox,
    own::OwnFile,
    signals::Signals,
    start::Starter,
    token::Token,
    watch,
};

/// Threads that wait for sockets.
const SOCKET_THREADS: usize = 2;
/// Threads that may block, in reading and in work.
const BLOCKING_THREADS_MAX: usize = 64;

/// Work that is under way at the end is waited for so long.
const GRACE: Duration = Duration::from_secs(10);

/// A place for browsers, and for programs that cannot connect to a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// A loopback address; port 0 stands for a free one.
    pub address: SocketAddr,
    /// The file with the token that is asked for, which is made if there is none; without one, each start has a new token, in a file beside
    /// the socket.
    pub token: Option<PathBuf>,
}

/// The page, as browsers come to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its address.
    pub address: SocketAddr,
    /// The file with the token that it asks for.
    pub token: PathBuf,
}

/// Options of a service.
pub struct Options {
    /// The socket.
    pub socket: PathBuf,
    /// A place for browsers beside it.
    pub tcp: Option<Tcp>,
    /// The first words of commands for this store, as people are told them.
    pub program: String,
    /// True if sessions whose agents died go on by themselves.
    pub resumes: bool,
    /// Starts agents.
    pub starter: Box<Starter>,
}

/// An error of the service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another service has the store.
    #[error("this store has a service already: {holder}; stop that one first")]
    Taken {
        /// The process that has it.
        holder: String,
    },
    /// The store said so.
    #[error(transparent)]
    Store(#[from] parhelia_store::Error),
    /// A socket cannot be used.
    #[error("cannot {action} {}: {source}", path.shown())]
    Socket {
        /// The action that failed, as an infinitive.
        action: &'static str,
        /// The socket, or its folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// A token cannot be used.
    #[error("cannot use the token {}: {source}", path.shown())]
    Token {
        /// Its file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The threads of the service cannot be started.
    #[error("cannot start the service's threads: {0}")]
    Threads(#[source] io::Error),
}

/// Serves until a signal asks it to end; a second signal ends it at once. Calls `ready` once programs can connect, with the page where it has one.
pub fn serve(store: Store, host: Box<ServiceHost>, options: Options, ready: impl FnOnce(Option<&Page>)) -> Result<(), Error> {
    let lock = ServiceLock::take(store.path())?.map_err(|holder| Error::Taken { holder })?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(SOCKET_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    let mut signals = Signals::new().map_err(Error::Threads)?;
    let Options { socket, tcp, program, resumes, starter } = options;
    let app = Shared::new(store, host, starter);
    let router = api::router(app.clone());
    let (stop, stopped) = channel(false);
    outbox::background::start(app.clone(), program, stopped.clone()).map_err(Error::Threads)?;
    let watching = watch::start(app, resumes, stopped.clone()).map_err(Error::Threads)?;
    let served = runtime.block_on(open(&socket, tcp.as_ref())).map(|Doors { listeners, page, own }| {
        ready(page.as_ref());
        let accepting = runtime.spawn(connection::accept(listeners, router, stopped));
        signals.wait();
        // Nobody is to come any more.
        drop(own);
        say("the service ends; agents go on");
        accepting
    });
    let _ = stop.send(true);
    let (accepting, served) = match served {
        Ok(accepting) => (Some(accepting), Ok(())),
        Err(e) => (None, Err(e)),
    };
    let has_ended = signals.wait_for(move || {
        if let Some(accepting) = accepting {
            let _ = runtime.block_on(accepting);
        }
        runtime.shutdown_timeout(GRACE);
        let _ = watching.join();
    });
    if !has_ended {
        say("the service ends at once; requests under way are cut off");
    }
    drop(lock);
    served
}

/// The places at which it can be connected to.
struct Doors {
    listeners: Listeners,
    page: Option<Page>,
    /// Files that go with the service.
    own: Vec<OwnFile>,
}

async fn open(socket: &Path, tcp: Option<&Tcp>) -> Result<Doors, Error> {
    let (listener, own) = listen::bind(socket).await?;
    let mut doors = Doors { listeners: Listeners { socket: listener, tcp: None }, page: None, own: vec![own] };
    let Some(Tcp { address, token: named }) = tcp else { return Ok(doors) };
    let failed = |source| Error::Address { address: *address, source };
    let listener = match TcpListener::bind(address).await {
        // It may be another user's, who is not to keep the service from its work.
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            say(&format!(
                "there is no page: another program listens at {address}; choose another address with --listen, or a free port with --listen 127.0.0.1:0"
            ));
            return Ok(doors);
        }
        listener => listener.map_err(failed)?,
    };
    let address = listener.local_addr().map_err(failed)?;
    let path = named.clone().unwrap_or_else(|| token_path(socket));
    let token = match named {
        Some(path) => Token::of_file(path),
        None => Token::of_now(&path).map(|(token, file)| {
            doors.own.push(file);
            token
        }),
    };
    let token = token.map_err(|source| Error::Token { path: path.clone(), source })?;
    doors.listeners.tcp = Some((listener, Arc::new(token)));
    doors.page = Some(Page { address, token: path });
    Ok(doors)
}

/// The file of a token beside a socket.
fn token_path(socket: &Path) -> PathBuf {
    let path = socket.with_extension("token");
    if path != socket {
        return path;
    }
    let mut name = OsString::from(socket);
    name.push(".token");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_stands_beside_the_socket_and_never_in_its_place() {
        for (socket, token) in
            [("/run/a.sock", "/run/a.token"), ("/run/a", "/run/a.token"), ("/run/a.token", "/run/a.token.token")]
        {
            assert_eq!(token_path(Path::new(socket)), Path::new(token));
        }
    }

    #[tokio::test]
    async fn an_address_that_is_taken_leaves_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s.sock");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = Tcp { address: taken.local_addr().unwrap(), token: None };
        let doors = open(&socket, Some(&tcp)).await.unwrap();
        assert!(doors.listeners.tcp.is_none() && doors.page.is_none());
        assert!(socket.exists() && !folder.path().join("s.token").exists());
        drop((doors, taken));
        let doors = open(&socket, Some(&tcp)).await.unwrap();
        assert_eq!(doors.page, Some(Page { address: tcp.address, token: folder.path().join("s.token") }));
        drop(doors);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
