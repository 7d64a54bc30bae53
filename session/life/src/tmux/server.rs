//! The tmux server in which something is to be, and the tmux session in which a live run is.

use std::path::{Path, absolute};

use parhelia_agent::tmux::{Server, session_of};
use parhelia_host::{Host, Result, error::IoContext};
use parhelia_ledger::Run;

use super::CALL_LIMIT;

/// The server that is named, or the one that the caller is in, or that of the socket `earlier`, where its folder is there, or the user's own.
pub fn server(host: &dyn Host, named: Option<&Path>, earlier: Option<&str>) -> Result<Server> {
    let inside = || host.variable("TMUX").and_then(|tmux| Server::of_variable(tmux.to_str()?, CALL_LIMIT));
    let usable = |socket: &&str| Path::new(socket).parent().is_some_and(Path::is_dir);
    let earlier = || earlier.filter(usable).map(|socket| Server::new(Some(socket.into()), CALL_LIMIT));
    let server = match named {
        None => inside().or_else(earlier).unwrap_or_else(|| Server::new(None, CALL_LIMIT)),
        Some(path) => Server::new(Some(absolute(path).at("use", path)?), CALL_LIMIT),
    };
    // What the first call starts has the caller's environment, and not that of a service which works for it.
    let server = server.with_variables(host.variables());
    server.ensure_seen()?;
    Ok(server)
}

/// A tmux session in which an agent is.
#[derive(Clone, Debug)]
pub struct TmuxSession {
    /// The server that has the session.
    pub server: Server,
    /// The name of the tmux session.
    pub session: String,
}

impl TmuxSession {
    /// Of a live run, where that is in tmux.
    pub fn of(run: &Run) -> Option<Self> {
        let tmux = run.tmux.as_ref()?;
        let server = Server::new(Some(tmux.socket.clone().into()), CALL_LIMIT);
        let session = session_of(&server, &tmux.pane).ok()?;
        Some(TmuxSession { server, session })
    }
}
