//! Published servers behind the proxy: every answer is what it is without one, byte for byte; and they are recorded as what they are.

use serde_json::{Value, json};

use crate::mcp_servers::{
    client::Client,
    programs::{Words, command, npm, time},
    work::Work,
};

/// A server, without a proxy and behind one.
struct Both {
    work: Work,
    direct: Client,
    proxied: Client,
}

impl Both {
    /// Both say hello, and list their tools.
    fn new(work: Work, server: &Words) -> Self {
        let mut direct = command(server);
        direct.current_dir(&work.workspace).stderr(std::process::Stdio::null());
        let (direct, proxied) = (Client::start(&mut direct), work.begun("server", server));
        let mut both = Both { work, direct, proxied };
        let (one, other) = (both.direct.hello(), both.proxied.hello());
        assert_eq!(one, other);
        let tools = both.alike("tools/list", json!({}));
        assert!(!tools["tools"].as_array().unwrap().is_empty(), "{tools}");
        both
    }

    /// The result of a request, which is the same twice.
    fn alike(&mut self, method: &str, params: Value) -> Value {
        let id = self.direct.ask(method, params.clone());
        assert_eq!(self.proxied.ask(method, params), id);
        let (one, other) = (self.direct.answer_line(id), self.proxied.answer_line(id));
        assert!(one == other, "{method}: {} and {}", String::from_utf8_lossy(&one), String::from_utf8_lossy(&other));
        serde_json::from_slice::<Value>(&one).unwrap()["result"].clone()
    }

    /// The text that a tool gives.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.alike("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The server in a checkpoint; it is configured by the user as it is started.
    fn recorded(&self, server: &Words) -> Value {
        self.work.of_user(&json!({"server": {"command": server[0], "args": server[1..]}}));
        let (_, servers) = self.work.checkpoint(0);
        let recorded = servers["server"].clone();
        assert_eq!((&recorded["scope"], &recorded["transport"]), (&json!("user"), &json!("stdio")), "{recorded}");
        assert_eq!(recorded["kept"], "stateless", "{recorded}");
        recorded["why"].clone()
    }
}

#[test]
fn server_everything() {
    let server = npm("server-everything");
    let mut both = Both::new(Work::new(), &server);
    let words = "größer, 日本語, \u{1f980}, \u{2028}\u{0} \"\\n\"";
    assert_eq!(both.call("echo", json!({ "message": words })), format!("Echo: {words}"));
    let long = "é".repeat(1 << 20);
    assert!(both.call("echo", json!({ "message": long })).len() > 2 << 20);
    both.call("get-sum", json!({"a": 1.5, "b": 2}));
    both.alike("tools/call", json!({"name": "get-tiny-image", "arguments": {}}));
    both.alike("tools/call", json!({"name": "get-structured-content", "arguments": {"location": "New York"}}));
    both.alike("resources/list", json!({}));
    both.alike("resources/templates/list", json!({}));
    both.alike("prompts/list", json!({}));
    both.alike("tools/call", json!({"name": "no-such-tool", "arguments": {}}));
    both.alike("no/such/method", json!({}));
    both.direct.aside.clear();
    both.proxied.aside.clear();
    let operation = json!({"name": "trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 4},
        "_meta": {"progressToken": "of the agent"}});
    both.alike("tools/call", operation);
    assert_eq!(both.direct.aside, both.proxied.aside);
    let progress = |message: &Value| (message["method"].clone(), message["params"]["progress"].clone());
    let steps: Vec<_> = both.proxied.aside.iter().map(progress).collect();
    assert_eq!(steps, [1, 2, 3, 4].map(|step| (json!("notifications/progress"), json!(step))));
    assert_eq!(both.recorded(&server), "it has no resource checkpoint://state");
    // The conversation goes on behind the checkpoint's question.
    assert_eq!(both.call("echo", json!({"message": "on"})), "Echo: on");
}

#[test]
fn server_filesystem() {
    let work = Work::new();
    let server = [npm("server-filesystem"), vec![work.workspace.to_str().unwrap().to_owned()]].concat();
    let file = work.workspace.join("large ü.txt");
    let text = "a line of text, naïve and long enough\n".repeat(80_000);
    std::fs::write(&file, &text).unwrap();
    let mut both = Both::new(work, &server);
    assert!(text.len() > 3_000_000);
    assert_eq!(both.call("read_text_file", json!({ "path": file })), text);
    both.call("list_directory", json!({"path": both.work.workspace}));
    both.alike("tools/call", json!({"name": "read_text_file", "arguments": {"path": "/etc/passwd"}}));
    assert_eq!(both.recorded(&server), "it has no resources");
}

#[test]
fn server_time() {
    let server = time();
    let mut both = Both::new(Work::new(), &server);
    let there = json!({"source_timezone": "Asia/Tokyo", "time": "12:30", "target_timezone": "Asia/Kolkata"});
    assert!(both.call("convert_time", there).contains("09:00"));
    assert_eq!(both.recorded(&server), "it has no resource checkpoint://state");
}

#[test]
fn one_that_no_proxy_stands_before_is_recorded_so() {
    let work = Work::with("[mcp.servers.asked]\nsupports_checkpoint = true\n");
    work.of_user(&json!({"plain": {"command": "serve"}, "asked": {"command": "serve"}}));
    let (_, servers) = work.checkpoint(3);
    let plain = &servers["plain"];
    assert_eq!((&plain["kept"], &plain["why"]), (&"not_asked".into(), &"no proxy stands before it".into()));
    assert!(servers["asked"]["error"].as_str().unwrap().contains("parhelia hooks install --mcp"), "{servers}");
}
