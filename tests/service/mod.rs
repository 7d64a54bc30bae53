//! The service: the real binary, asked over its socket, and agents that die under it.

mod activation;
mod answers;
mod api;
mod beats;
mod browser;
mod contents;
mod contract;
mod http;
mod life;
mod page;
mod real;
mod repeated;
mod sdk;
mod starts;
mod tls;
mod verdicts;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use parhelia_tests::{
    Scratch,
    live::{is_locked, lives, wait},
    scripted,
    tmux::Tmux,
    write, write_program,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A service that runs, and its store.
struct Service {
    scratch: Scratch,
    tmux: Tmux,
    child: Option<Child>,
    /// Flags beside those of every service.
    flags: Vec<String>,
    /// Variables beside those of every service.
    variables: &'static [(&'static str, &'static str)],
    /// The address for browsers, where it has one.
    page: Option<String>,
}

/// An answer: its status, its headers, and its body.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body, where the status is as expected.
    fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }
}

/// Sends bytes as they are and reads the answer to its end.
fn exchange(socket: &Path, request: &str) -> Answer {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    exchange_over(stream, request)
}

fn exchange_over(mut stream: impl Read + Write, request: &str) -> Answer {
    // It may be answered, and the connection closed, before all of it was read.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: bytes[end + 4..].to_vec() }
}

impl Service {
    /// A service of a store with a session `work` of two checkpoints.
    fn new() -> Self {
        Self::with(&[])
    }

    /// The same, with flags.
    fn with(flags: &[&str]) -> Self {
        Self::on(Self::store_of_work(), flags)
    }

    /// A service of a store that is there.
    fn on(scratch: Scratch, flags: &[&str]) -> Self {
        let mut service = Self::of(scratch, flags);
        service.start();
        service
    }

    /// The same, not started yet.
    fn of(scratch: Scratch, flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Service { scratch, tmux: Tmux::new(), child: None, flags, variables: &[], page: None }
    }

    /// A store with a session `work` of two checkpoints.
    fn store_of_work() -> Scratch {
        let scratch = Scratch::new();
        write(&scratch.path("work/file"), b"one\n").unwrap();
        write(&scratch.path("work/folder/<b>odd &amp; name"), b"x").unwrap();
        let workspace = scratch.path("work");
        scratch.create("work", &workspace);
        write(&scratch.path("work/file"), b"one\ntwo\n").unwrap();
        scratch.create("work", &workspace);
        scratch
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path("run/s.sock")
    }

    fn command(&self) -> std::process::Command {
        let (socket, tmux) = (self.socket().to_string_lossy().into_owned(), self.tmux.socket().to_string_lossy().into_owned());
        let mut command = self.scratch.command(&["serve", "--socket", &socket, "--tmux-socket", &tmux]);
        command.args(&self.flags).envs(self.variables.iter().copied());
        command.env("TMPDIR", self.scratch.path("home")).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts it, and waits until programs can connect. What it says of itself goes to the file `said`.
    fn start(&mut self) {
        fs::create_dir_all(self.scratch.path("home")).unwrap();
        let said = fs::OpenOptions::new().create(true).append(true).open(self.scratch.path("said")).unwrap();
        let mut command = self.command();
        command.stderr(said);
        self.start_by(&mut command, self.flags.iter().any(|flag| flag == "--listen"));
    }

    /// The same, by a command of one's own, which may have a page.
    fn start_by(&mut self, command: &mut std::process::Command, has_page: bool) {
        let mut child = command.process_group(0).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let line = lines.next().map(Result::unwrap).unwrap_or_default();
        assert!(line.starts_with("Serving "), "{line} {}", self.said());
        if has_page {
            self.page = lines.next().unwrap().unwrap().split(' ').nth(1).map(str::to_owned);
        }
        self.child = Some(child);
    }

    fn said(&self) -> String {
        fs::read_to_string(self.scratch.path("said")).unwrap_or_default()
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        child.wait().unwrap()
    }

    fn get(&self, path: &str) -> Answer {
        exchange(&self.socket(), &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json");
        exchange(&self.socket(), &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    }

    /// Ids of the checkpoints of session `work`, newest first.
    fn checkpoints(&self) -> Vec<String> {
        let listed = self.get("/v1/sessions/work/checkpoints").expect(200);
        let ids = listed["checkpoints"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect()
    }

    /// Starts a scripted agent in tmux, in a session `agent`, which stays until it is killed. Returns its process.
    fn agent(&self) -> i32 {
        self.agent_of(scripted::AGENT)
    }

    /// The same with a program of one's own.
    fn agent_of(&self, program: &str) -> i32 {
        write_program(&self.scratch.path("bin/claude"), program);
        write(&self.scratch.path("agent/stay"), b"").unwrap();
        let at = |name: &str| self.scratch.path(name).to_string_lossy().into_owned();
        let (tmux, workspace, program) = (self.tmux.socket().to_string_lossy().into_owned(), at("agent"), at("bin/claude"));
        let words = ["session", "run", "--name", "agent", "--tmux", "--detach", "--tmux-socket", &tmux];
        let mut command = self.scratch.command(&[&words[..], &["--workspace", &workspace, "--", &program]].concat());
        let output = command.env("TMPDIR", self.scratch.path("home")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.process(1)
    }

    /// The process of the agent in the session's run of this number, once it lives.
    fn process(&self, number: usize) -> i32 {
        wait(|| {
            let shown = self.get("/v1/sessions/agent").expect(200);
            let alive = ["live", "idle", "waiting"].contains(&shown["session"]["observed"].as_str()?);
            let pid = shown["runs"].as_array()?.get(number - 1)?["pid"].as_i64()?;
            alive.then_some(pid as i32)
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn kill(process: i32) {
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
}
