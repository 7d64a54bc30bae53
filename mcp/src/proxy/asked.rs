//! The server's state, for a checkpoint.

use std::{
    os::unix::net::{UnixListener, UnixStream},
    sync::atomic::Ordering,
    time::Duration,
};

use parhelia_host::mcp::StateReply;
use parhelia_life::mcp::{
    last::{self, Last, Whose},
    live::{self, Answer, Question, RESOURCE},
};
use parhelia_store::clock;
use serde_json::json;

use super::{
    Server, locked,
    ours::{Failure, ask},
};
use crate::state;

/// A question has no more bytes.
const QUESTION_BYTES_MAX: u64 = 64 << 10;
/// The time for the last state: agents give their servers two seconds to end.
const LAST_LIMIT: Duration = Duration::from_millis(1500);
/// Whoever connects has this long to ask.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers whoever connects, one after the other: a server is asked by one at a time.
pub fn answer(server: &Server, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        // Whoever is gone needs no answer.
        let _ = answer_one(server, stream);
    }
}

fn answer_one(server: &Server, mut stream: UnixStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let question: Question = live::read_line(&stream, QUESTION_BYTES_MAX)?;
    // Held until the answer is written: the process does not end before.
    let _asking = locked(&server.asking);
    let told = ask_state(server, &question);
    let given_back = locked(&server.given_back).clone();
    live::write_line(&mut stream, &Answer { name: server.proxied.name.clone(), given_back, told })
}

/// Keeps the last state of a server whose agent has ended, for the checkpoint of that end. Once only.
pub fn keep_last(server: &Server) {
    let Some(store) = &server.proxied.store else { return };
    if server.is_over.swap(true, Ordering::SeqCst) {
        return;
    }
    let question = Question { limit_ms: LAST_LIMIT.as_millis() as u64, bytes_max: server.proxied.state_bytes_max };
    let asking = locked(&server.asking);
    let StateReply::State(state) = ask_state(server, &question) else { return };
    drop(asking);
    let folder = std::env::current_dir().unwrap_or_default();
    let whose = server.proxied.session.as_deref().map_or(Whose::Workspace(&folder), Whose::Session);
    let given_back = locked(&server.given_back).clone();
    let last = Last { name: server.proxied.name.clone(), at: clock::timestamp(), state, given_back };
    if let Err(e) = last::keep(store, whose, &last) {
        server.note(&format!("its last state could not be kept: {e}"));
    }
}

/// Asks the server for its state. One at a time does.
fn ask_state(server: &Server, question: &Question) -> StateReply {
    let stateless = |why: &str| StateReply::Stateless { why: why.into() };
    {
        let hello = locked(&server.hello);
        if !hello.is_over() {
            return stateless("the agent has not begun to talk with it");
        }
        if !hello.may_have("resources") {
            return stateless("it has no resources");
        }
    }
    if server.ours.are_under_way() {
        return StateReply::Failed { why: "it has not answered an earlier question yet".into() };
    }
    let limit = Duration::from_millis(question.limit_ms);
    match ask(server, "resources/read", json!({"uri": RESOURCE}), limit) {
        Ok(result) => state::of(&result, question.bytes_max).unwrap_or_else(|why| StateReply::Failed { why }),
        // Whatever a server calls it: a resource that it does not know is none.
        Err(Failure::Refused { code, message }) if state::UNKNOWN.contains(&code) || state::is_unknown(&message) => {
            stateless(state::NONE)
        }
        Err(Failure::Refused { message, .. }) => StateReply::Failed { why: format!("it answered: {message}") },
        Err(Failure::Ended) => StateReply::Ended,
        Err(Failure::Unanswered(why)) => StateReply::Failed { why },
    }
}
