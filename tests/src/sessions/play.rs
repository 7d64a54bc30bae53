//! Playing a session up to the place where its agent is killed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use serde_json::{Value, json};

use super::script::{Script, Step, Turn, sources};
use crate::{
    agent::{Block, Reply, text, tool},
    live::{Live, kill, wait},
};

/// A session whose agent was killed.
#[derive(Debug)]
pub struct Played {
    /// The agent, the API and the store.
    pub live: Live,
    /// The session.
    pub session: String,
    /// The calls by which its agent had read files and searched, each once.
    pub looked: Vec<Block>,
    /// Calls of tools in all.
    pub calls: usize,
}

/// Plays a script; none where the agent CLI cannot be had.
pub fn play(script: &Script) -> Option<Played> {
    let live = Live::new()?;
    let workspace = live.agent.workspace();
    prepare(script, &workspace);
    let mut running = Running::start(&live);
    let mut tasks = Vec::new();
    let (last, turns) = script.turns.split_last().unwrap_or_else(|| panic!("{}: no turns", script.name));
    for turn in turns {
        live.api.then(replies(turn, &workspace, &mut tasks));
        running.turn(&turn.prompt);
    }
    let hanging = live.agent.folder().join("hanging");
    let command = format!("touch '{}' && sleep 3600", hanging.display());
    let mut replies = replies(last, &workspace, &mut tasks);
    replies.pop();
    live.api.then(replies.into_iter().chain([Reply::of([tool("Bash", json!({ "command": &command, "timeout": 600_000 }))])]));
    running.say(&last.prompt);
    wait(|| hanging.exists().then_some(()));
    // It writes its transcript some time behind.
    let conversation = live.api.exchanges().into_iter().find_map(|exchange| exchange.session).unwrap_or_default();
    let transcript = live.agent.transcript(&conversation);
    wait(|| fs::read_to_string(&transcript).is_ok_and(|text| text.contains(&command)).then_some(()));
    kill(live.agent_process());
    running.ended();
    let session = live.session();
    let steps = script.turns.iter().flat_map(|turn| &turn.steps);
    let mut looked: Vec<(String, Block)> = Vec::new();
    for step in steps.clone().filter(|step| step.read.is_some() || step.grep.is_some()) {
        let Some(block) = blocks(step, &workspace, &mut Vec::new()).pop() else { continue };
        let key = format!("{block:?}");
        if !looked.iter().any(|(known, _)| *known == key) {
            looked.push((key, block));
        }
    }
    let looked = looked.into_iter().map(|(_, block)| block).collect();
    Some(Played { live, session, looked, calls: steps.count() + 1 })
}

/// Makes the workspace: a git repository with the crate's sources.
fn prepare(script: &Script, workspace: &Path) {
    let from = sources(&script.krate).unwrap_or_else(|e| panic!("{}: {e}", script.name));
    copy(&from, workspace);
    for file in &script.files {
        let path = workspace.join(&file.path);
        write(&path, &file.text);
    }
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "As it was"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments).current_dir(workspace);
        let status = git.status().unwrap_or_else(|e| panic!("cannot run git: {e}"));
        assert!(status.success(), "git {arguments:?}");
    }
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn copy(from: &Path, to: &Path) {
    let entries = fs::read_dir(from).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        let target = to.join(path.file_name().unwrap_or_default());
        let is_cargos = path.file_name().is_some_and(|name| name == ".cargo-ok" || name == ".cargo_vcs_info.json");
        let copied = match path.is_dir() {
            true => fs::create_dir_all(&target).map(|()| copy(&path, &target)),
            false if is_cargos => Ok(()),
            false => fs::read(&path).and_then(|bytes| fs::write(&target, bytes)),
        };
        copied.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// The model's answers in a turn: one for each call, and the reply.
fn replies(turn: &Turn, workspace: &Path, tasks: &mut Vec<String>) -> Vec<Reply> {
    let calling = turn.steps.iter().map(|step| {
        let said = step.say.iter().map(|words| text(words));
        Reply::of(said.chain(blocks(step, workspace, tasks)))
    });
    let calling: Vec<Reply> = calling.collect();
    calling.into_iter().chain([Reply::text(&turn.reply)]).collect()
}

/// The calls of a step. `tasks` are those of the agent's list so far, of which each has its place as its id.
fn blocks(step: &Step, workspace: &Path, tasks: &mut Vec<String>) -> Vec<Block> {
    let path = |name: &str| workspace.join(name).to_string_lossy().into_owned();
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some(name) = &step.read {
        let mut input = json!({ "file_path": path(name) });
        for (name, number) in [("offset", step.offset), ("limit", step.limit)] {
            if let Some(number) = number {
                input[name] = json!(number);
            }
        }
        vec![tool("Read", input)]
    } else if let Some(pattern) = &step.grep {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let command = format!("grep -rnE -e {} {}", quoted(pattern), quoted(&words(&step.path)));
        vec![tool("Bash", json!({ "command": command, "description": "Searches" }))]
    } else if let Some(command) = &step.run {
        vec![tool("Bash", json!({ "command": command, "description": "Runs a command" }))]
    } else if let Some(name) = &step.edit {
        vec![tool("Edit", json!({ "file_path": path(name), "old_string": words(&step.old), "new_string": words(&step.new) }))]
    } else if let Some(name) = &step.write {
        vec![tool("Write", json!({ "file_path": path(name), "content": words(&step.text) }))]
    } else {
        let mut calls = Vec::new();
        for (subject, status) in step.todo.iter().flatten() {
            let known = tasks.iter().position(|task| task == subject);
            if known.is_none() {
                tasks.push(subject.clone());
                calls.push(tool("TaskCreate", json!({ "subject": subject, "description": subject })));
            }
            if known.is_some() || status != "pending" {
                let id = known.map_or(tasks.len(), |place| place + 1).to_string();
                calls.push(tool("TaskUpdate", json!({ "taskId": id, "status": status })));
            }
        }
        calls
    }
}

/// The agent under `session run`, which takes one prompt after another.
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(live: &Live) -> Self {
        let program = live.agent.program().to_string_lossy().into_owned();
        let workspace = live.agent.workspace().to_string_lossy().into_owned();
        let mut arguments = vec!["session", "run", "--workspace", &workspace, "--", &program, "-p", "--verbose"];
        arguments.extend(["--input-format", "stream-json", "--output-format", "stream-json"]);
        arguments.extend(["--permission-mode", "bypassPermissions"]);
        let log: PathBuf = live.agent.folder().join("stderr");
        let log = fs::File::create(&log).unwrap_or_else(|e| panic!("{}: {e}", log.display()));
        let mut command = live.command(&arguments);
        command.stdin(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.unwrap_or_else(|| panic!("no pipes"));
        Running { child, input, output: BufReader::new(output) }
    }

    fn say(&mut self, prompt: &str) {
        let message = json!({ "type": "user", "message": { "role": "user", "content": prompt } });
        writeln!(self.input, "{message}").and_then(|()| self.input.flush()).unwrap_or_else(|e| panic!("the agent is gone: {e}"));
    }

    /// A turn to its end.
    fn turn(&mut self, prompt: &str) {
        self.say(prompt);
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap_or_else(|e| panic!("the agent's output: {e}"));
            assert!(read > 0, "the agent ended before the turn did");
            let said: Value = serde_json::from_str(&line).unwrap_or_default();
            if said["type"] == "result" {
                assert_eq!(said["is_error"], false, "{line}");
                return;
            }
        }
    }

    fn ended(mut self) {
        drop(self.input);
        let _ = std::io::copy(&mut self.output, &mut std::io::sink());
        let status = self.child.wait().unwrap_or_else(|e| panic!("cannot wait: {e}"));
        assert_eq!(status.code(), Some(137), "the agent was killed");
    }
}
