//! The command line of a kind of agent, and what it prints.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use crate::{
    error::Result,
    hooks::{Release, command::HookCommand},
    transcript::index::Format,
    trouble::{self, Signs, Trouble},
    words::{Bypass, Resume, Takes, Words},
};

/// The command line of a kind of agent, and what it prints.
pub trait Argv {
    /// The name of its program.
    fn program_name(&self) -> &str;

    /// True if a word of a command line starts it.
    fn is_program(&self, word: &OsStr) -> bool;

    /// The number of words that a flag takes.
    fn takes(&self, flag: &str) -> Takes;

    /// True if flags of one letter can stand in one word, the last with its value: `-ab`, `-x=value`, `-x5`.
    fn joins_letters(&self) -> bool {
        false
    }

    /// False for its own management commands, such as those that log in, and where it prints its help or version.
    fn is_conversing(&self, words: &Words) -> bool;

    /// True if it answers one prompt, printing to standard output. `at_terminal` is true if its input and output are a terminal.
    fn is_headless(&self, words: &Words, at_terminal: bool) -> bool;

    /// The format of the records that a headless one prints on standard output; none where it prints text, or what nothing of ours reads.
    fn printed(&self, _words: &Words) -> Option<Format> {
        None
    }

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

    /// The flag by which it works out of sight: in the background, in a cloud, or in another program.
    fn works_unseen(&self, _words: &Words) -> Option<&'static str> {
        None
    }

    /// True if it runs hooks.
    fn has_hooks(&self, words: &Words) -> bool;

    /// The permission mode that the command line asks for; none where that is recorded with its other flags, and given again as they are.
    fn permission_mode(&self, _words: &Words) -> Option<String> {
        None
    }

    /// The way around permission checks that the command line takes.
    fn bypass(&self, words: &Words) -> Option<Bypass>;

    /// The conversation that the command line pins.
    fn conversation(&self, words: &Words) -> Option<String>;

    /// True if the command line leaves the choice of the conversation to the agent.
    fn chooses_itself(&self, words: &Words) -> bool;

    /// Files with MCP servers that the command line adds; none where servers stand in settings alone.
    fn mcp_config(&self, _words: &Words) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Flags that name a file of the user's which is read before the agent starts.
    fn file_flags(&self) -> &'static [&'static str] {
        &[]
    }

    /// The words that begin a conversation: pinned where it can be, with the arguments of [`Argv::hook_arguments`].
    fn launch(&self, words: &Words, conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString>;

    /// The words that resume what recorded ones began. Everything recorded is said again, but for which conversation and the prompt.
    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString>;

    /// The words of a first prompt, behind all others. A headless agent answers it, and ends.
    fn prompt_words(&self, prompt: &str, is_headless: bool) -> Vec<OsString>;

    /// Arguments that bring our hooks for one start, beside what the command line says of hooks itself; none where it has no such arguments.
    /// They are for a release of its program, as far as that is known. The agent will work in `folder`. `keep` puts a text that may hold secrets into
    /// a private file, and returns its path.
    fn hook_arguments(
        &self,
        _words: &Words,
        (_command, _release): (&HookCommand, Option<Release>),
        _folder: &Path,
        _keep: &dyn Fn(&str) -> io::Result<PathBuf>,
    ) -> Result<Vec<OsString>> {
        Ok(Vec::new())
    }

    /// The signs by which its output tells that it does not go on.
    fn signs(&self) -> Signs;

    /// The sentences with which it says that it does not know a conversation.
    fn unknown_conversation(&self, conversation: &str) -> Vec<String>;

    /// The reason why the agent does not go on, from its screen or its standard error; none if there is no sign of one.
    fn trouble(&self, printed: &str) -> Option<Trouble> {
        trouble::trouble(self.signs(), printed)
    }

    /// True if a screen says that the agent does not know this conversation. The screen may show older text, too.
    fn does_not_know(&self, screen: &str, conversation: &str) -> bool {
        trouble::does_not_know(&self.unknown_conversation(conversation), screen)
    }
}
