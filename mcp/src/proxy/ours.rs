//! Requests of ours to a server, and their answers.

use std::{
    collections::HashMap,
    io::ErrorKind,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{Server, locked};

/// The reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server has answered with an error.
    Refused {
        /// Its code in JSON-RPC.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It has ended before it answered.
    Ended,
    /// There was no answer.
    Unanswered(String),
}

/// The requests that the proxy itself makes of the server, and who waits for their answers.
pub struct Ours {
    /// The beginning of their ids: no agent makes the same.
    token: String,
    next: AtomicU64,
    /// Requests without an answer, also those that nobody waits for any more: it still comes.
    under_way: AtomicUsize,
    waiting: Mutex<HashMap<String, Sender<Value>>>,
    /// True once the server has ended.
    is_over: AtomicBool,
}

/// A request that was sent.
pub struct PendingRequest {
    id: String,
    answer: Receiver<Value>,
}

impl Ours {
    pub fn new() -> Self {
        Ours {
            token: format!("parhelia-{}", uuid::Uuid::new_v4().simple()),
            next: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            waiting: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// True while an answer may come.
    pub fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) > 0
    }

    /// Makes a request, and expects its answer. The line is to be sent.
    pub fn make(&self, method: &str, mut params: Value, meta: Option<&Value>) -> (PendingRequest, Vec<u8>) {
        let id = format!("{}-{}", self.token, self.next.fetch_add(1, Ordering::Relaxed));
        if let Some(meta) = meta {
            params["_meta"] = meta.clone();
        }
        let mut line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().into_bytes();
        line.push(b'\n');
        let (sender, answer) = channel();
        let mut waiting = locked(&self.waiting);
        if !self.is_over.load(Ordering::SeqCst) {
            waiting.insert(id.clone(), sender);
        }
        drop(waiting);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        (PendingRequest { id, answer }, line)
    }

    /// Takes a line of the server's that answers one of ours. False where it is the agent's.
    pub fn take(&self, line: &[u8]) -> bool {
        let Some(text) = std::str::from_utf8(line).ok().filter(|text| text.contains(&self.token)) else { return false };
        let Ok(message) = serde_json::from_str::<Value>(text) else { return false };
        let is_ours = message.get("method").is_none()
            && message.get("id").and_then(Value::as_str).is_some_and(|id| id.starts_with(&self.token));
        if is_ours {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            let id = message["id"].as_str().unwrap_or_default();
            if let Some(sender) = locked(&self.waiting).remove(id) {
                let _ = sender.send(message);
            }
        }
        is_ours
    }

    /// Nothing will be answered any more.
    pub fn give_up(&self) {
        let mut waiting = locked(&self.waiting);
        self.is_over.store(true, Ordering::SeqCst);
        waiting.clear();
    }
}

/// Asks a server, and waits for its answer.
pub fn ask(server: &Server, method: &str, params: Value, limit: Duration) -> Result<Value, Failure> {
    let meta = locked(&server.hello).meta().cloned();
    let (sent, line) = server.ours.make(method, params, meta.as_ref());
    locked(&server.input).write(&line).map_err(|e| match e.kind() {
        ErrorKind::BrokenPipe => Failure::Ended,
        _ => Failure::Unanswered(format!("nothing can be sent to it: {e}")),
    })?;
    let answer = sent.answer.recv_timeout(limit);
    locked(&server.ours.waiting).remove(&sent.id);
    let mut answer = answer.map_err(|e| match e {
        RecvTimeoutError::Timeout => Failure::Unanswered(format!("no answer within {:.1} s", limit.as_secs_f64())),
        RecvTimeoutError::Disconnected => Failure::Ended,
    })?;
    if let Some(error) = answer.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("it gave no reason").to_owned();
        return Err(Failure::Refused { code: error.get("code").and_then(Value::as_i64).unwrap_or_default(), message });
    }
    Ok(answer["result"].take())
}
