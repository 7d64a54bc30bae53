//! Kinds of coding agents: what is true of one of them alone stands behind [`AgentKind`].

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::Value;

use crate::{
    claude::Claude,
    codex::Codex,
    command::{Bypass, Resume, Takes, Words},
    error::Result,
    gemini::Gemini,
    hooks::{self, Events, HookCommand},
    open::{Said, Unseen},
    secrets::SecretFiles,
    transcript::{Format, Located, files::RawSet},
    trouble::Signs,
};

/// A known kind of agent.
pub type Kind = &'static dyn AgentKind;

/// All known kinds. A conversation or a folder that nothing says more of is the first one's.
pub const KINDS: [Kind; 3] = [&Claude, &Codex, &Gemini];

/// The abilities of a kind of agent. What it cannot do is made up for with what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Its command line can give a new conversation its id. Else the id is learned from its first hook, or from the file that appears.
    pub pins_conversation: bool,
    /// Its command line can bring hooks for one start that run without anybody's consent. Else a person has to trust them once.
    pub trusts_given_hooks: bool,
    /// Its command line can bring hooks for one start. Else they have to be installed in its settings.
    pub brings_hooks: bool,
    /// Words of a hook at the start of a headless agent leave its prompt in the conversation. Else such an agent is told by its prompt alone.
    pub keeps_told_prompt: bool,
    /// Its live processes leave word of the conversation that they have open ([`AgentKind::live`]).
    pub leaves_word: bool,
}

/// The names by which an agent finds its own folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderNames {
    /// The variable that names the folder.
    pub variable: &'static str,
    /// Its name in the home folder, where that variable is not set.
    pub in_home: &'static str,
    /// True if the variable names a home folder, in which the folder has that name.
    pub is_home: bool,
}

/// Everything that is true of one kind of agent.
pub trait AgentKind: fmt::Debug + Sync {
    /// Its name in records, such as `claude-code`.
    fn name(&self) -> &'static str;

    /// Its name for people.
    fn title(&self) -> &'static str;

    /// Its abilities.
    fn abilities(&self) -> Abilities;

    // The command line.

    /// True if a word of a command line starts it.
    fn is_program(&self, word: &OsStr) -> bool;

    /// The number of words that a flag takes.
    fn takes(&self, flag: &str) -> Takes;

    /// True if flags of one letter can stand in one word, the last with its value: `-ab`, `-x=value`, `-x5`.
    fn joins_letters(&self) -> bool {
        false
    }

    /// False for its own management commands, such as those that log in.
    fn is_conversing(&self, words: &Words) -> bool;

    /// True if it answers one prompt, printing to standard output. `at_terminal` is true if its input and output are a terminal.
    fn is_headless(&self, words: &Words, at_terminal: bool) -> bool;

    /// True if an environment makes it do without a terminal that there is.
    fn ignores_terminal(&self, _variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
        false
    }

    /// True if the conversation is kept on disk.
    fn is_persistent(&self, words: &Words) -> bool;

    /// The flag by which it is told to work in another folder than that in which it is started; none where it is not.
    fn works_elsewhere(&self, _words: &Words) -> Option<&'static str> {
        None
    }

    /// True if it runs hooks.
    fn has_hooks(&self, words: &Words) -> bool;

    /// The permission mode that the command line asks for.
    fn permission_mode(&self, words: &Words) -> Option<String>;

    /// The way around permission checks that the command line takes.
    fn bypass(&self, words: &Words) -> Option<Bypass>;

    /// The conversation that the command line pins.
    fn conversation(&self, words: &Words) -> Option<String>;

    /// True if the command line leaves the choice of the conversation to the agent.
    fn chooses_itself(&self, words: &Words) -> bool;

    /// Files with MCP servers that the command line adds.
    fn mcp_config(&self, words: &Words) -> Vec<PathBuf>;

    /// The words that begin a conversation: pinned where it can be, with the arguments of [`AgentKind::hook_arguments`].
    fn launch(&self, words: &Words, conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString>;

    /// The words that resume what recorded ones began. Everything recorded is said again, but for which conversation and the prompt.
    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString>;

    /// Arguments that bring our hooks for one start, beside what the command line says of hooks itself; none where it has no such arguments.
    fn hook_arguments(&self, _words: &Words, _command: &HookCommand) -> Result<Vec<OsString>> {
        Ok(Vec::new())
    }

    /// The events that come to our hooks.
    fn events(&self) -> Events;

    /// The file of settings with hooks in its own folder, or in its folder of a project, which has the name of the one in the home folder.
    fn hook_file(&self, folder: &Path) -> PathBuf;

    /// The user's file with MCP servers, as JSON; none where it is of another form.
    fn servers_of_user(&self, _variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        None
    }

    /// The same of a project.
    fn servers_of_project(&self, _project: &Path) -> Option<PathBuf> {
        None
    }

    /// True if its settings may have comments.
    fn takes_comments(&self) -> bool {
        false
    }

    /// The setting that turns all hooks off, or ours alone, where its settings do.
    fn hooks_off(&self, settings: &Value) -> Option<&'static str> {
        const NAME: &str = "disableAllHooks";
        settings.get(NAME).and_then(Value::as_bool).unwrap_or_default().then_some(NAME)
    }

    /// The event of a name that is its own, beside the names that agents share.
    fn event(&self, _name: &str) -> Option<hooks::Kind> {
        None
    }

    // The agent's own folder.

    /// The names by which it finds its own folder.
    fn folder_names(&self) -> FolderNames;

    /// Its credentials, which no checkpoint takes in.
    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles;

    /// The variable that it gives to its tools.
    fn tool_variable(&self) -> Option<&'static str>;

    // Live agents.

    /// The words of one of its live processes of the conversation that it has open, where its processes leave word of that.
    fn said_by(&self, _config: &Path, _process: i32) -> Option<Said> {
        None
    }

    /// The words of its live processes that have a conversation open.
    fn live(&self, _config: &Path, _conversation: &str) -> Vec<Said> {
        Vec::new()
    }

    /// Its processes that have left word that they have a conversation open, and that may live where they cannot be seen from here.
    fn unseen(&self, _config: &Path, _conversation: &str) -> Vec<Unseen> {
        Vec::new()
    }

    // Conversations.

    /// The format of its transcripts.
    fn format(&self) -> Format;

    /// The format of the transcripts of its subagents.
    fn subagent_format(&self) -> Format {
        self.format()
    }

    /// A conversation by the path of its transcript; none where this is no transcript of this kind.
    fn located(&self, transcript: &Path) -> Option<Located>;

    /// All transcripts of a conversation in its own folder, ordered.
    fn copies(&self, config: &Path, conversation: &str) -> Result<Vec<PathBuf>>;

    /// Transcripts of conversations that began in a folder at this time or later: for an agent whose conversation cannot be pinned.
    fn begun_since(&self, _config: &Path, _since: SystemTime, _folder: &Path) -> Result<Vec<Located>> {
        Ok(Vec::new())
    }

    /// The place of a conversation's transcript, for an agent that works in `folder`.
    fn place(&self, config: &Path, folder: &Path, conversation: &str) -> PathBuf;

    /// Adds the files of a conversation beside its transcript.
    fn beside(&self, located: &Located, found: &mut RawSet);

    /// The place of a conversation's file, by its name in a checkpoint; none for a name that is none of its, or leads out.
    fn destination(&self, name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf>;

    /// The signs by which its output tells that it does not go on.
    fn signs(&self) -> Signs;

    /// The sentences with which it says that it does not know a conversation.
    fn unknown_conversation(&self, conversation: &str) -> Vec<String>;
}

impl PartialEq for dyn AgentKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn AgentKind {}

/// The kind of a name, as records have it.
pub fn named(name: &str) -> Option<Kind> {
    KINDS.into_iter().find(|kind| kind.name() == name)
}
