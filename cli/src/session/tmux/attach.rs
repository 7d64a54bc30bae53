//! This terminal becomes one of a tmux session's.

use std::os::unix::{ffi::OsStrExt, process::CommandExt};

use parhelia_agent::tmux::Server;

use super::tmux_here;
use crate::{exit::Failure, human};

/// The command line that attaches.
pub fn command_text(server: &Server, session: &str) -> String {
    match server.socket() {
        Some(socket) => format!("tmux -S {} attach -t {session}", human::shell(socket.as_os_str().as_bytes())),
        None => format!("tmux attach -t {session}"),
    }
}

/// Becomes tmux, which attaches; a terminal in the same server is switched. Returns where that fails.
pub fn attach(server: &Server, session: &str) -> Failure {
    let mut command = server.command();
    let is_inside = tmux_here().is_some_and(|here| server.socket() == Some(here.socket.as_ref()));
    match is_inside {
        true => {
            for name in ["TMUX", "TMUX_PANE"] {
                command.env(name, std::env::var_os(name).unwrap_or_default());
            }
            command.arg("switch-client")
        }
        false => command.arg("attach-session"),
    };
    let source = command.args(["-t", &format!("={session}")]).exec();
    Failure::File { action: "start", path: "tmux".into(), source }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_command_can_be_given_to_a_shell() {
        let of = |socket: Option<&str>| Server::new(socket.map(Into::into), Duration::from_secs(1));
        assert_eq!(command_text(&of(None), "ph-a-1"), "tmux attach -t ph-a-1");
        assert_eq!(command_text(&of(Some("/tmp/it's")), "ph-a-1"), r"tmux -S '/tmp/it'\''s' attach -t ph-a-1");
    }
}
