//! `session run --tmux`.

use std::{ffi::OsString, path::Path};

use parhelia_agent::{command::Agent, tmux::session_name};
use parhelia_host::Host;
use parhelia_store::{Store, clock};
use parhelia_wire::summary::Ended;

use super::{Flags, Pane, go, handover::Handover, own_words};
use crate::{context::Context, exit::Result, limits};

/// Makes a tmux session in whose pane a first prompt and `arguments` (what stands behind `session run`) run.
pub fn run(
    context: &mut Context,
    store: &Store,
    flags: &Flags,
    name: &str,
    workspace: &Path,
    (prompt, arguments): (Option<&str>, &[OsString]),
    agent: Option<&Agent>,
) -> Result<Ended> {
    let (server, host) = (flags.server(None)?, context.host()?);
    let mut words = own_words(context)?;
    words.extend(["session", "run"].map(OsString::from));
    let handover = Handover::new(words, prompt, arguments)?;
    let session = server.free_name(&session_name(name, clock::timestamp()))?;
    let command = handover.command()?;
    let id = limits::for_others(|| server.new_session(&session, workspace, &command))?;
    go(
        context,
        store,
        flags,
        Pane { server: &server, session: &session, id: &id },
        handover,
        (agent, agent.and_then(|agent| host.config_folder(agent.kind())).map(|config| config.path)),
    )
}
