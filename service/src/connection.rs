//! Connections: how many there are, who is at their other end, and how long they take to say what they want.

use std::{future::pending, io, sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper::server::conn::http1;

use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
    time,
};

use crate::{caller::Peer, guard::Door, log::say, token::Token};

/// So many connections are open at a time; those that come then wait.
const CONNECTIONS_MAX: usize = 2048;
/// The headers of a request take no longer.
const HEADERS_LIMIT: Duration = Duration::from_secs(10);
/// They are no longer, in bytes.
const HEADERS_BYTES_MAX: usize = 64 << 10;
/// The pause after a connection that could not be accepted, as where there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests under way at the end are waited for so long.
const GRACE: Duration = Duration::from_secs(10);

/// The places at which connections come.
pub struct Listeners {
    /// The socket.
    pub socket: UnixListener,
    /// TCP, with the token that is asked for there.
    pub tcp: Option<(TcpListener, Arc<Token>)>,
}

impl Listeners {
    /// The next connection; none of one that is gone already.
    async fn next(&self) -> io::Result<Option<(Box<dyn Stream>, Door)>> {
        let by_tcp = async {
            match &self.tcp {
                Some((listener, token)) => (listener.accept().await, token),
                None => pending().await,
            }
        };
        tokio::select! {
            accepted = self.socket.accept() => {
                let (stream, _) = accepted?;
                let Ok(credentials) = stream.peer_cred() else { return Ok(None) };
                let peer = Peer::of(credentials.uid(), credentials.pid().filter(|process| *process > 0));
                Ok(Some((Box::new(stream), Door::Socket(peer))))
            }
            (accepted, token) = by_tcp => {
                let (stream, client) = accepted?;
                let (Ok(server), Ok(())) = (stream.local_addr(), stream.set_nodelay(true)) else { return Ok(None) };
                Ok(Some((Box::new(stream), Door::Tcp { client, server, token: token.clone() })))
            }
        }
    }
}

/// A connection's bytes.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Accepts connections and serves them, until it is told to stop; then those that have a request under way end with its answer.
pub async fn accept(listeners: Listeners, router: Router, mut stopped: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listeners.next() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let (stream, door) = match accepted {
            Ok(Some(accepted)) => accepted,
            Ok(None) => continue,
            Err(e) => {
                say(&format!("a connection was not accepted: {e}"));
                time::sleep(PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone().layer(Extension(door)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_LIMIT)
            .max_buf_size(HEADERS_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Whatever goes wrong with a connection is its other end's business.
            let _ = connection.await;
            drop(place);
        });
    }
    let _ = time::timeout(GRACE, graceful.shutdown()).await;
}
