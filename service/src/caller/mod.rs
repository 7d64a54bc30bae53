//! The caller of a request as a host of workflows: the person or program at the other end of the connection, as the kernel says.

mod tcp;

use std::{
    ffi::OsString,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::{Child, Command},
    sync::Arc,
};

use parhelia_agent::process::{Identity, RUN_MARKER, line_of};
use parhelia_host::{
    Host,
    config::Call,
    person::{self, Via},
    run::has_agent_among,
};
use parhelia_ledger::LedgerView as _;

use parhelia_store::{Store, event::Actor, view::View};
use rustix::process::geteuid;

use crate::guests::Client;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    actor: Actor,
    line: Arc<[Identity]>,
    marker: Option<OsString>,
    /// True if an agent is among the processes that it descends from.
    is_below: bool,
    /// True if it is a process of this machine that nothing shows: one that has ended, or whose connection nobody has open.
    is_unseen: bool,
}

/// The client of a TCP connection that has said nothing yet.
pub fn client(client: SocketAddr, server: SocketAddr) -> Client {
    if !client.ip().is_loopback() && client.ip() != server.ip() {
        return Client::of_machine(client.ip());
    }
    match tcp::user(client, server) {
        Some(user) if user == 0 || user == geteuid().as_raw() => Client::Owner,
        user => Client::User(user),
    }
}

impl Peer {
    /// The process at the other end of a Unix socket. It is looked at when it connects, as it may be gone when it is answered.
    pub fn of(uid: u32, process: Option<i32>) -> Self {
        let line = process.map(line_of).unwrap_or_default();
        let marker = marker_of(&line, &|identity| identity.variables());
        let is_below = has_agent_among(&line);
        let via = if is_below { Via::Agent } else { Via::Api };
        let is_unseen = process.is_some() && line.is_empty();
        Peer { actor: person::actor(uid, process, via), line: line.into(), marker, is_below, is_unseen }
    }

    /// The process at the other end of a TCP connection, which has shown the token. If it is one of this machine, and nobody has it open any
    /// more, it is taken for the user's whose the service is, and may be an agent.
    pub fn over_tcp(client: SocketAddr, server: SocketAddr) -> Self {
        let found = match tcp::owner(client, server) {
            Some((uid, process)) => Self::of(uid, process),
            None if client.ip().is_loopback() || client.ip() == server.ip() => Self::unknown(),
            None => return Self::elsewhere(client.ip()),
        };
        Peer { is_unseen: !found.is_known(), ..found }
    }

    /// Somebody on another machine, of whom its address alone is known.
    fn elsewhere(address: IpAddr) -> Self {
        let actor = Actor { user: Some(address.to_string()), ..Actor::program(Via::Api.name()) };
        Peer { actor, line: Arc::default(), marker: None, is_below: false, is_unseen: false }
    }

    /// Somebody at whom nobody looks, or who cannot be seen.
    pub fn unknown() -> Self {
        Self::of(geteuid().as_raw(), None)
    }

    /// The number of its user.
    pub fn user(&self) -> Option<u32> {
        self.actor.uid
    }

    /// The marker of a run that it bears.
    pub fn marker(&self) -> Option<&OsString> {
        self.marker.as_ref()
    }

    /// True if it can be told from an agent: the kernel shows the process.
    pub fn is_known(&self) -> bool {
        !self.line.is_empty()
    }
}

/// The environment of a process.
type Variables = Vec<(OsString, OsString)>;

/// The marker of the run that a process belongs to. If its variables cannot be read, as those of another user's, that of any process that it
/// descends from.
fn marker_of(line: &[Identity], variables: &dyn Fn(&Identity) -> io::Result<Variables>) -> Option<OsString> {
    let marker = |found: Variables| found.into_iter().find(|(name, _)| name == RUN_MARKER).map(|(_, value)| value);
    let (first, ancestors) = line.split_first()?;
    match variables(first) {
        Ok(found) => marker(found),
        Err(_) => ancestors.iter().find_map(|ancestor| marker(variables(ancestor).ok()?)),
    }
}

/// The service on behalf of a peer.
pub struct Caller<'a> {
    /// The service as a host.
    pub service: &'a dyn Host,
    /// The store that the service serves.
    pub store: &'a Store,
    /// The process at the other end, as the kernel says.
    pub peer: Peer,
}

impl Caller<'_> {
    /// True if it bears the marker of a run that is open in the service's store. A shell that was begun by an agent keeps the marker when the run is
    /// long over, and is a person's by then.
    fn bears_marker(&self) -> bool {
        let Some(id) = self.peer.marker.as_ref().and_then(|id| id.to_str()) else { return false };
        let is_open = |view: &View| view.run(id).is_ok_and(|run| run.is_some_and(|run| run.is_open()));
        self.store.refresh().map_or_else(|_| is_open(&self.store.view()), |view| is_open(&view))
    }
}

impl Host for Caller<'_> {
    fn behind(&self) -> Option<&dyn Host> {
        Some(self.service)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        if name == RUN_MARKER { self.peer.marker.clone() } else { self.service.variable(name) }
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.service.variables()
    }

    fn actor(&self) -> Actor {
        let actor = self.peer.actor.clone();
        if self.bears_marker() { Actor { via: Via::Agent.name().into(), ..actor } } else { actor }
    }

    fn line(&self) -> Vec<Identity> {
        self.peer.line.to_vec()
    }

    fn is_by_api(&self) -> bool {
        true
    }

    fn call(&self) -> Call {
        let Peer { is_below, is_unseen, .. } = self.peer;
        Call { is_agents: is_below || self.bears_marker(), is_below, is_unseen, ..Call::default() }
    }

    fn program(&self) -> io::Result<PathBuf> {
        self.service.program()
    }

    fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
        self.service.start_agent(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_on_another_machine_is_no_user_of_this_one() {
        let peer = Peer::over_tcp("192.0.2.7:4000".parse().unwrap(), "192.0.2.1:443".parse().unwrap());
        assert_eq!((peer.user(), peer.is_known(), peer.marker), (None, false, None));
        assert_eq!((peer.actor.user.as_deref(), peer.actor.via.as_str()), (Some("192.0.2.7"), "api"));
        let gone = Peer::over_tcp("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        assert_eq!((gone.user(), gone.is_known(), gone.is_unseen), (Peer::unknown().user(), false, true));
        assert!(!peer.is_unseen && !Peer::unknown().is_unseen, "nobody looks at who only reads");
        let me = std::process::id() as i32;
        assert!(!Peer::of(0, Some(me)).is_unseen && Peer::of(0, Some(i32::MAX)).is_unseen, "one that has ended");
    }

    #[test]
    fn the_marker_of_an_unreadable_process_is_that_of_its_ancestors() {
        let identity = |process| Identity { process, start_time: 1, boot_id: "boot".into(), pid_namespace: None };
        let line = [identity(3), identity(2), identity(1)];
        let found = |readable: &[(i32, Option<&str>)]| {
            let variables = |identity: &Identity| {
                let known = readable.iter().find(|(process, _)| *process == identity.process);
                let (_, marker) = known.ok_or_else(|| io::Error::from(io::ErrorKind::PermissionDenied))?;
                Ok(marker.iter().map(|run| (RUN_MARKER.into(), run.into())).collect())
            };
            marker_of(&line, &variables).map(|marker| marker.into_string().unwrap())
        };
        assert_eq!(found(&[(3, Some("own")), (2, Some("parent's"))]).as_deref(), Some("own"));
        assert_eq!(found(&[(3, None), (2, Some("parent's"))]), None);
        assert_eq!(found(&[(2, Some("parent's"))]).as_deref(), Some("parent's"));
        assert_eq!(found(&[(2, None), (1, Some("first's"))]).as_deref(), Some("first's"));
        assert_eq!(found(&[(1, Some("first's"))]).as_deref(), Some("first's"));
        assert_eq!(found(&[]), None);
    }
}
