//! From the agent to the server.

use std::io::{self, BufRead};

use super::{Server, asked, given, hello::Step, locked};
use parhelia_life::mcp::pending::PendingState;

/// No more lines of the agent wait for a server that takes its state back.
const HELD_MAX: usize = 10_000;

/// Passes on what the agent says, until it has nothing more to say. A state that waits is given to the server before the first request.
pub fn pass(server: &std::sync::Arc<Server>, mut waiting: Option<PendingState>) {
    let mut agent = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match agent.read_until(b'\n', &mut line) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let step = match is_beginning(server) {
            true => locked(&server.hello).of_agent(&line),
            false => Step::Within,
        };
        if step == Step::Request
            && let Some(waiting) = waiting.take()
        {
            given::begin(server, waiting);
        }
        if put(server, &line).is_err() {
            break;
        }
        if step == Step::Last
            && let Some(waiting) = waiting.take()
        {
            given::begin(server, waiting);
        }
    }
    given::release(server);
    asked::keep_last(server);
    locked(&server.input).pipe = None;
}

fn is_beginning(server: &Server) -> bool {
    !locked(&server.hello).is_over()
}

/// Passes a line on, or keeps it where it is a request and the server is not ready for those.
fn put(server: &Server, line: &[u8]) -> io::Result<()> {
    let mut input = locked(&server.input);
    match &mut input.held {
        Some(held) if held.len() < HELD_MAX && is_request(line) => {
            held.push(line.to_vec());
            Ok(())
        }
        _ => input.write(line),
    }
}

/// True of a message that asks for an answer. The answers of the agent are not held: the server may wait for them.
fn is_request(line: &[u8]) -> bool {
    let message: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    message.is_array() || (message.get("method").is_some() && message.get("id").is_some())
}
