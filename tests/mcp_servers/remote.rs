//! Servers over HTTP: they are asked, and given their state back, where the user says that they support it.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use parhelia_tests::{
    agent::{Block, tool},
    live::{Live, shown, wait},
    write,
};
use serde_json::{Value, json};

use crate::mcp_servers::{
    agents::{kept, told},
    programs::{command, examples, npm, python},
    work::Work,
};

/// A server that listens. It is killed with this.
struct Listening {
    child: Child,
    url: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listening {
    /// Starts a command line, made for a port that is free.
    fn start(of: impl FnOnce(u16) -> Command) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = of(port);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let listening = Listening { child, url: format!("http://127.0.0.1:{port}/mcp") };
        wait(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        listening
    }

    fn everything() -> Self {
        Self::start(|port| {
            let mut command = command(&npm("server-everything"));
            command.arg("streamableHttp").env("PORT", port.to_string());
            command
        })
    }

    fn notes() -> Self {
        Self::start(|port| {
            let mut command = Command::new(python());
            let serve = format!("import notes_server; notes_server.server.run(transport='streamable-http', port={port})");
            command.args(["-c", &serve]).env("PYTHONPATH", examples()).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        })
    }

    fn config(&self) -> Value {
        json!({"type": "http", "url": self.url})
    }
}

const ASKED: &str = "[mcp.servers.remote]\nsupports_checkpoint = true\n";

#[test]
fn one_is_asked_where_the_user_says_so() {
    let (work, server) = (Work::new(), Listening::everything());
    work.of_user(&json!({"remote": server.config()}));
    let recorded = |code| work.checkpoint(code).1["remote"].clone();
    let plain = recorded(0);
    assert_eq!((&plain["kept"], &plain["transport"]), (&json!("not_asked"), &json!("http")), "{plain}");
    assert!(plain["why"].as_str().unwrap().contains("supports_checkpoint"), "{plain}");
    work.options(ASKED);
    let asked = recorded(0);
    assert_eq!(
        (&asked["kept"], &asked["why"]),
        (&json!("stateless"), &json!("it has no resource checkpoint://state")),
        "{asked}"
    );
    // A project's file could have it asked anywhere.
    work.of_user(&json!({}));
    work.of_project(&json!({"remote": server.config()}));
    let of_project = recorded(0);
    assert!(of_project["why"].as_str().unwrap().contains("is not configured by the user"), "{of_project}");
    std::fs::remove_file(work.workspace.join(".mcp.json")).unwrap();
    work.of_user(&json!({"remote": server.config()}));
    drop(server);
    let gone = recorded(3);
    assert_eq!(gone["kept"], "failed", "{gone}");
}

fn add(text: &str) -> Block {
    tool("mcp__remote__add_note", json!({ "text": text }))
}

fn list() -> Block {
    tool("mcp__remote__list_notes", json!({}))
}

/// A session whose agent has a server remember something, and that server, which lives as long as it is held.
fn remembered() -> Option<(Live, Listening, String)> {
    let live = Live::new()?;
    let server = Listening::notes();
    let config = json!({"mcpServers": {"remote": server.config()}});
    write(&live.agent.home().join(".claude.json"), config.to_string().as_bytes()).unwrap();
    write(&live.agent.home().join(".config/parhelia/parhelia.toml"), ASKED.as_bytes()).unwrap();
    told(&live, add("old"), |live| live.start("remember the old one"));
    let session = live.session();
    Some((live, server, session))
}

#[test]
fn one_that_supports_it_is_given_its_state_back_at_once() {
    let Some((live, _server, session)) = remembered() else { return };
    let old = live.checkpoints(&session)[0]["id"].as_str().unwrap().to_owned();
    let state = kept(&live, &old, "remote");
    assert_eq!(
        (&state["kept"], &state["scope"], &state["transport"]),
        (&json!("state"), &json!("user"), &json!("http")),
        "{state}"
    );
    told(&live, add("new"), |live| live.resume(&session, "remember the new one"));
    let text = live.expect(&["checkpoint", "rollback", &old, "--yes"]);
    assert!(!text.contains("does not get its state back"), "{text}");
    assert_eq!(told(&live, list(), |live| live.resume(&session, "list")), "old");
}

#[test]
fn a_plain_resume_leaves_what_a_live_server_has_learnt_since() {
    let Some((live, _server, session)) = remembered() else { return };
    // Another agent, which has nothing to do with the session.
    told(&live, add("newer"), |live| live.agent.start("remember this as well", &[]));
    let output = live.resume(&session, "go on").wait_with_output().unwrap();
    assert!(
        shown(&output).contains("MCP server remote does not get its state back: what it has is another one"),
        "{}",
        shown(&output)
    );
    assert_eq!(told(&live, list(), |live| live.resume(&session, "list")), "old\nnewer");
}
