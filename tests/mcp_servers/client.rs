//! A client over standard streams, as plain as can be: what it sends and gets is not made better by any library.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use parhelia_tests::live::wait;
use serde_json::{Value, json};

/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A line that is longer is not looked into, in bytes.
const LONG: usize = 64 << 20;

/// A program that speaks the protocol, and our way to it. It is killed with this.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    number: i64,
    /// Messages that came while something else was awaited; a line that is no JSON is a string.
    pub aside: Vec<Value>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, mut output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) && sender.send(line).is_ok() {
                line = Vec::new();
            }
        });
        Client { child, input, lines, number: 0, aside: Vec::new() }
    }

    /// The number of its process.
    pub fn process(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a line. A program that has ended reads none, which its answer and its exit code tell.
    pub fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        match self.input.as_mut().unwrap().write_all(line.as_bytes()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {}
            sent => sent.unwrap(),
        }
    }

    /// The next line as it is; none once there are no more.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(e) => panic!("nothing came: {e}; aside: {:?}", self.aside),
        }
    }

    /// Sends a request, and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.number += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}));
        self.number
    }

    /// The answer to a request, as it is.
    pub fn answer_line(&mut self, id: i64) -> Vec<u8> {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it ended before it answered; aside: {:?}", self.aside));
            if line.len() > LONG {
                self.aside.push(json!({ "long": line.len() }));
                continue;
            }
            let message = serde_json::from_slice::<Value>(&line);
            let message = message.unwrap_or_else(|_| String::from_utf8_lossy(&line).trim_end().into());
            if message["id"] == id && message.get("method").is_none() {
                return line;
            }
            self.aside.push(message);
        }
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        serde_json::from_slice(&self.answer_line(id)).unwrap()
    }

    /// The answer to a new request.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// The text that a tool gives.
    pub fn call(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The beginning of a conversation; returns the server's answer.
    pub fn hello(&mut self) -> Value {
        let about =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}});
        let answer = self.request("initialize", about);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Closes its input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        wait(|| self.child.try_wait().unwrap())
    }
}
