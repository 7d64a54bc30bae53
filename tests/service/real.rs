//! The real agent under the service: begun and prompted over HTTP, killed, and brought back in its conversation.

use parhelia_tests::{agent::Reply, live::Live};

use super::*;

/// A service of the agent's store, and its socket.
struct Served {
    child: Child,
    socket: PathBuf,
}

impl Served {
    fn start(live: &Live, tmux: &Tmux) -> Self {
        live.expect(&["init"]);
        let socket = live.agent.folder().join("service.sock");
        let words = ["serve".as_ref(), "--socket".as_ref(), socket.as_path(), "--tmux-socket".as_ref(), &tmux.socket()];
        let mut child = live.command(&words).stderr(Stdio::null()).spawn().unwrap();
        let line = BufReader::new(child.stdout.as_mut().unwrap()).lines().next().unwrap().unwrap();
        assert!(line.starts_with("Serving "), "{line}");
        Served { child, socket }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json");
        let answer = exchange(&self.socket, &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let status = if answer.status == 201 { 201 } else { 200 };
        answer.expect(status)
    }

    /// The agent's process, once it has nothing to do in this run of the session.
    fn idle(&self, run: usize) -> i32 {
        wait(|| {
            let shown = self.ask("GET", "/v1/sessions/real", &Value::Null);
            let runs = shown["runs"].as_array()?;
            let pid = runs.last()?["pid"].as_i64()?;
            (shown["session"]["observed"] == "idle" && runs.len() >= run).then_some(pid as i32)
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_real_agent_is_begun_prompted_killed_and_goes_on() {
    let Some(live) = Live::new() else { return };
    let tmux = Tmux::new();
    live.agent.prepare_interactive();
    let served = Served::start(&live, &tmux);
    let program = live.agent.program().to_string_lossy().into_owned();
    let command = [&program, "--permission-mode", "bypassPermissions"];
    served.ask("POST", "/v1/sessions", &json!({"name": "real", "workspace": live.agent.workspace(), "command": command}));
    let first = served.idle(1);
    let told = |number: usize, prompt: &str, answer: &str| {
        live.api.then([Reply::text(answer)]);
        let before = live.api.exchanges().len();
        assert_eq!(served.ask("POST", "/v1/sessions/real/prompt", &json!({"text": prompt}))["resumed"], false);
        let asked = wait(|| live.api.exchanges().get(before..)?.iter().find(|asked| asked.text().contains(prompt)).cloned());
        served.idle(number);
        asked.text()
    };
    told(1, "remember the heron", "The heron is remembered.");
    let began = Instant::now();
    kill(first);
    let second = served.idle(2);
    eprintln!("idle again {:?} after its death", began.elapsed());
    assert_ne!(first, second);
    // It goes on in the same conversation.
    let asked = told(2, "what was it", "A heron.");
    assert!(asked.contains("remember the heron"), "{asked}");
}
