//! The service from its start to its end.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parhelia_store::{Store, lock::ServiceLock, name::Shown as _};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    sync::watch::channel,
};

use crate::{
    api,
    app::{ServiceHost, Shared},
    connection::{self, Listeners},
    listen,
    log::say,
    outbox,
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
    /// The file with the token that is asked for; it is made if there is none.
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

/// Serves until a signal asks it to end. Calls `ready` once programs can connect, with the address for browsers.
pub fn serve(
    store: Store,
    host: Box<ServiceHost>,
    options: Options,
    ready: impl FnOnce(Option<SocketAddr>),
) -> Result<(), Error> {
    let lock = ServiceLock::take(store.path())?.map_err(|holder| Error::Taken { holder })?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(SOCKET_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    let Options { socket, tcp, program, resumes, starter } = options;
    let app = Shared::new(store, host, starter);
    let router = api::router(app.clone());
    let (stop, stopped) = channel(false);
    outbox::background::start(app.clone(), program, stopped.clone()).map_err(Error::Threads)?;
    let watching = watch::start(app, resumes, stopped.clone()).map_err(Error::Threads)?;
    let served = runtime.block_on(async {
        let listeners = listeners(&socket, tcp.as_ref()).await?;
        let ended = ended().map_err(Error::Threads)?;
        ready(listeners.tcp.as_ref().and_then(|(listener, _)| listener.local_addr().ok()));
        let accepting = connection::accept(listeners, router, stopped);
        tokio::pin!(accepting, ended);
        tokio::select! {
            () = &mut accepting => {}
            () = ended => {
                say("the service ends; agents go on");
                let _ = stop.send(true);
                accepting.await;
            }
        }
        listen::remove(&socket);
        Ok(())
    });
    let _ = stop.send(true);
    runtime.shutdown_timeout(GRACE);
    let _ = watching.join();
    drop(lock);
    served
}

/// The places at which it can be connected to.
async fn listeners(socket: &Path, tcp: Option<&Tcp>) -> Result<Listeners, Error> {
    let tcp = match tcp {
        Some(Tcp { address, token: path }) => {
            let token = Token::of_file(path).map_err(|source| Error::Token { path: path.clone(), source })?;
            let listener = TcpListener::bind(address).await;
            Some((listener.map_err(|source| Error::Address { address: *address, source })?, Arc::new(token)))
        }
        None => None,
    };
    Ok(Listeners { socket: listen::bind(socket)?, tcp })
}

/// Waits for a signal that asks the service to end.
fn ended() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
