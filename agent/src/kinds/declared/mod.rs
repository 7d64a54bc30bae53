//! Kinds of agents that a user declares in `parhelia.toml`, without a line of Rust.
//!
//! Their hooks reach us by a plugin of the agent's that calls `parhelia hook`, and the conversation's id comes with them. The conversation stays where the
//! agent keeps it: nothing here knows its format, so that no checkpoint has it unless that folder lies in the workspace.

mod argv;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    declaration::{Data, Declaration, ID},
    error::Result,
    folder::{ConfigFolder, FolderNames},
    kind::{Abilities, AgentKind, Argv, Events, Files, Hooks, Transcript, TranscriptLocation},
    secrets::{SecretFiles, SecretFolder},
    transcript::{index::Format, raw::RawSet},
    trouble::{Signs, Trouble},
    words::{Bypass, Resume, Takes, Words},
};

/// The name of a folder that no agent has.
const NOWHERE: &str = "no-conversation";

/// A kind of agent that was declared. What it is made of lives as long as the process.
#[derive(Debug)]
pub struct DeclaredKind {
    declaration: Declaration,
    name: &'static str,
    title: &'static str,
    folder: FolderNames,
    elsewhere: &'static [&'static str],
    signs: Signs,
    plugin: Option<PathBuf>,
}

fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn all_kept(texts: &[String]) -> &'static [&'static str] {
    Box::leak(texts.iter().map(|text| kept(text)).collect())
}

impl DeclaredKind {
    /// From its declaration.
    pub fn new(declaration: &Declaration, home: Option<&Path>) -> Self {
        let Data { variable, inside, home: in_home } = &declaration.data;
        let plugin = declaration.hooks.as_deref().and_then(|path| match path.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(PathBuf::from(path)),
        });
        let unknown: Vec<String> = declaration.unknown.iter().map(|text| text.to_lowercase()).collect();
        let signs: Signs = match unknown.is_empty() {
            true => &[],
            false => Box::leak(Box::new([(Trouble::NoConversation, all_kept(&unknown))])),
        };
        DeclaredKind {
            name: kept(&declaration.name),
            title: kept(declaration.title.as_ref().unwrap_or(&declaration.name)),
            folder: FolderNames {
                variable: kept(variable.as_deref().unwrap_or_default()),
                in_home: kept(in_home),
                in_variable: inside.as_deref().map(kept),
            },
            elsewhere: all_kept(&declaration.elsewhere),
            signs,
            plugin,
            declaration: declaration.clone(),
        }
    }
}

impl AgentKind for DeclaredKind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pins_conversation: false,
            trusts_given_hooks: false,
            brings_hooks: false,
            keeps_told_prompt: false,
            leaves_word: false,
        }
    }

    fn declaration(&self) -> Option<&Declaration> {
        Some(&self.declaration)
    }
}

impl Argv for DeclaredKind {
    fn program_name(&self) -> &str {
        self.declaration.programs.first().map_or(self.name, String::as_str)
    }

    fn is_program(&self, word: &OsStr) -> bool {
        argv::is_program(&self.declaration, word)
    }

    fn takes(&self, flag: &str) -> Takes {
        argv::takes(&self.declaration, flag)
    }

    fn is_conversing(&self, words: &Words) -> bool {
        argv::is_conversing(&self.declaration, words)
    }

    fn is_headless(&self, words: &Words, _at_terminal: bool) -> bool {
        argv::is_headless(&self.declaration, words)
    }

    fn is_persistent(&self, _words: &Words) -> bool {
        true
    }

    fn works_elsewhere(&self, words: &Words) -> Option<&'static str> {
        self.elsewhere.iter().copied().find(|flag| words.has(&[flag]))
    }

    fn has_hooks(&self, _words: &Words) -> bool {
        self.plugin.is_some()
    }

    fn bypass(&self, words: &Words) -> Option<Bypass> {
        argv::has(words, &self.declaration.unchecked).then_some(Bypass::On)
    }

    fn conversation(&self, words: &Words) -> Option<String> {
        argv::conversation(&self.declaration, words)
    }

    fn chooses_itself(&self, words: &Words) -> bool {
        argv::conversation(&self.declaration, words).is_none() && argv::has(words, &self.declaration.choosing)
    }

    fn launch(&self, words: &Words, _conversation: Option<&str>, _hooks: &[OsString]) -> Vec<OsString> {
        let mut argv = Vec::new();
        words.0.iter().for_each(|piece| piece.write(&mut argv));
        argv
    }

    fn resume(&self, words: &Words, resume: &Resume) -> Vec<OsString> {
        argv::resume(&self.declaration, words, resume)
    }

    fn prompt_words(&self, prompt: &str, is_headless: bool) -> Vec<OsString> {
        argv::prompt_words(&self.declaration, prompt, is_headless)
    }

    fn signs(&self) -> Signs {
        self.signs
    }

    fn unknown_conversation(&self, conversation: &str) -> Vec<String> {
        self.declaration.unknown.iter().map(|text| text.replace(ID, conversation)).collect()
    }
}

impl Hooks for DeclaredKind {
    fn plugin(&self) -> Option<&Path> {
        self.plugin.as_deref()
    }

    fn events(&self) -> Events {
        &[]
    }

    /// There is none: a plugin brings the hooks.
    fn hook_file(&self, folder: &Path) -> PathBuf {
        folder.join(NOWHERE)
    }

    fn hook_layers(&self, _config: Option<&Path>, _workspace: &Path) -> Vec<(&'static str, PathBuf)> {
        Vec::new()
    }

    fn tool_variable(&self) -> Option<&'static str> {
        None
    }
}

impl Files for DeclaredKind {
    fn folder_names(&self) -> FolderNames {
        self.folder
    }

    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
        let names = self.declaration.credentials.clone();
        let config = ConfigFolder::by(self.folder, variable).map(|found| found.path);
        let config = config.map(|folder| folder.canonicalize().unwrap_or(folder));
        let ends = [Some(self.folder.in_home), self.folder.in_variable].into_iter().flatten().map(PathBuf::from);
        let folders = ends.chain(config.clone());
        SecretFiles {
            names: Vec::new(),
            folders: folders.map(|path_end| SecretFolder { path_end, beside: Vec::new(), names: names.clone() }).collect(),
            files: config.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).collect(),
        }
    }
}

impl Transcript for DeclaredKind {
    fn keeps_files(&self) -> bool {
        false
    }

    fn format(&self) -> Format {
        Format::Transcript
    }

    fn located(&self, _transcript: &Path) -> Option<TranscriptLocation> {
        None
    }

    fn copies(&self, _config: &Path, _conversation: &str) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn place(&self, config: &Path, _folder: &Path, _conversation: &str) -> PathBuf {
        config.join(NOWHERE)
    }

    fn beside(&self, _located: &TranscriptLocation, _found: &mut RawSet) {}

    fn destination(&self, _name: &Path, _config: &Path, _folder: &Path, _conversation: &str) -> Option<PathBuf> {
        None
    }
}

#[cfg(test)]
mod tests;
