//! Claude Code.

mod argv;
mod deeds;
mod files;
mod message;
mod open;
mod place;
mod record;
mod secrets;
mod window;
mod words;

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    edited::without_mark,
    error::{Error, IoContext, Result},
    folder::FolderNames,
    hooks::{Release, command::HookCommand, settings::settings_json},
    id::is_session_id,
    kind::{Abilities, AgentKind, Argv, Events, Files, Hooks, Transcript, TranscriptLocation},
    said::{AgentProcess, UnseenAgent},
    secrets::SecretFiles,
    transcript::{index::Format, json::Object, raw::RawSet, records::Records},
    trouble::{Signs, Trouble},
    words::{Bypass, Resume, Takes, Words},
};

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
    ("PreToolUse", 20),
    ("SubagentStop", 20),
    ("PermissionRequest", 20),
    ("Notification", 20),
    ("CwdChanged", 20),
    ("SessionEnd", 10),
];

/// Events that not all releases know, and the first one that does. Releases until 2.1.89 at least refuse a whole file with another one.
const SINCE: [(&str, Release); 3] =
    [("PermissionRequest", Release(2, 0, 45)), ("StopFailure", Release(2, 1, 78)), ("CwdChanged", Release(2, 1, 83))];
/// A release that cannot be told is taken for one from this on.
const ASSUMED: Release = Release(2, 1, 78);

/// Notifications that say that it waits for a person, or idles.
const NOTIFICATIONS: &str = "permission_prompt|idle_prompt|elicitation_dialog|worker_permission_prompt|agent_needs_input";

/// Tools by which it asks a person something, and waits for the answer.
const QUESTIONS: &str = "AskUserQuestion|ExitPlanMode";

/// The settings of the machine's administrator.
const MANAGED: &str = "/etc/claude-code/managed-settings.json";

/// Its records. Whatever no other kind's records are may be its own.
pub(super) const RECORDS: Records = Records {
    apply: |index, line, offset| index.apply_claude(line, offset),
    messages: |record, _, bytes_max| Some(message::messages(record, bytes_max)),
    window: |record, reading| {
        if is_its_own(record) {
            window::window(record, reading);
        }
        true
    },
};

/// True of a record that no subagent has written into the file of the agent that started it.
fn is_its_own(record: &Object) -> bool {
    !record.is_true("isSidechain") && record.is_null_or_absent("parent_tool_use_id")
}

/// Claude Code by Anthropic; its binary is `claude`.
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
}

impl Argv for Claude {
    fn program_name(&self) -> &str {
        "claude"
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

    fn printed(&self, words: &Words) -> Option<Format> {
        argv::printed(words).then_some(Format::StreamJson)
    }

    fn is_persistent(&self, words: &Words) -> bool {
        !words.has(&["--no-session-persistence"])
    }

    fn works_unseen(&self, words: &Words) -> Option<&'static str> {
        argv::works_unseen(words)
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

    fn file_flags(&self) -> &'static [&'static str] {
        &["--settings"]
    }

    fn launch(&self, words: &Words, conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString> {
        argv::launch(words, conversation, hooks)
    }

    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString> {
        argv::resume(words, resume)
    }

    fn prompt_words(&self, prompt: &str, _is_headless: bool) -> Vec<OsString> {
        argv::prompt_words(prompt)
    }

    /// It takes one `--settings`: the user's own have our hooks behind theirs, in a private file, as everybody can read a command line.
    fn hook_arguments(
        &self,
        words: &Words,
        (command, release): (&HookCommand, Option<Release>),
        folder: &Path,
        keep: &dyn Fn(&str) -> io::Result<PathBuf>,
    ) -> Result<Vec<OsString>> {
        let ours = settings_json(command, &Claude, release);
        let settings = match words.flag(&["--settings"]).and_then(<[OsString]>::first) {
            None => ours.to_string().into(),
            Some(own) => keep(&merged(own, folder, ours)?).at("keep the agent's", Path::new("--settings"))?.into_os_string(),
        };
        Ok(vec!["--settings".into(), settings])
    }

    fn signs(&self) -> Signs {
        SIGNS
    }

    fn unknown_conversation(&self, conversation: &str) -> Vec<String> {
        vec![format!("No conversation found with session ID: {conversation}")]
    }
}

impl Hooks for Claude {
    fn events(&self) -> Events {
        EVENTS
    }

    fn knows_event(&self, event: &str, release: Option<Release>) -> bool {
        let since = SINCE.iter().find(|(known, _)| *known == event).map(|(_, since)| *since);
        since.is_none_or(|since| release.unwrap_or(ASSUMED) >= since)
    }

    fn release(&self, search: Option<&OsStr>) -> Option<Release> {
        Release::located(OsStr::new("claude"), search)
    }

    fn matcher(&self, event: &str) -> Option<&'static str> {
        match event {
            "PreToolUse" => Some(QUESTIONS),
            "Notification" => Some(NOTIFICATIONS),
            _ => None,
        }
    }

    fn start_sources(&self) -> &'static [&'static str] {
        &["startup", "resume", "clear", "compact"]
    }

    fn hook_file(&self, folder: &Path) -> PathBuf {
        folder.join("settings.json")
    }

    fn hook_layers(&self, config: Option<&Path>, workspace: &Path) -> Vec<(&'static str, PathBuf)> {
        let project = workspace.join(self.folder_names().in_home);
        let own = [
            ("managed", PathBuf::from(MANAGED)),
            ("local", project.join("settings.local.json")),
            ("project", self.hook_file(&project)),
        ];
        own.into_iter().chain(config.map(|config| ("user", self.hook_file(config)))).collect()
    }

    fn tool_variable(&self) -> Option<&'static str> {
        Some("CLAUDECODE")
    }
}

impl Files for Claude {
    fn servers_of_user(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        place::own_file(variable)
    }

    fn servers_of_project(&self, project: &Path) -> Option<PathBuf> {
        Some(project.join(".mcp.json"))
    }

    fn folder_names(&self) -> FolderNames {
        FolderNames { variable: "CLAUDE_CONFIG_DIR", in_home: ".claude", in_variable: None }
    }

    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
        secrets::secrets(self.folder_names(), variable)
    }
}

impl Transcript for Claude {
    fn said_by(&self, config: &Path, process: i32) -> Option<AgentProcess> {
        open::said_by(config, process)
    }

    fn live(&self, config: &Path, conversation: &str) -> Vec<AgentProcess> {
        open::live(config, conversation)
    }

    fn unseen(&self, config: &Path, conversation: &str) -> Vec<UnseenAgent> {
        open::unseen(config, conversation)
    }

    fn format(&self) -> Format {
        Format::Transcript
    }

    fn subagent_format(&self) -> Format {
        Format::Subagent
    }

    fn located(&self, transcript: &Path) -> Option<TranscriptLocation> {
        let id = transcript.file_stem().and_then(OsStr::to_str).filter(|_| transcript.extension() == Some(OsStr::new("jsonl")));
        let id = id.filter(|id| is_session_id(id))?;
        let projects =
            transcript.parent().and_then(Path::parent).filter(|folder| folder.file_name() == Some(OsStr::new(place::PROJECTS)));
        let config = projects.and_then(Path::parent).map(Path::to_owned);
        let (transcript, agent_session) = (transcript.to_owned(), id.to_owned());
        Some(TranscriptLocation { kind: &Claude, transcript, agent_session, config, others: Vec::new() })
    }

    fn copies(&self, config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
        place::copies(config, conversation)
    }

    fn place(&self, config: &Path, folder: &Path, conversation: &str) -> PathBuf {
        place::transcript_path(config, folder, conversation)
    }

    fn beside(&self, located: &TranscriptLocation, found: &mut RawSet) {
        files::beside(located, found);
    }

    fn destination(&self, name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf> {
        files::destination(name, config, folder, conversation)
    }

    fn is_shared(&self, name: &Path) -> bool {
        files::is_shared(name)
    }
}

/// No more of settings is read, in bytes. What is longer is no JSON by that.
const SETTINGS_BYTES_MAX: u64 = 16 << 20;

/// True of settings that are a text, and no file's name. The agent takes a byte order mark before them.
fn is_inline(own: &OsStr) -> bool {
    without_mark(&own.to_string_lossy()).trim_start().starts_with('{')
}

/// The user's own settings, a text or a file, with our hooks behind theirs. A relative path begins in the folder of the agent, else of the caller.
fn merged(own: &OsStr, folder: &Path, ours: Value) -> Result<String> {
    let inline = own.to_string_lossy();
    let named = if is_inline(own) { "" } else { &*inline };
    let text = match is_inline(own) {
        true => inline.clone().into_owned(),
        false if own.is_empty() => return Err(Error::Invalid("the agent's --settings are empty; give a file or JSON".into())),
        false => {
            let of_agent = folder.join(own);
            let path = if of_agent.exists() { of_agent.as_path() } else { Path::new(own) };
            let mut text = String::new();
            let file = fs::File::open(path).at("read the agent's --settings", path)?;
            io::Read::read_to_string(&mut io::Read::take(file, SETTINGS_BYTES_MAX), &mut text).at("read", path)?;
            text
        }
    };
    let of = if named.is_empty() { String::new() } else { format!(" {named}") };
    let bad = |reason: String| Error::Invalid(format!("the agent's --settings{of} cannot be used: {reason}"));
    let mut settings: Value = serde_json::from_str(without_mark(&text)).map_err(|e| bad(e.to_string()))?;
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
