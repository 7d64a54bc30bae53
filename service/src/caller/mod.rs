//! The caller of a request as a host of workflows: the person or program at the other end of the connection, as the kernel says.

mod tcp;

use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command},
    sync::Arc,
};

use parhelia_agent::process::{Identity, RUN_MARKER, line_of};
use parhelia_session::{
    host::Host,
    person::{self, Via},
};
use parhelia_store::event::Actor;
use rustix::process::geteuid;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    actor: Actor,
    line: Arc<[Identity]>,
    marker: Option<OsString>,
    /// True if it has shown the token, which no agent is given.
    has_token: bool,
}

impl Peer {
    /// The process at the other end of a Unix socket. It is looked at when it connects, as it may be gone when it is answered.
    pub fn of(uid: u32, process: Option<i32>) -> Self {
        let line = process.map(line_of).unwrap_or_default();
        let variables = line.first().and_then(|identity| identity.variables().ok()).unwrap_or_default();
        let marker = variables.into_iter().find(|(name, _)| name == RUN_MARKER).map(|(_, value)| value);
        let via = if marker.is_some() { Via::Agent } else { Via::Api };
        Peer { actor: person::actor(uid, process, via), line: line.into(), marker, has_token: false }
    }

    /// The process at the other end of a TCP connection of this machine, which has shown the token; of one from elsewhere, as through a tunnel,
    /// the user whose the service is.
    pub fn over_tcp(client: SocketAddr, server: SocketAddr) -> Self {
        let (uid, process) = tcp::owner(client, server).unwrap_or_else(|| (geteuid().as_raw(), None));
        Peer { has_token: true, ..Self::of(uid, process) }
    }

    /// Somebody who only reads, and at whom nobody looks.
    pub fn unknown() -> Self {
        Self::of(geteuid().as_raw(), None)
    }

    /// The number of its user.
    pub fn user(&self) -> Option<u32> {
        self.actor.uid
    }

    /// True if it can be told from an agent: the kernel shows the process, or it has shown the token.
    pub fn is_known(&self) -> bool {
        self.has_token || !self.line.is_empty()
    }
}

/// The service on behalf of a peer.
pub struct Caller<'a> {
    /// The service as a host.
    pub service: &'a dyn Host,
    /// The peer.
    pub peer: Peer,
}

impl Host for Caller<'_> {
    fn variable(&self, name: &str) -> Option<OsString> {
        if name == RUN_MARKER { self.peer.marker.clone() } else { self.service.variable(name) }
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.service.variables()
    }

    fn actor(&self) -> Actor {
        self.peer.actor.clone()
    }

    fn line(&self) -> Vec<Identity> {
        self.peer.line.to_vec()
    }

    fn named_config(&self) -> Option<PathBuf> {
        self.service.named_config()
    }

    fn program(&self) -> io::Result<PathBuf> {
        self.service.program()
    }

    fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
        self.service.start_agent(command)
    }

    fn with_own_limits(&self, work: &mut dyn FnMut()) {
        self.service.with_own_limits(work);
    }

    fn by_umask(&self, work: &mut dyn FnMut()) {
        self.service.by_umask(work);
    }
}
