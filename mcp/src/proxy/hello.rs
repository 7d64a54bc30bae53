//! The beginning of a conversation between agent and server: what the server can do, and when the agent may send requests.

use serde_json::Value;

/// The handshake, as far as it has come.
#[derive(Debug, Default)]
pub struct Hello {
    /// The id of the agent's `initialize`, until that is answered.
    asked: Option<Value>,
    /// The abilities of the server.
    capabilities: Option<Value>,
    /// The `_meta` that the agent's requests have, in protocols that begin without a handshake (from 2026-07-28 on).
    meta: Option<Value>,
    /// True once the agent may send requests.
    is_over: bool,
}

/// The part that a message of the agent's has in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It belongs to the beginning.
    Within,
    /// Requests may follow it.
    Last,
    /// It is the first request, and there was no handshake.
    Request,
}

impl Hello {
    /// Takes in a message of the agent's.
    pub fn of_agent(&mut self, line: &[u8]) -> Step {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        match method {
            "initialize" => {
                self.asked = message.get("id").cloned();
                Step::Within
            }
            "notifications/initialized" => {
                self.is_over = true;
                Step::Last
            }
            "ping" | "server/discover" => Step::Within,
            _ if !method.is_empty() && message.get("id").is_some() && self.asked.is_none() && self.capabilities.is_none() => {
                self.meta = message.pointer("/params/_meta").map(without_progress);
                self.is_over = true;
                Step::Request
            }
            _ => Step::Within,
        }
    }

    /// Takes in a message of the server's.
    pub fn of_server(&mut self, line: &[u8]) {
        let Some(asked) = &self.asked else { return };
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        if message.get("id") == Some(asked) {
            self.asked = None;
            // A server of a later protocol refuses the handshake of an agent that did not wait for its answer to `server/discover`.
            if message.get("error").is_none() {
                self.capabilities = Some(message.pointer("/result/capabilities").cloned().unwrap_or_default());
            }
        }
    }

    /// True if a message of the server's is awaited that says what it can do.
    pub fn awaits_server(&self) -> bool {
        self.asked.is_some()
    }

    /// True once requests may be sent.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// True unless the server has said that it has nothing of a kind, such as `resources`.
    pub fn may_have(&self, kind: &str) -> bool {
        self.capabilities.as_ref().is_none_or(|capabilities| capabilities.get(kind).is_some())
    }

    /// The `_meta` for requests of ours.
    pub fn meta(&self) -> Option<&Value> {
        self.meta.as_ref()
    }
}

/// A request's `_meta` without the token by which its own progress is reported.
fn without_progress(meta: &Value) -> Value {
    let mut meta = meta.clone();
    if let Some(fields) = meta.as_object_mut() {
        fields.remove("progressToken");
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_that_is_refused_is_none() {
        let mut hello = Hello::default();
        assert_eq!(hello.of_agent(br#"{"id":0,"method":"server/discover"}"#), Step::Within);
        assert_eq!(hello.of_agent(br#"{"id":1,"method":"initialize"}"#), Step::Within);
        hello.of_server(br#"{"id":0,"result":{}}"#);
        hello.of_server(br#"{"id":1,"error":{"code":-32022,"message":"no"}}"#);
        assert!(!hello.is_over() && !hello.awaits_server());
        assert_eq!(hello.of_agent(br#"{"id":2,"method":"tools/list","params":{"_meta":{"v":1}}}"#), Step::Request);
        assert!(hello.is_over() && hello.may_have("resources") && hello.meta().is_some());
    }
}
