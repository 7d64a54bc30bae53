//! Hearing at once that the last client has detached from a session.
//!
//! A hook of the server wakes a `tmux wait-for` of ours. It cannot be the session's own hook, because a client that detaches belongs to
//! none any more; so that each time it is asked whether it was this session's.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use super::server::Server;
use crate::{
    error::{Error, Result},
    process::Identity,
};

const HOOK: &str = "client-detached";
/// The prefix of the channels on which our tmux hooks report; process and start time follow.
const CHANNEL: &str = "parhelia-detached-";
/// Our places among the hooks begin here: what a user's configuration has is far below.
const PLACES: u32 = 100_000;

/// Hears when the last client of a session detaches, until it is dropped.
#[derive(Debug)]
pub struct Detaches {
    server: Server,
    hook: String,
    channel: String,
    heard: UnixStream,
    is_over: Arc<AtomicBool>,
    /// Keeps the other end of the socket open, because its end would be taken for a message.
    listener: Option<JoinHandle<UnixStream>>,
}

impl Detaches {
    /// Listens for the session of a pane.
    pub fn of(server: Server, pane: &str) -> Result<Self> {
        forget_dead(&server)?;
        let me = Identity::of(std::process::id() as i32)?;
        let channel = format!("{CHANNEL}{}-{}", me.process, me.start_time);
        let hook = format!("{HOOK}[{}]", PLACES + me.process as u32);
        let failed = |source| Error::Io { action: "listen to", path: "tmux".into(), source };
        let (heard, tell) = UnixStream::pair().map_err(failed)?;
        heard.set_nonblocking(true).map_err(failed)?;
        server.call(["set-hook", "-g", &hook, &format!("wait-for -S {channel}")])?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut listening = DetachListener {
            server: server.clone(),
            pane: pane.to_owned(),
            channel: channel.clone(),
            is_over: is_over.clone(),
            seen: String::new(),
        };
        // One that is there now has yet to go.
        if let Some((_, last)) = listening.attached().filter(|(clients, _)| clients == "0") {
            listening.seen = last;
        }
        let listener = std::thread::Builder::new().spawn(move || listening.run(tell)).map_err(|source| {
            let _ = server.call(["set-hook", "-gu", &hook]);
            Error::Io { action: "start a thread that listens to", path: "tmux".into(), source }
        })?;
        let listener = Some(listener);
        Ok(Detaches { server, hook, channel, heard, is_over, listener })
    }

    /// Readable once one has.
    pub fn heard(&self) -> &UnixStream {
        &self.heard
    }

    /// True if a client has detached since the last call.
    pub fn take(&self) -> bool {
        (&self.heard).read(&mut [0; 64]).is_ok_and(|read| read > 0)
    }
}

impl Drop for Detaches {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.server.call(["set-hook", "-gu", &self.hook]);
        // Where this fails there is no server, which ends the listener, too; or one that hangs, which nobody waits for.
        if self.server.call(["wait-for", "-S", &self.channel]).is_ok()
            && let Some(listener) = self.listener.take()
        {
            let _ = listener.join();
        }
    }
}

struct DetachListener {
    server: Server,
    pane: String,
    channel: String,
    is_over: Arc<AtomicBool>,
    /// The attach time of the client whose detaching was reported last.
    seen: String,
}

impl DetachListener {
    fn run(mut self, mut tell: UnixStream) -> UnixStream {
        loop {
            let mut command = self.server.command();
            command.args(["wait-for", &self.channel]).current_dir("/");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if !command.status().is_ok_and(|status| status.success()) || self.is_over.load(Ordering::SeqCst) {
                return tell;
            }
            let Some((clients, last)) = self.attached() else { continue };
            // Whoever detached was another session's client, if nobody has attached to this one since.
            if clients == "0" && last != self.seen {
                self.seen = last;
                let _ = tell.write_all(b"d");
            }
        }
    }

    /// The number of the session's clients, and the time when the last one attached.
    fn attached(&self) -> Option<(String, String)> {
        let format = "#{session_attached} #{session_last_attached}";
        let text = self.server.ask(["display-message", "-p", "-t", &self.pane, format]).ok()?;
        text.split_once(' ').map(|(clients, last)| (clients.to_owned(), last.to_owned()))
    }
}

/// Takes away what processes of ours that were killed have left in the server.
fn forget_dead(server: &Server) -> Result<()> {
    for line in server.ask(["show-hooks", "-g", HOOK])?.lines() {
        let Some((hook, command)) = line.split_once(' ') else { continue };
        let Some((_, name)) = command.split_once(CHANNEL) else { continue };
        let mut numbers = name.split('-');
        let process = numbers.next().and_then(|number| number.parse().ok());
        let start_time = numbers.next().and_then(|number| number.trim_matches('"').parse::<u64>().ok());
        let is_alive =
            process.and_then(|process| Identity::of(process).ok()).is_some_and(|now| Some(now.start_time) == start_time);
        if !is_alive {
            server.call(["set-hook", "-gu", hook])?;
        }
    }
    Ok(())
}
