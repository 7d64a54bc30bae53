//! Codex CLI.
//!
//! Its command line cannot pin a conversation; the id is learned from its first hook, or from the rollout that it holds open. Hooks that the
//! command line brings run once a person has trusted them in the agent's own dialog.

mod argv;
mod database;
mod deeds;
mod record;
mod rollout;
mod window;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    error::Result,
    folder::{ConfigFolder, FolderNames},
    hooks::{Release, command::HookCommand},
    kind::{Abilities, AgentKind, Argv, Events, Files, Hooks, Transcript, TranscriptLocation},
    secrets::{SecretFiles, SecretFolder},
    transcript::{
        index::Format,
        raw::{RawSet, TRANSCRIPT},
        records::Records,
    },
    trouble::{Signs, Trouble},
    words::{Bypass, Resume, Takes, Words},
};

/// Its own folder in the home folder.
const IN_HOME: &str = ".codex";
/// Its tokens and keys, in its own folder.
const CREDENTIALS: &str = "auth.json";

const SIGNS: Signs = &[
    (Trouble::NoConversation, &["no rollout found for thread id", "no saved session found"]),
    (Trouble::HookTrust, &["hooks need review"]),
    (Trouble::Trust, &["trust this folder?", "do you trust the contents of this directory"]),
    (Trouble::Login, &["sign in with chatgpt", "not logged in"]),
    (Trouble::Picker, &["resume a previous session"]),
];

/// Its records: those with a payload.
pub(super) const RECORDS: Records = Records {
    apply: |index, line, offset| index.apply_codex(line, offset),
    messages: |record, _, bytes_max| {
        record.object("payload").map(|payload| record::message(record, &payload, bytes_max).into_iter().collect())
    },
    window: |record, reading| match record.object("payload") {
        Some(payload) => {
            window::window(record, &payload, reading);
            true
        }
        None => false,
    },
};

/// Codex CLI by OpenAI; its binary is `codex`.
#[derive(Debug)]
pub struct Codex;

impl AgentKind for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn title(&self) -> &'static str {
        "Codex"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pins_conversation: false,
            trusts_given_hooks: false,
            brings_hooks: true,
            keeps_told_prompt: true,
            leaves_word: false,
        }
    }
}

impl Argv for Codex {
    fn program_name(&self) -> &str {
        "codex"
    }

    fn is_program(&self, word: &OsStr) -> bool {
        argv::is_program(word)
    }

    fn takes(&self, flag: &str) -> Takes {
        argv::takes(flag)
    }

    fn is_conversing(&self, words: &Words) -> bool {
        argv::is_conversing(words)
    }

    fn is_headless(&self, words: &Words, _at_terminal: bool) -> bool {
        argv::is_headless(words)
    }

    fn is_persistent(&self, words: &Words) -> bool {
        !words.has(&["--ephemeral"])
    }

    fn has_hooks(&self, words: &Words) -> bool {
        argv::has_hooks(words)
    }

    fn works_elsewhere(&self, words: &Words) -> Option<&'static str> {
        argv::works_elsewhere(words)
    }

    fn bypass(&self, words: &Words) -> Option<Bypass> {
        words.has(&["--dangerously-bypass-approvals-and-sandbox"]).then_some(Bypass::On)
    }

    fn conversation(&self, words: &Words) -> Option<String> {
        argv::conversation(words)
    }

    fn chooses_itself(&self, words: &Words) -> bool {
        argv::chooses_itself(words)
    }

    fn launch(&self, words: &Words, _conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString> {
        argv::launch(words, hooks)
    }

    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString> {
        argv::resume(words, resume)
    }

    fn prompt_words(&self, prompt: &str, _is_headless: bool) -> Vec<OsString> {
        argv::prompt_words(prompt)
    }

    fn hook_arguments(
        &self,
        _words: &Words,
        (command, _release): (&HookCommand, Option<Release>),
        _folder: &Path,
        _keep: &dyn Fn(&str) -> io::Result<PathBuf>,
    ) -> Result<Vec<OsString>> {
        Ok(argv::hook_arguments(command))
    }

    fn signs(&self) -> Signs {
        SIGNS
    }

    fn unknown_conversation(&self, conversation: &str) -> Vec<String> {
        vec![format!("no rollout found for thread id {conversation}")]
    }
}

impl Hooks for Codex {
    fn events(&self) -> Events {
        argv::EVENTS
    }

    fn hook_file(&self, folder: &Path) -> PathBuf {
        folder.join("hooks.json")
    }

    fn tool_variable(&self) -> Option<&'static str> {
        Some("CODEX_THREAD_ID")
    }
}

impl Files for Codex {
    fn folder_names(&self) -> FolderNames {
        FolderNames { variable: "CODEX_HOME", in_home: IN_HOME, in_variable: None }
    }

    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
        let config = ConfigFolder::by(self.folder_names(), variable).map(|found| found.path);
        let config = config.map(|folder| folder.canonicalize().unwrap_or(folder));
        let inside = |path_end: PathBuf| SecretFolder {
            path_end,
            beside: Vec::new(),
            names: vec![CREDENTIALS.to_owned(), format!("{CREDENTIALS}.*")],
        };
        SecretFiles {
            names: Vec::new(),
            folders: [PathBuf::from(IN_HOME)].into_iter().chain(config.clone()).map(inside).collect(),
            files: config.iter().map(|folder| folder.join(CREDENTIALS)).collect(),
        }
    }
}

impl Transcript for Codex {
    fn format(&self) -> Format {
        Format::Rollout
    }

    fn located(&self, transcript: &Path) -> Option<TranscriptLocation> {
        let agent_session = rollout::conversation_of(transcript)?.to_owned();
        let config = rollout::config_of(transcript).map(Path::to_owned);
        Some(TranscriptLocation { kind: &Codex, transcript: transcript.to_owned(), agent_session, config, others: Vec::new() })
    }

    fn copies(&self, config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
        rollout::copies(config, conversation)
    }

    fn begun_since(&self, config: &Path, since: SystemTime, folder: &Path) -> Result<Vec<TranscriptLocation>> {
        let begun = rollout::begun_since(config, since, folder)?;
        Ok(begun.iter().filter_map(|path| self.located(path)).collect())
    }

    fn place(&self, config: &Path, _folder: &Path, conversation: &str) -> PathBuf {
        let there = rollout::copies(config, conversation).unwrap_or_default();
        there.into_iter().next_back().unwrap_or_else(|| rollout::path(config, conversation))
    }

    /// Its name has the local time at which it began, which the id does not tell.
    fn seen_place(&self, config: &Path, seen: &Path) -> Option<PathBuf> {
        Some(config.join(seen.strip_prefix(rollout::config_of(seen)?).ok()?))
    }

    fn adopt(&self, config: &Path, conversation: &str, transcript: &Path) -> Result<()> {
        database::adopt(config, conversation, transcript)
    }

    /// Everything of a conversation is in its rollout; the databases beside it are made anew from that.
    fn beside(&self, _located: &TranscriptLocation, _found: &mut RawSet) {}

    fn destination(&self, name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf> {
        (name.as_os_str() == OsStr::new(TRANSCRIPT)).then(|| self.place(config, folder, conversation))
    }
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

    const ID: &str = "01a2154c-22b6-70b1-b7fb-bf069e4647a8";

    #[test]
    fn a_command_line_tells_what_it_starts() {
        for text in ["codex", "codex fix the bug", "npx @openai/codex -m x", "codex exec --json x", "codex -m x resume --last"] {
            assert_eq!(agent(text).kind().name(), "codex", "{text}");
        }
        for text in ["codex login", "codex mcp list", "codex -m x doctor", "codex apply", "codexx", "codex help"] {
            assert!(Agent::of(&argv(text)).is_none(), "{text}");
        }
        assert!(agent("codex exec x").is_headless() && agent("codex -m x e y").is_headless() && !agent("codex x").is_headless());
        assert!(!agent("codex exec --ephemeral x").is_persistent());
        for text in ["codex --disable apps --disable hooks", "codex -c features.hooks=false x"] {
            assert!(!agent(text).has_hooks(), "{text}");
        }
        assert!(agent("codex --disable apps x").has_hooks());
        assert_eq!(agent("codex exec -C /w x").works_elsewhere(), Some("-C"));
        let images = agent("codex exec -i a.png -- RUN").launch_argv(None, &[]);
        assert_eq!(images, argv("codex exec -i a.png -- RUN"));
        assert_eq!(agent(&format!("codex exec resume {ID} go")).conversation().as_deref(), Some(ID));
        assert!(agent("codex resume --last").chooses_itself() && agent(&format!("codex fork {ID}")).chooses_itself());
        assert!(agent("codex x").new_conversation().is_none(), "it cannot be pinned");
        assert_eq!(agent("codex --dangerously-bypass-approvals-and-sandbox").bypass(), Some(Bypass::On));
    }

    #[test]
    fn a_resume_says_everything_again_but_the_prompt() {
        let of = |text: &str, prompt: Option<&str>| {
            let hooks = vec!["-c".into(), "hooks.Stop=[]".into()];
            let resume = Resume { conversation: Some(ID.into()), prompt: prompt.map(str::to_owned), hooks, ..Resume::default() };
            let words: Vec<_> = agent(text).resume_argv(&resume).iter().map(|w| w.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        assert_eq!(
            of("codex -m x -i a.png -s read-only fix it", None),
            format!("codex resume -c hooks.Stop=[] -m x -s read-only {ID}")
        );
        assert_eq!(
            of(
                "npx @openai/codex -a never --search exec --skip-git-repo-check --output-last-message=last.txt fix",
                Some("go on")
            ),
            format!(
                "npx @openai/codex -a never --search exec -c hooks.Stop=[] --skip-git-repo-check --output-last-message=last.txt \
                 resume {ID} -- go on"
            )
        );
        let other = "codex exec --json resume --last first";
        assert_eq!(of(other, Some("go")), format!("codex exec -c hooks.Stop=[] --json resume {ID} -- go"));
        let fresh = Resume { prompt: Some("go".into()), ..Resume::default() };
        assert_eq!(agent("codex -m x old").resume_argv(&fresh), argv("codex -m x -- go"));
    }

    #[test]
    fn its_screen_tells_what_it_waits_for() {
        let seen = |screen: &str| Codex.trouble(screen);
        assert_eq!(seen("  Folder access\n  /w\n  Trust this folder? Codex can read"), Some(Trouble::Trust));
        assert_eq!(seen("  Hooks need review\n  5 hooks are new or changed."), Some(Trouble::HookTrust));
        assert_eq!(
            seen("Error: thread/resume failed: no rollout found for thread id 1-2 (code -32600)"),
            Some(Trouble::NoConversation)
        );
        assert_eq!(seen("  >_ OpenAI Codex (v0.169.0)\n› Ask Codex to do anything"), None);
        assert!(Codex.does_not_know("failed: no rollout found for\nthread id 1-2 (code", "1-2"));
    }

    #[test]
    fn hooks_are_arguments() {
        let command = HookCommand { program: "/opt/it's/parhelia".into(), store: None };
        let given = agent("codex x").hook_arguments((&command, None), Path::new("/"), &|_| unreachable!()).unwrap();
        let text = given[1].to_string_lossy().into_owned();
        assert_eq!((given.len() % 2, &*given[0]), (0, OsStr::new("-c")));
        assert!(text.starts_with("hooks.SessionStart=[{hooks=[{type=\"command\",command=\""), "{text}");
        assert!(text.contains(r#"'/opt/it'\\''s/parhelia' hook""#), "{text}");
        let launched = agent("codex -m x fix").launch_argv(None, &given[..2]);
        assert_eq!(launched[0], "codex");
        assert_eq!(launched[3..], argv("-m x fix")[..]);
    }

    #[test]
    fn credentials_are_named_in_its_own_folder_alone() {
        let found = Codex.secrets(&|name| (name == "CODEX_HOME").then(|| "/no/such/folder".into()));
        assert!(found.names.is_empty());
        assert_eq!(found.files, [PathBuf::from("/no/such/folder/auth.json")]);
        assert_eq!(
            found.folders.iter().map(|f| f.path_end.clone()).collect::<Vec<_>>(),
            [".codex", "/no/such/folder"].map(PathBuf::from)
        );
    }
}
