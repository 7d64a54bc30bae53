//! Gemini CLI.
//!
//! Its command line pins a conversation, and brings no hooks: those are installed in its settings. Tool calls stand in a chat once they are
//! over, so that a chat does not name the calls that were running when the agent died. The words of a hook at the start of a headless agent
//! are put before its prompt; of such a prompt the agent knows nothing when it is resumed.

mod argv;
mod deeds;
mod place;
mod record;
mod window;

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    error::Result,
    folder::{ConfigFolder, FolderNames},
    hooks::{command::is_ours, event::Kind},
    kind::{Abilities, AgentKind, Argv, Events, Files, Hooks, Transcript, TranscriptLocation},
    secrets::{SecretFiles, SecretFolder},
    transcript::{index::Format, raw::RawSet, records::Records},
    trouble::{Signs, Trouble},
    words::{Bypass, Resume, Takes, Words},
};

/// Its own folder in the home folder.
const IN_HOME: &str = ".gemini";
/// Its tokens and keys, in its own folder and in that of a project.
const CREDENTIALS: [&str; 5] =
    ["oauth_creds.json", "gemini-credentials.json", "mcp-oauth-tokens.json", "mcp-oauth-tokens-v2.json", "a2a-oauth-tokens.json"];
/// Tokens of other versions.
const TOKENS: &str = "mcp-oauth-tokens*.json";
/// Variables that it reads at its start, in the same folders: its key is among them.
const VARIABLES: &str = ".env";
/// Copies of those.
const VARIABLES_COPIES: &str = ".env.*";
/// Its extensions, in its own folder: each has a folder with variables of its own.
const EXTENSIONS: &str = "extensions";

const SIGNS: Signs = &[
    (Trouble::NoConversation, &["invalid session identifier", "no previous sessions found for this project"]),
    (Trouble::Trust, &["do you trust the files in this folder", "is not running in a trusted directory"]),
    (
        Trouble::Login,
        &["how would you like to authenticate", "please set an auth method", "waiting for auth", "enter gemini api key"],
    ),
];

/// In milliseconds. The event before a compression is left out, as it comes with every prompt.
const EVENTS: Events = &[("SessionStart", 20_000), ("BeforeAgent", 20_000), ("AfterAgent", 20_000), ("SessionEnd", 10_000)];

/// Its records: messages of a chat.
pub(super) const RECORDS: Records = Records {
    apply: |index, line, offset| index.apply_gemini(line, offset),
    messages: |record, repeated, bytes_max| record::is_message(record).then(|| record::messages(record, repeated, bytes_max)),
    window: |record, reading| {
        let is_message = record::is_message(record);
        if is_message {
            window::window(record, reading);
        }
        is_message
    },
};

/// Gemini CLI by Google; its binary is `gemini`.
#[derive(Debug)]
pub struct Gemini;

impl AgentKind for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn title(&self) -> &'static str {
        "Gemini CLI"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pins_conversation: true,
            trusts_given_hooks: false,
            brings_hooks: false,
            keeps_told_prompt: false,
            leaves_word: false,
        }
    }
}

impl Argv for Gemini {
    fn program_name(&self) -> &str {
        "gemini"
    }

    fn is_program(&self, word: &OsStr) -> bool {
        argv::is_program(word)
    }

    fn takes(&self, flag: &str) -> Takes {
        argv::takes(flag)
    }

    fn joins_letters(&self) -> bool {
        true
    }

    fn is_conversing(&self, words: &Words) -> bool {
        argv::is_conversing(words)
    }

    fn is_headless(&self, words: &Words, at_terminal: bool) -> bool {
        argv::is_headless(words, at_terminal)
    }

    fn ignores_terminal(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
        ["CI", "GITHUB_ACTIONS"].into_iter().any(|name| variable(name).is_some_and(|value| value == "true"))
    }

    fn is_persistent(&self, _words: &Words) -> bool {
        true
    }

    fn works_elsewhere(&self, words: &Words) -> Option<&'static str> {
        argv::works_elsewhere(words)
    }

    fn has_hooks(&self, _words: &Words) -> bool {
        true
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

    fn launch(&self, words: &Words, conversation: Option<&str>, _hooks: &[OsString]) -> Vec<OsString> {
        argv::launch(words, conversation)
    }

    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString> {
        argv::resume(words, resume)
    }

    fn prompt_words(&self, prompt: &str, is_headless: bool) -> Vec<OsString> {
        argv::prompt_words(prompt, is_headless)
    }

    fn signs(&self) -> Signs {
        SIGNS
    }

    fn unknown_conversation(&self, conversation: &str) -> Vec<String> {
        let none = "Error resuming session: No previous sessions found for this project.";
        vec![format!("Invalid session identifier \"{conversation}\""), none.to_owned()]
    }
}

impl Hooks for Gemini {
    fn events(&self) -> Events {
        EVENTS
    }

    fn hook_file(&self, folder: &Path) -> PathBuf {
        folder.join("settings.json")
    }

    fn takes_comments(&self) -> bool {
        true
    }

    fn hooks_off(&self, settings: &Value) -> Option<&'static str> {
        let config = &settings["hooksConfig"];
        match config["enabled"] == false {
            true => Some("hooksConfig.enabled"),
            false => is_listed(&config["disabled"], &settings["hooks"]).then_some("hooksConfig.disabled"),
        }
    }

    fn event(&self, name: &str) -> Option<Kind> {
        match name {
            "BeforeAgent" => Some(Kind::Prompt),
            "AfterAgent" => Some(Kind::Stop),
            _ => None,
        }
    }

    fn tool_variable(&self) -> Option<&'static str> {
        Some("GEMINI_CLI")
    }
}

impl Files for Gemini {
    fn servers_of_user(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        ConfigFolder::by(self.folder_names(), variable).map(|found| self.hook_file(&found.path))
    }

    fn servers_of_project(&self, project: &Path) -> Option<PathBuf> {
        Some(self.hook_file(&project.join(self.folder_names().in_home)))
    }

    fn folder_names(&self) -> FolderNames {
        FolderNames { variable: "GEMINI_CLI_HOME", in_home: IN_HOME, in_variable: Some(IN_HOME) }
    }

    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
        let config = ConfigFolder::by(self.folder_names(), variable).map(|found| found.path);
        let config = config.map(|folder| folder.canonicalize().unwrap_or(folder));
        let copies = CREDENTIALS.map(|name| format!("{name}.*"));
        let own = || CREDENTIALS.into_iter().chain([VARIABLES]);
        let patterns = own().chain([TOKENS, VARIABLES_COPIES]).map(str::to_owned);
        let names: Vec<String> = patterns.chain(copies).collect();
        let variables = [VARIABLES, VARIABLES_COPIES].map(str::to_owned).to_vec();
        let extensions = config.iter().flat_map(|config| fs::read_dir(config.join(EXTENSIONS)).into_iter().flatten().flatten());
        let extensions: Vec<OsString> = extensions.map(|entry| entry.file_name()).collect();
        let inside = |folder: PathBuf| {
            let of_extension = |name| (folder.join(EXTENSIONS).join(name), variables.clone());
            std::iter::once((folder.clone(), names.clone())).chain(extensions.iter().map(of_extension)).collect::<Vec<_>>()
        };
        let folders = [PathBuf::from(IN_HOME)].into_iter().chain(config.clone()).flat_map(inside);
        SecretFiles {
            names: Vec::new(),
            folders: folders.map(|(path_end, names)| SecretFolder { path_end, beside: Vec::new(), names }).collect(),
            files: config.iter().flat_map(|folder| own().map(|name| folder.join(name))).collect(),
        }
    }
}

impl Transcript for Gemini {
    fn format(&self) -> Format {
        Format::Chat
    }

    fn located(&self, transcript: &Path) -> Option<TranscriptLocation> {
        let agent_session = place::conversation_of(transcript)?;
        let config = place::config_of(transcript).map(Path::to_owned);
        Some(TranscriptLocation { kind: &Gemini, transcript: transcript.to_owned(), agent_session, config, others: Vec::new() })
    }

    fn copies(&self, config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
        place::copies(config, conversation)
    }

    fn place(&self, config: &Path, folder: &Path, conversation: &str) -> PathBuf {
        place::place(config, folder, conversation)
    }

    fn beside(&self, located: &TranscriptLocation, found: &mut RawSet) {
        place::beside(located, found);
    }

    fn destination(&self, name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf> {
        place::destination(name, config, folder, conversation)
    }
}

/// True if one of our hooks is in a list of hooks that are off, by its name or else its command.
fn is_listed(off: &Value, hooks: &Value) -> bool {
    let groups = hooks.as_object().into_iter().flat_map(|events| events.values()).filter_map(Value::as_array).flatten();
    let hooks = groups.filter_map(|group| group["hooks"].as_array()).flatten();
    let name = |hook: &Value| {
        let command = hook["command"].as_str().filter(|command| is_ours(command))?;
        Some(hook["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(command).to_owned())
    };
    let off = |name: String| off.as_array().is_some_and(|off| off.iter().any(|listed| *listed == *name));
    hooks.filter_map(name).any(off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Agent;

    fn argv(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn agent(text: &str) -> Agent {
        Agent::of(&argv(text)).unwrap()
    }

    const ID: &str = "8b0e0f3c-5d0c-4a52-9c0e-0d6a4a1f0c11";

    #[test]
    fn a_command_line_tells_what_it_starts() {
        let inner = "/usr/bin/node --max-old-space-size=12 /opt/bundle/gemini.js -m x -p fix";
        for text in ["gemini", "gemini fix", "npx @google/gemini-cli@0.61.0 -m x", inner, "gemini -r latest"] {
            assert_eq!(agent(text).kind().name(), "gemini", "{text}");
        }
        for text in ["gemini mcp list", "gemini --list-sessions", "gemini hooks migrate", "gemini --acp", "geminix", "gemini -v"]
        {
            assert!(Agent::of(&argv(text)).is_none(), "{text}");
        }
        assert!(
            agent("gemini -p x").is_headless() && agent("gemini --prompt=x").is_headless() && !agent("gemini x").is_headless()
        );
        assert!(agent("gemini -yp x").is_headless() && agent("gemini -p=x").is_headless());
        assert_eq!(agent("gemini -yp x").bypass(), Some(Bypass::On));
        assert_eq!(agent(&format!("gemini -yr={ID}")).conversation().as_deref(), Some(ID));
        assert!(agent("gemini -r5").chooses_itself() && agent("gemini -dr latest").chooses_itself());
        assert_eq!((agent("gemini -y").bypass(), agent("gemini").bypass()), (Some(Bypass::On), None));
        assert_eq!(agent("gemini --approval-mode yolo").bypass(), Some(Bypass::On));
        assert_eq!(agent("gemini -w tree -p x").works_elsewhere(), Some("-w"));
        for text in [format!("gemini --session-id {ID}"), format!("gemini -r {ID} -p x"), format!("gemini --resume={ID}")] {
            assert_eq!(agent(&text).conversation().as_deref(), Some(ID), "{text}");
        }
        for text in ["gemini -r latest", "gemini --resume 5", "gemini -r", "gemini --session-file a.json"] {
            assert!(agent(text).chooses_itself() && agent(text).new_conversation().is_none(), "{text}");
        }
        assert!(agent("gemini -p x").new_conversation().is_some());
    }

    #[test]
    fn a_launch_pins_the_conversation_once() {
        let launch = |text: &str| agent(text).launch_argv(Some(ID), &[]);
        assert_eq!(launch("gemini -m x -p fix"), argv(&format!("gemini --session-id {ID} -m x -p fix")));
        assert_eq!(launch("gemini -yp fix"), argv(&format!("gemini --session-id {ID} -y -p fix")));
        for own in ["gemini -r=latest", "gemini --session-id other -p x", "gemini -r latest", "gemini --session-file a.json"] {
            assert_eq!(launch(own), argv(own));
        }
    }

    #[test]
    fn a_resume_says_everything_again_but_the_conversation_and_the_prompt() {
        let of = |text: &str, resume: &Resume| {
            let words: Vec<_> = agent(text).resume_argv(resume).iter().map(|w| w.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        let known = |prompt: Option<&str>| Resume {
            conversation: Some(ID.into()),
            prompt: prompt.map(str::to_owned),
            ..Resume::default()
        };
        assert_eq!(
            of("npx @google/gemini-cli --session-id x --yolo -m y -p first", &known(Some("- go on"))),
            format!("npx @google/gemini-cli --resume {ID} --yolo -m y --prompt=- go on")
        );
        assert_eq!(
            of("gemini -r latest --approval-mode=plan", &known(None)),
            format!("gemini --resume {ID} --approval-mode=plan")
        );
        assert_eq!(of("gemini -dyp first", &known(Some("go"))), format!("gemini --resume {ID} -d -y --prompt=go"));
        assert_eq!(of("gemini -m=x -r=old", &known(None)), format!("gemini --resume {ID} -m=x"));
        assert_eq!(of("gemini -i first", &known(Some("go"))), format!("gemini --resume {ID} --prompt-interactive=go"));
        let fresh = Resume { new_conversation: Some(ID.into()), prompt: Some("go".into()), ..Resume::default() };
        assert_eq!(of("gemini --resume old first", &fresh), format!("gemini --session-id {ID} --prompt-interactive=go"));
    }

    #[test]
    fn without_a_terminal_a_prompt_is_answered_and_that_is_all() {
        let alone = |text: &str| agent(text).at_terminal(false);
        assert!(alone("gemini fix").is_headless() && alone("gemini").is_headless() && !agent("gemini fix").is_headless());
        let resume = Resume { conversation: Some(ID.into()), prompt: Some("go".into()), ..Resume::default() };
        for text in ["gemini -y first", "gemini -y -i first"] {
            assert_eq!(alone(text).resume_argv(&resume), argv(&format!("gemini --resume {ID} -y --prompt=go")), "{text}");
        }
        let ignores =
            |name: &'static str, value: &'static str| Gemini.ignores_terminal(&|asked| (asked == name).then(|| value.into()));
        assert!(ignores("CI", "true") && ignores("GITHUB_ACTIONS", "true") && !ignores("CI", "1"));
    }

    #[test]
    fn its_own_words_for_events_and_settings() {
        let event = |name: &str| {
            crate::hooks::Event::parse(serde_json::json!({ "hook_event_name": name }).to_string().as_bytes()).unwrap().kind()
        };
        assert_eq!((event("BeforeAgent"), event("AfterAgent")), (Kind::Prompt, Kind::Stop));
        assert_eq!((event("SessionEnd"), event("BeforeTool")), (Kind::SessionEnd, Kind::Other));
        let off = |text: &str| Gemini.hooks_off(&serde_json::from_str(text).unwrap());
        assert_eq!(off(r#"{"hooksConfig":{"enabled":false}}"#), Some("hooksConfig.enabled"));
        let listed = |hook: &str, off_name: &str| {
            off(&format!(r#"{{"hooksConfig":{{"disabled":["{off_name}"]}},"hooks":{{"AfterAgent":[{{"hooks":[{hook}]}}]}}}}"#))
        };
        let ours = r#"{"command":"/bin/parhelia hook"}"#;
        assert_eq!(listed(ours, "/bin/parhelia hook"), Some("hooksConfig.disabled"));
        assert_eq!((listed(ours, "other hook"), listed(r#"{"command":"other"}"#, "other")), (None, None));
        assert_eq!(listed(r#"{"command":"parhelia hook","name":"mine"}"#, "mine"), Some("hooksConfig.disabled"));
        assert_eq!((off(r#"{"hooksConfig":{"enabled":true}}"#), off(r#"{"disableAllHooks":true}"#)), (None, None));
    }

    #[test]
    fn what_it_prints_tells_what_it_waits_for() {
        let seen = |screen: &str| Gemini.trouble(screen);
        let unknown = format!("Error resuming session: Invalid session identifier \"{ID}\".\n  Searched for sessions in /h");
        assert_eq!(seen(&unknown), Some(Trouble::NoConversation));
        assert!(Gemini.does_not_know(&unknown, ID) && !Gemini.does_not_know(&unknown, "another"));
        let none = "Error resuming session: No previous sessions found\nfor this project.";
        assert!(seen(none) == Some(Trouble::NoConversation) && Gemini.does_not_know(none, ID));
        assert_eq!(seen("Do you trust the files in this folder?"), Some(Trouble::Trust));
        assert_eq!(seen("> Type your message or @path/to/file"), None);
    }

    #[test]
    fn its_variable_names_the_home_folder() {
        let of = |name: &'static str| ConfigFolder::of(&Gemini, move |asked| (asked == name).then(|| "/h".into())).unwrap();
        let (by_home, by_name) = (of("HOME"), of("GEMINI_CLI_HOME"));
        assert_eq!((by_home.path.as_path(), by_name.path.as_path()), (Path::new("/h/.gemini"), Path::new("/h/.gemini")));
        assert!(by_home.is_same(&by_name) && by_home.kind().name() == "gemini" && by_name.environment(Some(&by_home)).is_empty());
        assert_eq!(by_home.environment(None), [("GEMINI_CLI_HOME".to_owned(), Some("/h".into()))]);
        let chat = Path::new("/h/.gemini/tmp/projects/chats/session-2026-11-26T13-07-8b0e0f3c.jsonl");
        let found = ConfigFolder::of_transcript(chat).unwrap();
        assert!(found.is_same(&by_home) && TranscriptLocation::from_hook(chat).unwrap().kind.name() == "gemini");
    }

    #[test]
    fn credentials_are_named_in_its_own_folders_alone() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let config = home.join(".gemini");
        fs::create_dir_all(config.join("extensions/one")).unwrap();
        let found = Gemini.secrets(&|name| (name == "GEMINI_CLI_HOME").then(|| home.clone().into()));
        let own = &found.folders[0].names;
        for name in ["oauth_creds.json", "oauth_creds.json.*", "mcp-oauth-tokens*.json", ".env", ".env.*"] {
            assert!(own.contains(&name.to_owned()), "{name}");
        }
        assert!(found.names.is_empty() && found.files.contains(&config.join("oauth_creds.json")));
        let one = config.join("extensions/one");
        let ends: Vec<_> = found.folders.iter().map(|folder| folder.path_end.clone()).collect();
        assert_eq!(ends, [Path::new(".gemini"), Path::new(".gemini/extensions/one"), &config, &one]);
        assert_eq!(found.folders[1].names, [".env", ".env.*"]);
    }
}
