//! Real agents are killed in a turn, some of them with who stands beside them; the home folder of half of them is elsewhere afterwards. Resumed,
//! each asks its model with the conversation that it had.
//!
//! The ordinary run takes one round for each agent; `PARHELIA_LONG=N` takes ten for each.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use parhelia_agent::process::{all, command_of, parent};
use parhelia_tests::{
    agent::{Agent, AgentHome, Api, Codex, Gemini, Opencode, Reply, text, tool},
    live::{Live, kill, lives, shown, wait},
    long,
};
use serde_json::{Value, json};

/// Rounds of each agent in the long run.
const ROUNDS: u64 = 10;

/// An agent of a kind, with its home and its API.
trait Kind: Sized {
    const NAME: &'static str;
    /// The tool that runs commands, and the name of its argument.
    const TOOL: (&'static str, &'static str);
    /// Number of its processes, each a child of the one before.
    const PROCESSES: usize = 1;

    fn new() -> Option<(Api, Self)>;
    fn folder(&self) -> PathBuf;
    fn home(&self) -> PathBuf;
    fn workspace(&self) -> PathBuf;
    /// `session run` of a headless turn.
    fn run(&self, prompt: &str) -> Command;
    /// A command of ours in its environment.
    fn command(&self, arguments: &[&str]) -> Command;
}

struct ClaudeCode(Live);

impl Kind for ClaudeCode {
    const NAME: &'static str = "Claude Code";
    const TOOL: (&'static str, &'static str) = ("Bash", "command");

    fn new() -> Option<(Api, Self)> {
        let live = Live::new()?;
        Some((live.api.clone(), ClaudeCode(live)))
    }

    fn folder(&self) -> PathBuf {
        self.0.agent.folder()
    }

    fn home(&self) -> PathBuf {
        self.0.agent.home()
    }

    fn workspace(&self) -> PathBuf {
        self.0.agent.workspace()
    }

    fn run(&self, prompt: &str) -> Command {
        let (program, workspace) = (self.0.agent.program().to_string_lossy().into_owned(), self.workspace());
        let mut arguments: Vec<String> = ["session", "run", "--workspace"].map(str::to_owned).to_vec();
        arguments.extend([workspace.to_string_lossy().into_owned(), "--".into(), program]);
        arguments.extend(Agent::headless(prompt));
        self.0.command(&arguments)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.0.command(arguments)
    }
}

/// The same for an agent that has everything in a folder of its own.
macro_rules! with_folder {
    ($agent:ident, $name:literal, $tool:expr, $processes:literal, $command:expr, |$its:ident, $prompt:ident| $run:expr) => {
        impl Kind for $agent {
            const NAME: &'static str = $name;
            const TOOL: (&'static str, &'static str) = $tool;
            const PROCESSES: usize = $processes;

            fn new() -> Option<(Api, Self)> {
                let api = Api::start([]);
                let made = $agent::new(&api)?;
                Some((api, made))
            }

            fn folder(&self) -> PathBuf {
                (**self).folder()
            }

            fn home(&self) -> PathBuf {
                (**self).home()
            }

            fn workspace(&self) -> PathBuf {
                (**self).workspace()
            }

            fn run(&self, $prompt: &str) -> Command {
                let $its = self;
                $run
            }

            fn command(&self, arguments: &[&str]) -> Command {
                $command(self, arguments)
            }
        }
    };
}

with_folder!(Codex, "Codex", ("exec_command", "cmd"), 1, AgentHome::command, |codex, prompt| codex.run(&[], prompt));
// It starts itself once more, and works there.
with_folder!(Gemini, "Gemini CLI", ("run_shell_command", "command"), 2, AgentHome::command, |gemini, prompt| gemini.run(prompt));
with_folder!(Opencode, "opencode", ("bash", "command"), 1, Opencode::command, |opencode, prompt| opencode.run(prompt));

/// A call that runs a command, after some words.
fn call<K: Kind>(words: &str, command: &str) -> Reply {
    let (name, argument) = K::TOOL;
    let mut input = json!({ "description": "a test" });
    input[argument] = json!(command);
    if K::NAME == Codex::NAME {
        input = json!({ "cmd": command, "yield_time_ms": 600_000 });
    }
    Reply::of([text(words), tool(name, input)])
}

/// The processes of an agent, the one that was started first at the beginning.
fn processes<K: Kind>(supervisor: &Child) -> Vec<i32> {
    let mut above = i32::try_from(supervisor.id()).unwrap();
    let mut found = Vec::new();
    // What passes on that a headless agent prints stands beside it.
    let is_relay = |process: i32| command_of(process).iter().any(|word| word == "relay-of-agent");
    for _ in 0..K::PROCESSES {
        let is_below = |process: &i32| parent(*process) == Some(above) && !is_relay(*process);
        above = wait(|| all().into_iter().map(|one| one.process).find(is_below));
        found.push(above);
    }
    found
}

/// The ids of the conversations of the only session, and the session's.
fn session(agent: &impl Kind, home: &Path) -> (String, Vec<Value>) {
    let output = agent.command(&["session", "list", "--json"]).env("HOME", home).output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut sessions: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|line: &Value| line["type"] == "session").collect();
    assert_eq!(sessions.len(), 1, "{}", shown(&output));
    let session = sessions.remove(0);
    let conversations = session["conversations"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    (session["id"].as_str().unwrap().to_owned(), conversations)
}

/// One round; returns what is wrong.
fn round<K: Kind>(agent: &K, api: &Api, number: u64) -> Result<(), String> {
    let (is_moved, is_alone) = (number.is_multiple_of(2), (number / 2).is_multiple_of(2));
    let (prompt, word) = (format!("begin PROMPT-{number}."), format!("ANSWER-{number}"));
    // The second call never ends: its agent is killed meanwhile.
    let hangs = "echo begun > begun.txt; while :; do sleep 0.1; done";
    api.then([call::<K>(&format!("I say {word}."), "echo first"), call::<K>("I begin.", hangs)]);
    let mut child = agent.run(&prompt).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| agent.workspace().join("begun.txt").exists().then_some(()));
    let processes = processes::<K>(&child);
    if is_alone {
        child.kill().unwrap();
    }
    for process in processes.iter().rev() {
        kill(*process);
    }
    child.wait().unwrap();
    wait(|| processes.iter().all(|process| !lives(*process)).then_some(()));

    let mut home = agent.home();
    if is_moved {
        let moved = agent.folder().join("moved");
        fs::rename(&home, &moved).unwrap();
        home = moved;
    }
    let (id, before) = session(agent, &home);
    let seen = api.exchanges().len();
    api.then([Reply::text("I go on.")]);
    let output = agent.command(&["session", "resume", &id, "--prompt", "finish it"]).env("HOME", &home).output().unwrap();
    let said = shown(&output);
    let fails =
        |what: &str| Err(format!("{}, round {number}, home moved {is_moved}, nobody beside it {is_alone}: {what}", K::NAME));
    if !output.status.success() {
        return fails(&format!("it was not resumed: {said}"));
    }
    let exchanges = api.exchanges();
    let Some(asked) = exchanges.get(seen).map(|exchange| exchange.request.to_string()) else {
        return fails(&format!("it asked nothing: {said}"));
    };
    // The briefing tells the prompt; what the agent has said is in the conversation alone.
    if let Some(missing) = [prompt.as_str(), &word, "finish it"].into_iter().find(|part| !asked.contains(part)) {
        return fails(&format!("{missing:?} is not in what it asked: {asked}\n{said}"));
    }
    let (_, after) = session(agent, &home);
    if before.first() != after.last() && !before.is_empty() || after.len() != 1 {
        return fails(&format!("conversations {before:?}, and then {after:?}"));
    }
    if is_moved && agent.home().exists() {
        return fails("the old home was made again");
    }
    Ok(())
}

fn rounds<K: Kind>() {
    let (mut whole, mut wrong) = (0, Vec::new());
    let count = if long() > 0 { ROUNDS } else { 1 };
    for number in 0..count {
        let Some((api, agent)) = K::new() else { return };
        match round(&agent, &api, number) {
            Ok(()) => whole += 1,
            Err(what) => {
                eprintln!("{what}");
                wrong.push(what);
            }
        }
    }
    eprintln!("{}: the same conversation {whole} times of {count}", K::NAME);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn claude_code_goes_on_in_its_conversation() {
    rounds::<ClaudeCode>();
}

#[test]
fn codex_goes_on_in_its_conversation() {
    rounds::<Codex>();
}

#[test]
fn gemini_cli_goes_on_in_its_conversation() {
    rounds::<Gemini>();
}

#[test]
fn opencode_goes_on_in_its_conversation() {
    rounds::<Opencode>();
}
