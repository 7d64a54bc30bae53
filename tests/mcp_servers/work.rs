//! A session without an agent to talk to: the test is the agent, and starts the servers itself.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use parhelia_host::{mcp::State, state::state_bytes};
use parhelia_ledger::selector::find;
use parhelia_life::mcp::pending::{PendingState, leave};
use parhelia_tests::{Scratch, live::shown, scripted::AGENT, write, write_program};
use serde_json::{Value, json};

use crate::mcp_servers::{client::Client, programs::Words};

const CONVERSATION: &str = "8c2b1f6e-57c0-4f0e-9a55-6f8f1f8c0b44";

/// A workspace, and a store that knows that an agent works there.
pub struct Work {
    pub scratch: Scratch,
    pub workspace: PathBuf,
    pub session: String,
}

impl Work {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        write(&workspace.join("a"), b"1").unwrap();
        let workspace = workspace.canonicalize().unwrap();
        let event = json!({"hook_event_name": "SessionStart", "session_id": CONVERSATION, "cwd": workspace, "source": "startup"});
        let mut hook = scratch.command(&["hook"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        hook.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        assert!(hook.wait().unwrap().success());
        Self::of(scratch, workspace)
    }

    /// A session in which an agent has worked that is a script. It has a conversation, so that it can be resumed and rolled back.
    pub fn of_script() -> Self {
        let scratch = Scratch::new();
        let (workspace, agent) = (scratch.path("work"), scratch.path("bin/claude"));
        write(&workspace.join("a"), b"1").unwrap();
        write_program(&agent, AGENT);
        let words = ["session", "run", "--workspace", workspace.to_str().unwrap(), "--", agent.to_str().unwrap(), "-p", "work"];
        scratch.expect(0, &words);
        let workspace = workspace.canonicalize().unwrap();
        Self::of(scratch, workspace)
    }

    fn of(scratch: Scratch, workspace: PathBuf) -> Self {
        let output = scratch.run(&["session", "list", "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let session = first["id"].as_str().unwrap_or_else(|| panic!("{text}")).to_owned();
        Work { scratch, workspace, session }
    }

    /// A new one with options of the user's.
    pub fn with(options: &str) -> Self {
        let work = Self::new();
        work.options(options);
        work
    }

    /// The user's options.
    pub fn options(&self, text: &str) {
        write(&self.scratch.path("home/.config/parhelia/parhelia.toml"), text.as_bytes()).unwrap();
    }

    /// Servers that the user has configured.
    pub fn of_user(&self, servers: &Value) {
        write(&self.scratch.path("home/.claude.json"), json!({ "mcpServers": servers }).to_string().as_bytes()).unwrap();
    }

    /// Servers that the workspace has.
    pub fn of_project(&self, servers: &Value) {
        write(&self.workspace.join(".mcp.json"), json!({ "mcpServers": servers }).to_string().as_bytes()).unwrap();
    }

    /// A server behind a proxy, which nobody has talked to yet. What it says to people goes to a file.
    pub fn begun(&self, name: &str, server: &Words) -> Client {
        let mut command = self.scratch.command(&["mcp-proxy", "--name", name, "--"]);
        let said = File::create(self.scratch.path(&format!("{name}.log"))).unwrap();
        Client::start(command.args(server).current_dir(&self.workspace).stderr(said))
    }

    /// The same, once the server and we have said hello.
    pub fn proxied(&self, name: &str, server: &Words) -> Client {
        let mut client = self.begun(name, server);
        client.hello();
        client
    }

    /// The words of the server of this name, and of its proxy, to people.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.scratch.path(&format!("{name}.log"))).unwrap()
    }

    /// Makes a checkpoint.
    pub fn create(&self) -> Output {
        self.scratch.run(&["checkpoint", "create", &self.session, "--workspace", self.workspace.to_str().unwrap(), "--json"])
    }

    /// Makes a checkpoint, which must exit with `code`; returns its id, and what it has of the servers.
    pub fn checkpoint(&self, code: i32) -> (String, Value) {
        let output = self.create();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
        let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
        let id = last["id"].as_str().unwrap_or_else(|| panic!("{}", shown(&output))).to_owned();
        let servers = self.state(&id, "mcp/servers.json").map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
        (id, servers.map(|servers| servers["servers"].clone()).unwrap_or_default())
    }

    /// A file that a checkpoint has beside the workspace.
    pub fn state(&self, checkpoint: &str, path: &str) -> Option<Vec<u8>> {
        let store = parhelia_ledger::open(&self.scratch.store(), &Default::default()).unwrap();
        let record = find(&store.view(), checkpoint).unwrap();
        state_bytes(&store, &record, path).unwrap()
    }

    /// A state that waits for a server.
    pub fn leave(&self, name: &str, text: &str) {
        let state = State { text: text.into(), mime_type: None, is_base64: false };
        let pending = PendingState {
            name: name.into(),
            session: self.session.clone(),
            workspace: self.workspace.clone(),
            checkpoint: "an-earlier-one".into(),
            since: parhelia_store::clock::timestamp(),
            state,
        };
        leave(&self.scratch.store(), &self.session, &[pending]).unwrap();
    }
}

/// The processes that a process has started and that have not ended.
pub fn children(process: i32) -> Vec<i32> {
    let tasks = fs::read_dir(Path::new("/proc").join(process.to_string()).join("task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>()).collect()
}
