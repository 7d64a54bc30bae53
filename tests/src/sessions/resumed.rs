//! An agent that goes on with a session, and knows nothing of it: with what parhelia tells it, and without.

use std::process::Output;

use parhelia_knowledge::window::tokenizer;
use serde_json::{Value, json};

use super::{play::Played, script::Script};
use crate::{
    agent::{Agent, Block, Exchange, Reply, tool},
    live::shown,
};

/// The words with which the user has it go on.
const GO_ON: &str = "Please go on with what you were doing.";
/// The most lines that a call prints of the earlier conversation, and the most characters of each.
const LINES_MAX: usize = 20;
const CHARACTERS_MAX: usize = 1_500;

/// What an agent needed until it knew enough to go on.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Calls of tools.
    pub calls: usize,
    /// Tokens of its first request, system prompt and descriptions of tools left out.
    pub at_first: usize,
    /// Tokens of its last request.
    pub tokens: usize,
    /// Of the facts of the script, in their order, whether it was told them before its first call.
    pub told: Vec<bool>,
    /// The same at the end.
    pub known: Vec<bool>,
    /// What it was told.
    pub briefing: String,
}

/// Has a new conversation go on with the session through `session resume`. Its agent reads what is needed and was not told: files of the
/// next step, and of each missing fact the lines of the earlier conversation that name it.
pub fn resumed_briefed(played: &Played, script: &Script) -> Cost {
    let live = &played.live;
    let transcript = played.transcript();
    let seen = live.api.exchanges().len();
    let (files, facts) = (script.needs.clone(), script.facts.clone());
    let workspace = live.agent.workspace();
    let mut waiting: Option<Vec<Block>> = None;
    live.api.answer_with(move |request| {
        let told = texts(&request["messages"]).join("\n");
        let waiting = waiting.get_or_insert_with(|| {
            let read = |name: &String| tool("Read", json!({ "file_path": workspace.join(name) }));
            let find = |word: &str| {
                let line = format!(
                    "grep -i -h -m {LINES_MAX} -e '{}' '{transcript}' | cut -c 1-{CHARACTERS_MAX}",
                    word.replace('\'', ".")
                );
                tool("Bash", json!({ "command": line }))
            };
            let missing_files = files.iter().filter(|name| !is_given(&told, name)).map(read);
            let words = facts.iter().filter(|fact| !fact.is_in(&told)).filter_map(|fact| fact.words.first()?.split('|').next());
            let blocks: Vec<Block> = missing_files.chain(words.map(find)).collect();
            blocks.into_iter().rev().collect()
        });
        waiting.pop().map_or_else(|| Reply::text("Now I know enough."), |call| Reply::of([call]))
    });
    let output = live.run(&["session", "resume", &played.session, "--new-conversation", "--prompt", GO_ON]);
    cost(played, script, seen, &output)
}

/// Has a new conversation begin in the same folder, without parhelia. Its agent looks at git, and reads again what the one before had read.
pub fn resumed_bare(played: &Played, script: &Script) -> Cost {
    let live = &played.live;
    let seen = live.api.exchanges().len();
    let git = tool("Bash", json!({ "command": "git status --short; git log --oneline -10; git diff" }));
    let mut waiting: Vec<Block> = played.looked.iter().rev().cloned().chain([git]).collect();
    live.api.answer_with(move |_| waiting.pop().map_or_else(|| Reply::text("I have seen all."), |call| Reply::of([call])));
    let mut command = live.agent.command(&Agent::headless(GO_ON));
    let output = command.output().unwrap_or_else(|e| panic!("cannot run the agent: {e}"));
    cost(played, script, seen, &output)
}

impl Played {
    /// The transcript of the conversation that was killed.
    fn transcript(&self) -> String {
        let found = self.live.api.exchanges().into_iter().find_map(|exchange| exchange.session);
        let conversation = found.unwrap_or_else(|| panic!("no conversation"));
        self.live.agent.transcript(&conversation).to_string_lossy().into_owned()
    }
}

fn cost(played: &Played, script: &Script, seen: usize, output: &Output) -> Cost {
    assert!(output.status.success(), "{}", shown(output));
    let exchanges: Vec<Exchange> = played.live.api.exchanges().split_off(seen);
    let (Some(first), Some(last)) = (exchanges.first(), exchanges.last()) else { panic!("the agent asked nothing") };
    let calls = exchanges.iter().map(|exchange| exchange.calls().len()).sum();
    let texts_of = |exchange: &Exchange| texts(&exchange.request["messages"]);
    let (told, all) = (texts_of(first), texts_of(last));
    let is_in = |texts: &[String]| {
        let text = texts.join("\n");
        script.facts.iter().map(|fact| fact.is_in(&text)).collect::<Vec<bool>>()
    };
    let count = |texts: &[String]| texts.iter().map(|text| tokenizer::count(text)).sum();
    Cost { calls, at_first: count(&told), tokens: count(&all), told: is_in(&told), known: is_in(&all), briefing: told.join("\n") }
}

/// True if a briefing has a file's text, or all changes of it.
fn is_given(told: &str, name: &str) -> bool {
    told.lines().any(|line| line.starts_with(&format!("### {name} (")) && !line.ends_with("(some of its changes)"))
}

/// All texts of messages: what was said, calls with their arguments, and results.
fn texts(messages: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for message in messages.as_array().into_iter().flatten() {
        match &message["content"] {
            Value::String(text) => found.push(text.clone()),
            blocks => blocks.as_array().into_iter().flatten().for_each(|block| found.extend(block_texts(block))),
        }
    }
    found
}

fn block_texts(block: &Value) -> Vec<String> {
    match block["type"].as_str() {
        Some("tool_use") => vec![block["input"].to_string()],
        Some("tool_result") => match &block["content"] {
            Value::String(text) => vec![text.clone()],
            blocks => blocks.as_array().into_iter().flatten().flat_map(block_texts).collect(),
        },
        _ => block["text"].as_str().map(str::to_owned).into_iter().collect(),
    }
}
