//! Our API: answers by a script, and remembers what it was asked.

use std::{
    collections::VecDeque,
    io::{self, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    http::{self, Request},
    reply::{self, Block, Reply},
};

/// A request of the agent, and our answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Its number, from 1.
    pub number: usize,
    /// The agent's id of the conversation.
    pub session: Option<String>,
    /// The subagent that asked, where one did.
    pub subagent: Option<String>,
    /// The request: model, system, messages, tools.
    pub request: Value,
    /// Our answer.
    pub reply: Reply,
    /// The id of our message.
    pub message: String,
    /// The tokens that we said it took.
    pub usage: Value,
}

impl Exchange {
    /// The tools that we called, as id, name and input.
    pub fn calls(&self) -> Vec<(String, String, Value)> {
        let blocks = self.reply.blocks.iter().enumerate();
        let calls = blocks.filter_map(|(index, block)| match block {
            Block::Tool { name, input } => Some((reply::tool_id(self.number, index), name.clone(), input.clone())),
            Block::Text(_) => None,
        });
        calls.collect()
    }

    /// The blocks of a type in all messages that were sent, in their order, with the role of who said them.
    pub fn blocks(&self, kind: &str) -> Vec<(String, Value)> {
        let messages = self.request["messages"].as_array().cloned().unwrap_or_default();
        let mut found = Vec::new();
        for message in &messages {
            let role = message["role"].as_str().unwrap_or_default();
            let blocks = match &message["content"] {
                Value::Array(blocks) => blocks.clone(),
                text => vec![json!({"type": "text", "text": text})],
            };
            found.extend(blocks.into_iter().filter(|block| block["type"] == kind).map(|block| (role.to_owned(), block)));
        }
        found
    }

    /// All text that was sent, joined by newlines.
    pub fn text(&self) -> String {
        let texts = self.blocks("text").into_iter();
        texts.filter_map(|(_, block)| block["text"].as_str().map(str::to_owned)).collect::<Vec<_>>().join("\n")
    }
}

/// Answers that follow from the request.
type Answer = Box<dyn FnMut(&Value) -> Reply + Send>;

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    answer: Option<Answer>,
    exchanges: Vec<Exchange>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The API. It answers until the process ends.
#[derive(Clone)]
pub struct Api {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Api").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Api {
    /// Starts one that gives these answers in turn, and then says that there is nothing more.
    pub fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = listener.unwrap_or_else(|e| panic!("cannot listen on the loopback interface: {e}"));
        let api = Api { address, shared: Arc::default() };
        api.then(script);
        let shared = api.shared.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(connection, &shared));
            }
        });
        api
    }

    /// More answers.
    pub fn then(&self, script: impl IntoIterator<Item = Reply>) {
        self.shared.state().script.extend(script);
    }

    /// Answers, from now on, once the script is at its end.
    pub fn answer_with(&self, answer: impl FnMut(&Value) -> Reply + Send + 'static) {
        self.shared.state().answer = Some(Box::new(answer));
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its exchanges so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.state().exchanges.clone()
    }

    /// Waits until it was asked so many times. Panics where that takes longer than a minute.
    pub fn wait_for(&self, exchanges: usize) -> Vec<Exchange> {
        let until = Instant::now() + Duration::from_secs(60);
        let mut state = self.shared.state();
        while state.exchanges.len() < exchanges {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the agent asked {} times, not {exchanges}", state.exchanges.len());
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.exchanges.clone()
    }
}

fn serve(connection: TcpStream, shared: &Shared) {
    let Ok(mut output) = connection.try_clone() else { return };
    let mut input = BufReader::new(connection);
    // A client that goes away is its own affair.
    while let Ok(Some(request)) = Request::read(&mut input) {
        if answer(&request, &mut output, shared).is_err() {
            return;
        }
    }
}

fn answer(request: &Request, output: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let json = "application/json";
    let path = request.path.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path) {
        ("HEAD", _) => http::respond(output, 200, json, "req_head", ""),
        ("POST", "/v1/messages") => {
            let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            if is_aside(&asked) {
                let events = reply::events(&Reply::text("A title"), 0, &asked["model"]);
                return http::respond(output, 200, "text/event-stream", "req_aside", &events);
            }
            let exchange = shared.next(request, asked);
            let id = format!("req_{:04}", exchange.number);
            if exchange.reply.status != 200 {
                let error = json!({"type": "error", "error": {"type": "api_error", "message": "an error of the test"}});
                return http::respond(output, exchange.reply.status, json, &id, &error.to_string());
            }
            let events = reply::events(&exchange.reply, exchange.number, &exchange.request["model"]);
            http::respond(output, 200, "text/event-stream", &id, &events)
        }
        ("GET", _) => http::respond(output, 200, json, "req_get", r#"{"data":[],"models":[]}"#),
        ("POST", "/v1/responses") => {
            let exchange = shared.next(request, serde_json::from_slice(&request.body).unwrap_or_default());
            let id = format!("req_{:04}", exchange.number);
            http::respond(output, 200, "text/event-stream", &id, &reply::responses(&exchange.reply, exchange.number))
        }
        ("POST", path) if path.starts_with("/v1beta/models/") => {
            let exchange = shared.next(request, serde_json::from_slice(&request.body).unwrap_or_default());
            let id = format!("req_{:04}", exchange.number);
            http::respond(output, 200, "text/event-stream", &id, &reply::generated(&exchange.reply, exchange.number))
        }
        ("POST", "/v1/messages/count_tokens") => http::respond(output, 200, json, "req_count", r#"{"input_tokens":1}"#),
        _ => http::respond(
            output,
            404,
            json,
            "req_none",
            r#"{"type":"error","error":{"type":"not_found_error","message":"none"}}"#,
        ),
    }
}

/// True for a request that an agent on a terminal makes beside the conversation, such as for a title: it offers no tools, and is in no script.
fn is_aside(asked: &Value) -> bool {
    asked["tools"].as_array().is_none_or(Vec::is_empty)
}

impl Shared {
    fn next(&self, request: &Request, asked: Value) -> Exchange {
        let mut state = self.state();
        let number = state.exchanges.len() + 1;
        let reply = state.script.pop_front().or_else(|| state.answer.as_mut().map(|answer| answer(&asked)));
        let exchange = Exchange {
            number,
            session: request.header("x-claude-code-session-id").map(str::to_owned),
            subagent: request.header("x-claude-code-agent-id").map(str::to_owned),
            request: asked,
            reply: reply.unwrap_or_else(|| Reply::text("There is nothing more in the script.")),
            message: reply::message_id(number),
            usage: reply::usage(number),
        };
        state.exchanges.push(exchange.clone());
        self.changed.notify_all();
        exchange
    }
}
