//! Sessions in tmux: a new tmux session, in whose pane a process of ours goes on with the caller's environment.

mod attach;
pub mod handover;
mod resume;
mod run;

use std::{
    ffi::OsString,
    io::IsTerminal,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use parhelia_agent::{
    command::Agent,
    process::Identity,
    tmux::{PaneStatus, Server, session_of},
};
use parhelia_ledger::{Run, Tmux};
use parhelia_life::tmux::{Pane, Started, TmuxPlace, Watch};
use parhelia_store::Store;
use parhelia_wire::{Line, session::InTmux, summary::Ended};

use self::handover::Handover;
use crate::{
    context::Context,
    exit::{Failure, Result},
    interrupt::{self, Cancel},
};

pub use self::{
    resume::{place, resume},
    run::run,
};

/// No call of tmux takes longer.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// Flags of what makes a tmux session.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Work in a new tmux session
    #[arg(long)]
    pub tmux: bool,
    /// The socket of the tmux server [default: that of $TMUX, else the user's own server]
    #[arg(long, value_name = "PATH")]
    pub tmux_socket: Option<PathBuf>,
    /// Leave the tmux session in the background instead of attaching this terminal
    #[arg(short, long)]
    pub detach: bool,
}

impl Flags {
    /// The server that the flags or the environment name, or the one of the socket `earlier`, where its folder is there.
    fn server(&self, earlier: Option<&str>) -> Result<Server> {
        let inside = || std::env::var_os("TMUX").and_then(|tmux| Server::of_variable(tmux.to_str()?, CALL_LIMIT));
        let usable = |socket: &&str| Path::new(socket).parent().is_some_and(Path::is_dir);
        let earlier = || earlier.filter(usable).map(|socket| Server::new(Some(socket.into()), CALL_LIMIT));
        let server = match &self.tmux_socket {
            None => inside().or_else(earlier).unwrap_or_else(|| Server::new(None, CALL_LIMIT)),
            Some(path) => {
                let path = absolute(path).map_err(|source| Failure::File { action: "use", path: path.clone(), source })?;
                Server::new(Some(path), CALL_LIMIT)
            }
        };
        server.ensure_seen()?;
        Ok(server)
    }

    /// Checks whether this terminal is to be attached to the tmux session.
    fn attaches(&self, context: &Context) -> bool {
        !self.detach && !context.global.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }
}

/// The tmux session in which a live run is.
pub struct Shown {
    server: Server,
    session: String,
}

impl Shown {
    /// Of a run, where that is in tmux.
    pub fn of(run: &Run) -> Option<Self> {
        let tmux = run.tmux.as_ref()?;
        let server = Server::new(Some(tmux.socket.clone().into()), CALL_LIMIT);
        let session = session_of(&server, &tmux.pane).ok()?;
        Some(Shown { server, session })
    }

    /// The command that attaches.
    pub fn command(&self) -> String {
        attach::command_text(&self.server, &self.session)
    }

    /// Becomes that command. Returns where that fails.
    pub fn attach(&self) -> Failure {
        attach::attach(&self.server, &self.session)
    }
}

/// The pane of tmux in which this process is.
pub fn tmux_here() -> Option<Tmux> {
    parhelia_host::tmux_of(&|name| std::env::var_os(name))
}

/// The command line of this program with its global flags; relative paths are not, because a pane has another folder.
pub fn own_words(context: &Context) -> Result<Vec<OsString>> {
    let mut words = vec!["--store".into(), absolute_of(&context.store_path()?)?];
    if let Some(config) = &context.global.config {
        words.extend(["--config".into(), absolute_of(config)?]);
    }
    if let Some(timeout) = context.global.lock_timeout {
        words.extend(["--lock-timeout".into(), timeout.as_secs_f64().to_string().into()]);
    }
    words.extend(context.global.quiet.then(|| "--quiet".into()));
    words.extend(context.global.verbose.then(|| "--verbose".into()));
    Ok(words)
}

/// A path as it is named from anywhere.
pub fn absolute_of(path: &Path) -> Result<OsString> {
    let found = absolute(path).map_err(|source| Failure::File { action: "use", path: path.to_owned(), source })?;
    Ok(found.into_os_string())
}

/// Says where the agent of a session is, and how to look at it.
fn say_where(context: &mut Context, session: &str, is_alive: bool, place: &str, attach: &str) -> Result<()> {
    if !is_alive {
        context.out.did(format!("session {session} has run to its end in tmux"));
        return context.out.remark(format!("Session {session} has run to its end in tmux."));
    }
    context.out.did(format!("session {session} runs in tmux session {place} (`{attach}` shows it)"));
    context.out.remark(format!(
        "Session {session} runs in tmux session {place}. To look at it: parhelia session attach {session} ({attach})"
    ))
}

/// Lets the process in a pane go on, and waits until it is known whether its agent lives. Whatever fails takes the tmux session along.
fn go(
    context: &mut Context,
    store: &Store,
    flags: &Flags,
    pane: Pane<'_>,
    handover: Handover,
    (agent, config): (Option<&Agent>, Option<PathBuf>),
) -> Result<Ended> {
    let (run, started) = match started(&context.cancel(), store, pane, &handover, (agent, config)) {
        Ok(found) => found,
        Err(failure) => {
            let _ = pane.server.end_session(pane.session);
            return Err(failure);
        }
    };
    let tmux = pane.tmux();
    // From here on the pane closes with what runs in it, unless the user has it otherwise.
    let _ = pane.server.keep_dead(pane.id, false);
    if pane.server.pane(pane.id).is_ok_and(|found| found.is_some_and(|pane| pane.dead)) {
        let _ = pane.server.call(["kill-pane", "-t", pane.id]);
    }
    let attach = attach::command_text(pane.server, pane.session);
    say_where(context, &run.session, started != Started::Ended, pane.session, &attach)?;
    let waits = match &started {
        Started::Waits(trouble) => Some(*trouble),
        _ => None,
    };
    if let Some(trouble) = waits {
        tell!("parhelia: {}", trouble.text());
    }
    if started == Started::Silent {
        tell!("parhelia: the agent is alive, but has not said that it has its conversation open; look at it");
    }
    let ended = Ended::in_tmux(run.session.clone(), run.id.clone(), started != Started::Ended, waits);
    context.out.object(Line::Tmux(Box::new(InTmux {
        session: run.session,
        run: run.id,
        conversation: run.conversation,
        tmux_session: pane.session.to_owned(),
        socket: tmux.as_ref().ok().map(|tmux| tmux.socket.clone()),
        pane: pane.id.to_owned(),
        attach,
        alive: ended.alive,
        waits: ended.waits.clone(),
    })))?;
    context.out.flush()?;
    // The files of the handover go before this process becomes another.
    handover.finish();
    if started != Started::Ended && flags.attaches(context) {
        return Err(attach::attach(pane.server, pane.session));
    }
    Ok(ended)
}

fn started(
    cancel: &Cancel,
    store: &Store,
    pane: Pane<'_>,
    handover: &Handover,
    (agent, config): (Option<&Agent>, Option<PathBuf>),
) -> Result<(Run, Started)> {
    let _signals = interrupt::install(cancel)?;
    pane.server.keep_dead(pane.id, true)?;
    let closed = || parhelia_host::Error::Background("the pane has closed".into());
    let PaneStatus { process, .. } = pane.server.pane(pane.id)?.ok_or_else(closed)?;
    let launcher = Identity::of(process)?;
    handover.open()?;
    Ok(Watch { store, pane, launcher, kind: agent.map(Agent::kind), config, cancel }.wait()?)
}
