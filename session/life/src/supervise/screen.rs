//! The end of what an agent in tmux has said.

use std::time::{Duration, Instant};

use parhelia_agent::{kind::Kind, tmux::Server};

use super::{EARLY, TMUX_LIMIT};
use parhelia_host::Host;

/// The time that an agent's last words may take to be on the screen.
const SCREEN_LIMIT: Duration = Duration::from_secs(2);

/// The text in the pane of tmux in which the caller is, and whether the agent says there that it does not know the conversation. It shows
/// what was said before as well, so that the conversation must be named.
pub(super) fn on_screen(host: &dyn Host, kind: Option<Kind>, conversation: &str, ran: Duration) -> (String, bool) {
    let Some(here) = host.tmux().filter(|_| ran < EARLY) else { return Default::default() };
    let server = Server::new(Some(here.socket.into()), TMUX_LIMIT);
    let until = Instant::now() + SCREEN_LIMIT;
    loop {
        // tmux may not yet have shown everything that was said.
        let screen = server.screen(&here.pane).unwrap_or_default();
        let is_unknown = kind.is_some_and(|kind| kind.does_not_know(&screen, conversation));
        if is_unknown || Instant::now() > until {
            return (screen, is_unknown);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
