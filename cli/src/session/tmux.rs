//! Sessions in tmux: the flags, and where an agent is that was started there.

use std::{
    io::IsTerminal,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::PathBuf,
};

use parhelia_host::Host;
use parhelia_life::tmux::{InTmux, StartupState, TmuxSession};
use parhelia_screen::human;
use parhelia_wire::{Line, session as wire, summary::RunOutcome};

use crate::{
    context::Context,
    exit::{Failure, Result},
};

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

/// The command that attaches a terminal.
pub fn command_text(shown: &TmuxSession) -> String {
    match shown.server.socket() {
        Some(socket) => format!("tmux -S {} attach -t {}", human::shell(socket.as_os_str().as_bytes()), shown.session),
        None => format!("tmux attach -t {}", shown.session),
    }
}

/// Becomes tmux, which attaches; a terminal in the same server is switched. Returns where that fails.
pub fn attach(host: &dyn Host, shown: &TmuxSession) -> Failure {
    let mut command = shown.server.command();
    let is_inside = host.tmux().is_some_and(|here| shown.server.socket() == Some(here.socket.as_ref()));
    match is_inside {
        true => {
            for name in ["TMUX", "TMUX_PANE"] {
                command.env(name, host.variable(name).unwrap_or_default());
            }
            command.arg("switch-client")
        }
        false => command.arg("attach-session"),
    };
    let source = command.args(["-t", &format!("={}", shown.session)]).exec();
    Failure::File { action: "start", path: "tmux".into(), source }
}

/// Says where the agent of a session is, and how to look at it.
pub fn print(context: &mut Context, made: &InTmux) -> Result<RunOutcome> {
    let (session, attach, alive) = (&made.run.session, command_text(&made.shown), made.is_alive());
    let place = &made.shown.session;
    if alive {
        context.out.did(format!("session {session} runs in tmux session {place} (`{attach}` shows it)"));
        context.out.remark(format!(
            "Session {session} runs in tmux session {place}. To look at it: parhelia session attach {session} ({attach})"
        ))?;
    } else {
        context.out.did(format!("session {session} has run to its end in tmux"));
        context.out.remark(format!("Session {session} has run to its end in tmux."))?;
    }
    if let Some(trouble) = made.waits() {
        tell!("parhelia: {}", trouble.text());
    }
    if made.started == StartupState::Silent {
        tell!("parhelia: the agent is alive, but has not said that it has its conversation open; look at it");
    }
    let ended = RunOutcome::in_tmux(session.clone(), made.run.id.clone(), alive, made.waits());
    context.out.object(Line::Tmux(Box::new(wire::InTmux {
        session: session.clone(),
        run: made.run.id.clone(),
        conversation: made.run.conversation.clone(),
        tmux_session: place.clone(),
        socket: made.socket.clone(),
        pane: made.pane.clone(),
        attach,
        alive,
        waits: ended.waits,
    })))?;
    context.out.flush()?;
    Ok(ended)
}

/// The same, and attaches this terminal, unless the agent is left in the background.
pub fn show(context: &mut Context, flags: &Flags, made: &InTmux) -> Result<RunOutcome> {
    let ended = print(context, made)?;
    let has_terminal = || std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if made.is_alive() && !flags.detach && !context.global.json && has_terminal() {
        return Err(attach(&context.host()?, &made.shown));
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parhelia_agent::tmux::Server;

    use super::*;

    #[test]
    fn the_command_can_be_given_to_a_shell() {
        let of = |socket: Option<&str>| {
            let server = Server::new(socket.map(Into::into), Duration::from_secs(1));
            command_text(&TmuxSession { server, session: "ph-a-1".into() })
        };
        assert_eq!(of(None), "tmux attach -t ph-a-1");
        assert_eq!(of(Some("/tmp/it's")), r"tmux -S '/tmp/it'\''s' attach -t ph-a-1");
    }
}
