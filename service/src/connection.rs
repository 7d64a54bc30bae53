//! Connections: how many there are, who is at their other end, and how long they take to say what they want.

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::UnixListener,
    sync::{Semaphore, watch},
    time,
};

use crate::{caller::Peer, log::say};

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

/// Accepts connections and serves them, until it is told to stop; then those that have a request under way end with its answer.
pub async fn accept(listener: UnixListener, router: Router, mut stopped: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(e) => {
                say(&format!("a connection was not accepted: {e}"));
                time::sleep(PAUSE).await;
                continue;
            }
        };
        // One that is gone already.
        let Ok(credentials) = stream.peer_cred() else { continue };
        let peer = Peer::of(credentials.uid(), credentials.pid().filter(|process| *process > 0));
        let service = TowerToHyperService::new(router.clone().layer(Extension(peer)));
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
