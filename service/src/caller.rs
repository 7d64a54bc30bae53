//! The caller of a request as a host of workflows: the person or program at the other end of the connection, as the kernel says.

use std::{
    ffi::OsString,
    io,
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

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    actor: Actor,
    line: Arc<[Identity]>,
    marker: Option<OsString>,
}

impl Peer {
    /// The process at the other end of a Unix socket. It is looked at when it connects, as it may be gone when it is answered.
    pub fn of(uid: u32, process: Option<i32>) -> Self {
        let line = process.map(line_of).unwrap_or_default();
        let variables = line.first().and_then(|identity| identity.variables().ok()).unwrap_or_default();
        let marker = variables.into_iter().find(|(name, _)| name == RUN_MARKER).map(|(_, value)| value);
        let via = if marker.is_some() { Via::Agent } else { Via::Api };
        Peer { actor: person::actor(uid, process, via), line: line.into(), marker }
    }

    /// The number of its user.
    pub fn user(&self) -> Option<u32> {
        self.actor.uid
    }

    /// True if the kernel shows the process, so that it can be told from an agent's.
    pub fn is_visible(&self) -> bool {
        !self.line.is_empty()
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
