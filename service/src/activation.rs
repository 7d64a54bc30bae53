//! Listening sockets that systemd has opened for this process (socket activation, sd_listen_fds(3)).

use std::{
    env,
    net::TcpListener,
    os::{
        fd::AsFd,
        unix::{fs::MetadataExt, net::UnixListener},
    },
    path::PathBuf,
    process,
};

use listenfd::ListenFd;
use parhelia_store::name::NameExt as _;
use rustix::{net::sockopt::socket_acceptconn, process::geteuid};

use crate::error::Error;

/// The number of the first file descriptor that is passed.
const FIRST: usize = 3;
/// A Unix socket and one of TCP.
const SOCKETS_MAX: usize = 2;

/// A Unix socket whose file belongs to somebody else, who removes it.
#[derive(Debug)]
pub struct PassedSocket {
    /// The socket.
    pub listener: UnixListener,
    /// Its file.
    pub path: PathBuf,
}

/// The sockets that were passed.
#[derive(Debug, Default)]
pub struct PassedSockets {
    /// The Unix socket, with its path; none where systemd passed none.
    pub socket: Option<PassedSocket>,
    /// A socket of TCP.
    pub tcp: Option<TcpListener>,
}

impl PassedSockets {
    /// Takes the sockets that were passed to this process. The variables that say so are removed, as programs that are started later are not
    /// meant: nobody may read the environment meanwhile, so this comes before there are threads.
    pub fn take() -> Result<Self, Error> {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
        // `ListenFd` also believes a number of sockets without a process.
        let is_meant = number("LISTEN_PID") == usize::try_from(process::id()).ok();
        if is_meant && number("LISTEN_FDS").is_some_and(|count| count > SOCKETS_MAX) {
            return Err(refused(FIRST + SOCKETS_MAX, "it is one too many".into(), MOST));
        }
        let mut given = ListenFd::from_env();
        let mut passed = PassedSockets::default();
        for index in 0..if is_meant { given.len() } else { 0 } {
            passed.take_one(&mut given, index)?;
        }
        Ok(passed)
    }

    fn take_one(&mut self, given: &mut ListenFd, index: usize) -> Result<(), Error> {
        let number = FIRST + index;
        let is_second = if let Ok(Some(listener)) = given.take_unix_listener(index) {
            ensure_listening(number, &listener)?;
            let path = own_path(number, &listener)?;
            self.socket.replace(PassedSocket { listener, path }).is_some()
        } else if let Ok(Some(listener)) = given.take_tcp_listener(index) {
            ensure_listening(number, &listener)?;
            self.tcp.replace(listener).is_some()
        } else {
            return Err(refused(number, "it is neither a stream socket of Unix nor one of TCP".into(), STREAM));
        };
        if is_second { Err(refused(number, "it is the second one of its kind".into(), MOST)) } else { Ok(()) }
    }
}

/// The next steps.
const MOST: &str = "Name at most one path and one address with ListenStream= in the socket unit";
const STREAM: &str = "Name paths and addresses with ListenStream= in the socket unit, and leave Accept= at no";
const MODE: &str = "Set SocketMode=0600 in the socket unit, and start that again";

fn refused(number: usize, why: String, next: &'static str) -> Error {
    Error::Passed { number, why, next }
}

/// Fails for a connection, and for a socket that was never told to listen.
fn ensure_listening(number: usize, socket: &impl AsFd) -> Result<(), Error> {
    match socket_acceptconn(socket) {
        Ok(true) => Ok(()),
        _ => Err(refused(number, "it does not listen".into(), STREAM)),
    }
}

/// The file of a socket, to which this user alone may connect: who may connect is who may use the store.
fn own_path(number: usize, listener: &UnixListener) -> Result<PathBuf, Error> {
    let failed = |why: String| refused(number, why, MODE);
    let address = listener.local_addr().map_err(|e| failed(e.to_string()))?;
    let Some(path) = address.as_pathname() else {
        return Err(refused(
            number,
            "it has no file, so every user can connect".into(),
            "Name an absolute path with ListenStream= in the socket unit",
        ));
    };
    let found = path.symlink_metadata().map_err(|e| failed(format!("cannot look at {}: {e}", path.shown())))?;
    let is_own = [0, geteuid().as_raw()].contains(&found.uid());
    // Connecting takes the right to write.
    if found.mode() & 0o022 != 0 || !is_own {
        return Err(failed(format!("other users can connect to {}", path.shown())));
    }
    Ok(path.to_owned())
}
