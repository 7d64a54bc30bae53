//! Claude Code.

mod argv;
mod deeds;
mod files;
mod open;
mod place;
mod record;
mod secrets;
mod window;
mod words;

pub(crate) use window::window;

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    command::{Bypass, Resume, Takes, Words},
    error::{Error, IoContext, Result},
    hooks::{Events, HookCommand, settings_json},
    kind::{Abilities, AgentKind, FolderNames},
    mcp,
    open::{Said, Unseen},
    secrets::SecretFiles,
    transcript::{Format, Located, files::RawSet, locate::is_session_id},
    trouble::{Signs, Trouble},
};

/// The folder of its conversations, in its own.
const PROJECTS: &str = "projects";

const SIGNS: Signs = &[
    (Trouble::NoConversation, &["no conversation found with session id", "no conversation found to continue"]),
    (Trouble::AlreadyInUse, &["is already in use", "currently running as a background agent"]),
    (
        Trouble::Trust,
        &["do you trust the files in this folder", "is this a project you created or one you trust", "quick safety check"],
    ),
    (Trouble::ApiKey, &["detected a custom api key in your environment", "do you want to use this api key"]),
    (Trouble::BypassWarning, &["running in bypass permissions mode"]),
    (
        Trouble::Login,
        &[
            "select login method",
            "please run /login",
            "not logged in",
            "login successful. press enter",
            "paste code here if prompted",
        ],
    ),
    (Trouble::FirstStart, &["choose the text style that looks best", "let's get started", "choose an option to begin"]),
    (Trouble::Picker, &["resume session", "resume a conversation"]),
];

const EVENTS: Events = &[
    ("SessionStart", 20),
    ("UserPromptSubmit", 20),
    ("Stop", 20),
    ("StopFailure", 20),
    ("PreCompact", 20),
    ("SubagentStop", 20),
    ("SessionEnd", 10),
];

/// Claude Code.
#[derive(Debug)]
pub struct Claude;

impl AgentKind for Claude {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pins_conversation: true,
            trusts_given_hooks: true,
            brings_hooks: true,
            keeps_told_prompt: true,
            leaves_word: true,
        }
    }

    fn is_program(&self, word: &OsStr) -> bool {
        argv::is_program(word)
    }

    fn takes(&self, flag: &str) -> Takes {
        words::takes(flag)
    }

    fn is_conversing(&self, words: &Words) -> bool {
        argv::is_conversing(words)
    }

    fn is_headless(&self, words: &Words, _at_terminal: bool) -> bool {
        words.has(&["--print", "-p"])
    }

    fn is_persistent(&self, words: &Words) -> bool {
        !words.has(&["--no-session-persistence"])
    }

    fn has_hooks(&self, words: &Words) -> bool {
        !words.has(&["--bare", "--safe-mode"])
    }

    fn permission_mode(&self, words: &Words) -> Option<String> {
        argv::permission_mode(words)
    }

    fn bypass(&self, words: &Words) -> Option<Bypass> {
        argv::bypass(words)
    }

    fn conversation(&self, words: &Words) -> Option<String> {
        argv::conversation(words)
    }

    fn chooses_itself(&self, words: &Words) -> bool {
        argv::chooses_itself(words)
    }

    fn mcp_config(&self, words: &Words) -> Vec<PathBuf> {
        argv::mcp_config(words)
    }

    fn launch(&self, words: &Words, conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString> {
        argv::launch(words, conversation, hooks)
    }

    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString> {
        argv::resume(words, resume)
    }

    /// It takes one `--settings`: the user's own have our hooks behind theirs.
    fn hook_arguments(&self, words: &Words, command: &HookCommand) -> Result<Vec<OsString>> {
        let ours = settings_json(command, EVENTS);
        let settings = match words.value(&["--settings"]) {
            None => ours.to_string(),
            Some(own) => merged(&own, ours)?,
        };
        Ok(vec!["--settings".into(), settings.into()])
    }

    fn events(&self) -> Events {
        EVENTS
    }

    fn hook_file(&self, folder: &Path) -> PathBuf {
        folder.join("settings.json")
    }

    fn servers_of_user(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        mcp::own_file(variable)
    }

    fn servers_of_project(&self, project: &Path) -> Option<PathBuf> {
        Some(project.join(".mcp.json"))
    }

    fn folder_names(&self) -> FolderNames {
        FolderNames { variable: "CLAUDE_CONFIG_DIR", in_home: ".claude", is_home: false }
    }

    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
        secrets::secrets(variable)
    }

    fn tool_variable(&self) -> Option<&'static str> {
        Some("CLAUDECODE")
    }

    fn said_by(&self, config: &Path, process: i32) -> Option<Said> {
        open::said_by(config, process)
    }

    fn live(&self, config: &Path, conversation: &str) -> Vec<Said> {
        open::live(config, conversation)
    }

    fn unseen(&self, config: &Path, conversation: &str) -> Vec<Unseen> {
        open::unseen(config, conversation)
    }

    fn format(&self) -> Format {
        Format::Transcript
    }

    fn subagent_format(&self) -> Format {
        Format::Subagent
    }

    fn located(&self, transcript: &Path) -> Option<Located> {
        let id = transcript.file_stem().and_then(OsStr::to_str).filter(|_| transcript.extension() == Some(OsStr::new("jsonl")));
        let id = id.filter(|id| is_session_id(id))?;
        let projects =
            transcript.parent().and_then(Path::parent).filter(|folder| folder.file_name() == Some(OsStr::new(PROJECTS)));
        let config = projects.and_then(Path::parent).map(Path::to_owned);
        let (transcript, agent_session) = (transcript.to_owned(), id.to_owned());
        Some(Located { kind: &Claude, transcript, agent_session, config, others: Vec::new() })
    }

    fn copies(&self, config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
        place::copies(config, conversation)
    }

    fn place(&self, config: &Path, folder: &Path, conversation: &str) -> PathBuf {
        place::transcript_path(config, folder, conversation)
    }

    fn beside(&self, located: &Located, found: &mut RawSet) {
        files::beside(located, found);
    }

    fn destination(&self, name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf> {
        files::destination(name, config, folder, conversation)
    }

    fn signs(&self) -> Signs {
        SIGNS
    }

    fn unknown_conversation(&self, conversation: &str) -> Vec<String> {
        vec![format!("No conversation found with session ID: {conversation}")]
    }
}

/// No more of settings is read, in bytes. What is longer is no JSON by that.
const SETTINGS_BYTES_MAX: u64 = 16 << 20;

/// The user's own settings with our hooks behind theirs.
fn merged(own: &str, ours: Value) -> Result<String> {
    let text = match own.trim_start().starts_with('{') {
        true => own.to_owned(),
        false => {
            let mut text = String::new();
            let file = fs::File::open(own).at("read", Path::new(own))?;
            io::Read::read_to_string(&mut io::Read::take(file, SETTINGS_BYTES_MAX), &mut text).at("read", Path::new(own))?;
            text
        }
    };
    let bad = |reason: String| Error::Invalid(format!("the agent's --settings cannot be used: {reason}"));
    let mut settings: Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let Some(fields) = settings.as_object_mut() else { return Err(bad("they are no JSON object".into())) };
    let hooks = fields.entry("hooks").or_insert_with(|| Value::Object(Default::default()));
    let Some(hooks) = hooks.as_object_mut() else { return Err(bad("'hooks' is no object".into())) };
    for (event, groups) in ours["hooks"].as_object().cloned().unwrap_or_default() {
        let list = hooks.entry(event).or_insert_with(|| Value::Array(Vec::new()));
        let Some(list) = list.as_array_mut() else { return Err(bad("an event of 'hooks' is no list".into())) };
        list.extend(groups.as_array().cloned().unwrap_or_default());
    }
    Ok(settings.to_string())
}
