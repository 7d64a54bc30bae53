//! A declaration of a kind of agent, as `parhelia.toml` has it.

use std::{
    ffi::OsStr,
    path::{Component, Path},
};

use serde::{Deserialize, Serialize};

/// Stands for the conversation's id.
pub(crate) const ID: &str = "{id}";
/// Stands for a prompt.
pub(crate) const PROMPT: &str = "{prompt}";

/// A kind of agent, declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Its name in records.
    pub name: String,
    /// Its name for people; that name where there is none.
    #[serde(default)]
    pub title: Option<String>,
    /// The names by which a command line starts it: of its program, and of its package where a launcher such as `npx` is given one.
    pub programs: Vec<String>,
    /// The words behind the program that go on with a conversation: `{id}` stands for its id.
    pub resume: Vec<String>,
    /// The words with a prompt, behind all others: `{prompt}` stands for it.
    #[serde(default = "plain_prompt")]
    pub prompt: Vec<String>,
    /// The words behind the program with which it answers one prompt and ends; the first of them tells that it does.
    #[serde(default)]
    pub headless: Vec<String>,
    /// The words with a prompt there.
    #[serde(default = "plain_prompt")]
    pub headless_prompt: Vec<String>,
    /// Flags that are followed by a word.
    #[serde(default)]
    pub takes: Vec<String>,
    /// Flags that choose the conversation; of those in `takes` as well, the word is its id.
    #[serde(default)]
    pub choosing: Vec<String>,
    /// Other flags that a resume does not give again.
    #[serde(default)]
    pub once: Vec<String>,
    /// Flags with which it asks nobody before it acts.
    #[serde(default)]
    pub unchecked: Vec<String>,
    /// Flags with which it works in another folder than that in which it is started.
    #[serde(default)]
    pub elsewhere: Vec<String>,
    /// First words, and flags, with which it has no conversation.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The folder in which it keeps its conversations.
    pub data: Data,
    /// Names of files with credentials in that folder, which no checkpoint takes in.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// Sentences with which it says that it does not know a conversation.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// The plugin, or other file, that has the agent call `parhelia hook`.
    #[serde(default)]
    pub hooks: Option<String>,
}

/// The folder in which an agent keeps its conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The variable that names it.
    #[serde(default)]
    pub variable: Option<String>,
    /// Its path in the folder that the variable names, where that is not the folder itself.
    #[serde(default)]
    pub inside: Option<String>,
    /// Its path in the home folder, where the variable is not set.
    pub home: String,
}

fn plain_prompt() -> Vec<String> {
    vec![PROMPT.to_owned()]
}

/// True of a path that leads from a folder into it.
fn leads_in(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

impl Declaration {
    /// The reason why it is none, in words. Names and programs of kinds that are built in are told by the caller.
    pub(crate) fn fault(&self, is_name: &dyn Fn(&str) -> bool, is_program: &dyn Fn(&OsStr) -> bool) -> Option<String> {
        let name = &self.name;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if name.is_empty() || !is_plain(name) {
            return Some(format!("'{name}' is no name: letters, digits, '-', '_' and '.' are"));
        }
        if is_name(name) {
            return Some(format!("'{name}' is a kind that is built in"));
        }
        let fault = |text: String| Some(format!("'{name}': {text}"));
        if self.programs.is_empty() {
            return fault("`programs` names none".into());
        }
        let is_no_program =
            |program: &&String| program.is_empty() || program.starts_with('-') || program.contains(char::is_whitespace);
        if let Some(program) = self.programs.iter().find(is_no_program) {
            return fault(format!("'{program}' is no program"));
        }
        if let Some(program) = self.programs.iter().find(|program| is_program(program.as_ref())) {
            return fault(format!("'{program}' starts an agent of a kind that is built in"));
        }
        let has = |words: &[String], what: &str| words.iter().filter(|word| word.contains(what)).count() == 1;
        if !has(&self.resume, ID) {
            return fault(format!("`resume` needs one word with {ID}"));
        }
        for (words, option) in [(&self.prompt, "prompt"), (&self.headless_prompt, "headless_prompt")] {
            if !has(words, PROMPT) {
                return fault(format!("`{option}` needs one word with {PROMPT}"));
            }
        }
        let lists = [&self.takes, &self.choosing, &self.once, &self.unchecked, &self.elsewhere];
        if let Some(flag) = lists.into_iter().flatten().find(|flag| !flag.starts_with('-')) {
            return fault(format!("'{flag}' is no flag"));
        }
        let Data { variable, inside, home } = &self.data;
        let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']) && name != "HOME";
        if variable.as_ref().is_some_and(|name| !is_variable(name)) || inside.is_some() && variable.is_none() {
            return fault("`data.variable` names no variable".into());
        }
        if !leads_in(home) || inside.as_ref().is_some_and(|path| !leads_in(path)) {
            return fault("`data.home` and `data.inside` lead from a folder into it".into());
        }
        if let Some(file) = self.credentials.iter().find(|file| file.is_empty() || file.contains('/')) {
            return fault(format!("'{file}' in `credentials` is no name of a file"));
        }
        match &self.hooks {
            Some(path) if !path.starts_with("~/") && !Path::new(path).is_absolute() => {
                fault(format!("`hooks` is a path from the root or from ~/, not '{path}'"))
            }
            _ => None,
        }
    }
}
