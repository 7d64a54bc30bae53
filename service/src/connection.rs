//! Connections: how many there are, who is at their other end, and how long they take to say what they want.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
    time,
};

use crate::{
    caller::{self, Peer},
    guard::Door,
    guests::{Guest, Guests},
    log::say,
    timely::Timely,
    tls::Tls,
    token::Token,
};

/// The numbers of connections that are open at a time; those that come then wait.
#[derive(Clone, Copy)]
struct Places {
    socket: usize,
    tcp: usize,
}

/// The places of a service: every user of the machine can connect by TCP, and takes none of those at the socket.
const PLACES: Places = Places { socket: 2048, tcp: 256 };
/// The headers of a request take no longer.
const HEADERS_LIMIT: Duration = Duration::from_secs(10);
/// The same of a client that is not the owner: a connection that asks for nothing is closed within this time.
const STRANGER_LIMIT: Duration = Duration::from_secs(4);
/// They are no longer, in bytes.
const HEADERS_BYTES_MAX: usize = 64 << 10;
/// The pause after a connection that could not be accepted, as where there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// A write makes progress within this time.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// Requests under way at the end are waited for so long.
const GRACE: Duration = Duration::from_secs(10);

/// The places at which connections come.
pub struct Listeners {
    /// The Unix socket, at which the kernel says who connects.
    pub socket: UnixListener,
    /// An address of TCP, at which a token is asked for; none where the service listens at none.
    pub tcp: Option<Tcp>,
}

/// TCP as a place of connections.
pub struct Tcp {
    /// The listening socket.
    pub listener: TcpListener,
    /// The token that is asked for there.
    pub token: Arc<Token>,
    /// TLS, if connections are encrypted.
    pub tls: Option<Tls>,
}

/// One of the places.
enum Listener {
    Socket(UnixListener),
    Tcp(Tcp),
}

/// A connection that was accepted.
struct Connection {
    stream: Box<dyn Stream>,
    door: Door,
    tls: Option<Tls>,
    guest: Option<Guest>,
}

impl Listener {
    /// The next connection; none of one that is gone already, or whose client has too many.
    async fn next(&self, guests: &Guests) -> io::Result<Option<Connection>> {
        match self {
            Listener::Socket(listener) => {
                let (stream, _) = listener.accept().await?;
                let Ok(credentials) = stream.peer_cred() else { return Ok(None) };
                let peer = Peer::of(credentials.uid(), credentials.pid().filter(|process| *process > 0));
                Ok(Some(Connection { stream: Box::new(stream), door: Door::Socket(peer), tls: None, guest: None }))
            }
            Listener::Tcp(Tcp { listener, token, tls }) => {
                let (stream, client) = listener.accept().await?;
                let (Ok(server), Ok(())) = (stream.local_addr(), stream.set_nodelay(true)) else { return Ok(None) };
                let (client, server, token, tls) = (plain(client), plain(server), token.clone(), tls.clone());
                let Some(guest) = guests.let_in(caller::client(client, server)) else { return Ok(None) };
                let door = Door::Tcp { client, server, token, is_encrypted: tls.is_some() };
                Ok(Some(Connection { stream: Box::new(stream), door, tls, guest: Some(guest) }))
            }
        }
    }
}

/// An address as the other end has it: at a socket of IPv6, one of IPv4 looks like one of IPv6.
fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// A connection's bytes.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Accepts connections and serves them, until it is told to stop; then those that have a request under way end with its answer.
pub async fn accept(listeners: Listeners, router: Router, stopped: watch::Receiver<bool>) {
    accept_within(PLACES, listeners, router, stopped).await;
}

async fn accept_within(places: Places, listeners: Listeners, router: Router, stopped: watch::Receiver<bool>) {
    let Listeners { socket, tcp } = listeners;
    let graceful = GracefulShutdown::new();
    let by_socket = accept_at(Listener::Socket(socket), places.socket, &graceful, &router, stopped.clone());
    let by_tcp = async {
        if let Some(tcp) = tcp {
            accept_at(Listener::Tcp(tcp), places.tcp, &graceful, &router, stopped).await;
        }
    };
    tokio::join!(by_socket, by_tcp);
    let _ = time::timeout(GRACE, graceful.shutdown()).await;
}

/// Accepts the connections of one listener, each in a place that is free.
async fn accept_at(
    listener: Listener,
    places: usize,
    graceful: &GracefulShutdown,
    router: &Router,
    mut stopped: watch::Receiver<bool>,
) {
    let (places, guests) = (Arc::new(Semaphore::new(places)), Guests::default());
    let next = async || {
        let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(listener.next(&guests).await?.map(|accepted| (accepted, place)))
    };
    loop {
        let accepted = tokio::select! {
            accepted = next() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let (accepted, place) = match accepted {
            Ok(Some(accepted)) => accepted,
            Ok(None) => continue,
            Err(e) => {
                say(&format!("a connection was not accepted: {e}"));
                time::sleep(PAUSE).await;
                continue;
            }
        };
        let (router, watcher, stopped) = (router.clone(), graceful.watcher(), stopped.clone());
        tokio::spawn(async move {
            serve(accepted, router, watcher, stopped).await;
            drop(place);
        });
    }
}

/// Serves a connection to its end, behind a handshake where there is TLS.
async fn serve(accepted: Connection, router: Router, watcher: Watcher, mut stopped: watch::Receiver<bool>) {
    let Connection { stream, door, tls, guest } = accepted;
    let headers_limit = match &guest {
        Some(guest) if !guest.is_owners() => STRANGER_LIMIT,
        _ => HEADERS_LIMIT,
    };
    let router = router.layer(Extension(door));
    let stream = Timely::new(stream, WRITE_LIMIT);
    let Some(tls) = tls else { return talk(stream, router, watcher, headers_limit).await };
    let shaken = tokio::select! {
        shaken = tls.handshake(stream) => shaken,
        // Nothing was asked for yet, so nothing is waited for.
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    if let Ok(stream) = shaken {
        talk(stream, router, watcher, headers_limit).await;
    }
}

/// Answers the requests of a connection.
async fn talk(stream: impl Stream + 'static, router: Router, watcher: Watcher, headers_limit: Duration) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(headers_limit)
        .max_buf_size(HEADERS_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Whatever goes wrong with a connection is its other end's business.
    let _ = watcher.watch(connection).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpStream, UnixStream},
    };

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Asks over a connection, and leaves it open.
    async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
        stream.write_all(REQUEST).await.unwrap();
        let mut bytes = vec![0; 12];
        stream.read_exact(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn connections_at_one_door_take_no_place_at_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let (token, _own) = Token::of_now(&folder.path().join("token")).unwrap();
        let (path, tcp) = (folder.path().join("socket"), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let (socket, address) = (UnixListener::bind(&path).unwrap(), tcp.local_addr().unwrap());
        let listeners = Listeners { socket, tcp: Some(Tcp { listener: tcp, token: Arc::new(token), tls: None }) };
        let (stop, stopped) = watch::channel(false);
        let router = Router::new().route("/", get(async || "here"));
        let accepting = tokio::spawn(accept_within(Places { socket: 1, tcp: 1 }, listeners, router, stopped));

        let mut by_tcp = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(&mut by_tcp).await, "HTTP/1.1 200");
        let mut by_socket = UnixStream::connect(&path).await.unwrap();
        assert_eq!(ask(&mut by_socket).await, "HTTP/1.1 200");
        let mut second = UnixStream::connect(&path).await.unwrap();
        let waits = time::timeout(Duration::from_millis(100), ask(&mut second));
        assert!(waits.await.is_err(), "there is one place at the socket");
        drop(by_socket);
        let mut bytes = [0; 12];
        second.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"HTTP/1.1 200");
        // A full house hears that it is to stop.
        let _third = UnixStream::connect(&path).await.unwrap();
        stop.send(true).unwrap();
        accepting.await.unwrap();
    }
}
