//! The places at which the service can be connected to: its socket, and an address of TCP, each of its own or passed by systemd.

use parhelia_store::name::step::Step;
use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    net::{self, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::net::{TcpListener, UnixListener};

use crate::{
    activation::PassedSocket,
    connection::{self, Listeners},
    error::Error,
    listen,
    log::say,
    own::OwnFile,
    tls::{CertificateFiles, Tls},
    token::Token,
};

/// The socket of a service.
#[derive(Debug)]
pub enum Socket {
    /// One that the service makes at a path, and removes at its end.
    At(PathBuf),
    /// One that systemd has made, and removes.
    Passed(PassedSocket),
}

impl Socket {
    /// Path of the socket's file.
    pub fn path(&self) -> &Path {
        match self {
            Socket::At(path) => path,
            Socket::Passed(passed) => &passed.path,
        }
    }
}

/// The address of a service.
#[derive(Debug)]
pub enum Address {
    /// One that the service listens at; port 0 stands for a free one.
    Of(SocketAddr),
    /// A socket that systemd has made.
    Passed(net::TcpListener),
}

/// A place for browsers, and for programs that cannot connect to a Unix socket.
#[derive(Debug)]
pub struct Tcp {
    /// The address: one of this machine alone, unless there is a certificate.
    pub address: Address,
    /// The file with the token that is asked for, which is made if there is none; without one, each start has a new token, in a file beside
    /// the socket.
    pub token: Option<PathBuf>,
    /// The certificate; without one, connections are not encrypted.
    pub certificate: Option<CertificateFiles>,
}

impl Tcp {
    /// Fails if other machines could connect without TLS.
    pub fn ensure_protected(&self) -> Result<(), Error> {
        let address = match &self.address {
            Address::Of(address) => *address,
            Address::Passed(listener) => listener.local_addr().map_err(unnamed)?,
        };
        if self.certificate.is_none() && !address.ip().is_loopback() {
            return Err(Error::Unprotected { address });
        }
        Ok(())
    }

    /// Its TLS, with the certificate as it is now.
    pub fn protected(&self) -> Result<Option<Tls>, Error> {
        self.ensure_protected()?;
        self.certificate.as_ref().map(Tls::of_files).transpose()
    }
}

/// The page, as browsers come to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// URL with scheme, address and port, such as `http://127.0.0.1:8123/`.
    pub url: String,
    /// The file with the token that it asks for.
    pub token: PathBuf,
}

/// The places, open.
pub struct Doors {
    /// The places at which connections come.
    pub listeners: Listeners,
    /// The page, where there is one.
    pub page: Option<Page>,
    /// Files that go with the service.
    pub own: Vec<OwnFile>,
}

/// Begins to listen at the socket and the address, and makes the token's file where none is named.
pub async fn open(socket: Socket, tcp: Option<Tcp>, tls: Option<Tls>) -> Result<Doors, Error> {
    let path = socket.path().to_owned();
    let (listener, mut own) = match socket {
        Socket::At(path) => listen::bind(&path).await.map(|(listener, own)| (listener, vec![own]))?,
        Socket::Passed(PassedSocket { listener, path }) => (passed(listener, path)?, Vec::new()),
    };
    let mut listeners = Listeners { socket: listener, tcp: None };
    let Some(Tcp { address, token: named, .. }) = tcp else { return Ok(Doors { listeners, page: None, own }) };
    let Some(listener) = listen_at(address).await? else { return Ok(Doors { listeners, page: None, own }) };
    let address = listener.local_addr().map_err(unnamed)?;
    let is_named = named.is_some();
    let path = named.unwrap_or_else(|| token_path(&path));
    let token = match is_named {
        true => Token::of_file(&path),
        false => Token::of_now(&path).map(|(token, file)| {
            own.push(file);
            token
        }),
    };
    let token = Arc::new(token.map_err(|source| Error::Token { path: path.clone(), source })?);
    let scheme = if tls.is_some() { "https" } else { "http" };
    listeners.tcp = Some(connection::Tcp { listener, token, tls });
    Ok(Doors { listeners, page: Some(Page { url: format!("{scheme}://{address}/"), token: path }), own })
}

/// A socket that was passed.
fn passed(listener: std::os::unix::net::UnixListener, path: PathBuf) -> Result<UnixListener, Error> {
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    listener.map_err(|source| Error::Socket { action: "listen at", path, source })
}

/// A listener at an address; none where another program has it.
async fn listen_at(address: Address) -> Result<Option<TcpListener>, Error> {
    let address = match address {
        Address::Of(address) => address,
        Address::Passed(listener) => {
            let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
            return listener.map(Some).map_err(unnamed);
        }
    };
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        // It may be another user's, who is not to keep the service from its work.
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            say(&format!(
                "there is no page: another program listens at {address}; choose another address with {listen}, or a free port with {listen} 127.0.0.1:0",
                listen = Step::Listen
            ));
            Ok(None)
        }
        Err(source) => Err(Error::Address { address, source }),
    }
}

/// The error of a socket whose address is not known.
fn unnamed(source: io::Error) -> Error {
    Error::Address { address: SocketAddr::from(([0; 4], 0)), source }
}

/// The file of a token beside a socket.
pub fn token_path(socket: &Path) -> PathBuf {
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

    #[test]
    fn addresses_of_other_machines_need_a_certificate() {
        let files = CertificateFiles { certificate: "cert.pem".into(), key: "key.pem".into() };
        let is_protected = |address: &str, certificate: Option<&CertificateFiles>| {
            let address = Address::Of(address.parse().unwrap());
            Tcp { address, token: None, certificate: certificate.cloned() }.ensure_protected().is_ok()
        };
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert!(is_protected(address, None), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1", "[fe80::1]:1"] {
            assert!(!is_protected(address, None) && is_protected(address, Some(&files)), "{address}");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_taken_leaves_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s.sock");
        let taken = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let open = || {
            let tcp = Tcp { address: Address::Of(address), token: None, certificate: None };
            open(Socket::At(socket.clone()), Some(tcp), None)
        };
        let doors = open().await.unwrap();
        assert!(doors.listeners.tcp.is_none() && doors.page.is_none());
        assert!(socket.exists() && !folder.path().join("s.token").exists());
        drop((doors, taken));
        let doors = open().await.unwrap();
        assert_eq!(doors.page, Some(Page { url: format!("http://{address}/"), token: folder.path().join("s.token") }));
        drop(doors);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
