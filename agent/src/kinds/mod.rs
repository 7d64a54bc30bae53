//! The registry of kinds: those that are built in, and those that the user has declared. Nothing else knows one of them by itself.

mod claude;
mod codex;
pub mod declared;
mod folder;
mod gemini;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::Path,
    sync::{PoisonError, RwLock},
};

use self::{claude::Claude, codex::Codex, declared::DeclaredKind, gemini::Gemini};
use crate::{
    declaration::Declaration,
    kind::Kind,
    secrets::SecretFiles,
    transcript::{index::Format, records::Records},
};

/// The kinds that are built in. A conversation or a folder that nothing says more of is the first one's.
pub const KINDS: [Kind; 3] = [&Claude, &Codex, &Gemini];

/// The kinds that the user has declared.
static DECLARED: RwLock<Vec<Kind>> = RwLock::new(Vec::new());

/// All known kinds: those that are built in, and those that the user has declared.
pub fn all() -> Vec<Kind> {
    KINDS.into_iter().chain(declared()).collect()
}

/// The kinds that the user has declared.
fn declared() -> Vec<Kind> {
    DECLARED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The kind of a name, as records have it.
pub fn named(name: &str) -> Option<Kind> {
    all().into_iter().find(|kind| kind.name() == name)
}

/// The reason why a declaration is none.
fn fault(declaration: &Declaration) -> Option<String> {
    let is_name = |name: &str| KINDS.iter().any(|kind| kind.name() == name);
    declaration.fault(&is_name, &|program| KINDS.iter().any(|kind| kind.is_program(program)))
}

/// The fault of some declarations, in words.
pub fn check(declarations: &[Declaration]) -> Option<String> {
    let mut names = BTreeSet::new();
    let mut programs = BTreeSet::new();
    declarations.iter().find_map(|declaration| {
        let twice = (!names.insert(&declaration.name)).then(|| format!("'{}' stands there twice", declaration.name));
        let program = declaration.programs.iter().find(|program| !programs.insert(*program));
        let shared = program.map(|program| format!("'{program}' is the program of two kinds"));
        fault(declaration).or(twice).or(shared)
    })
}

/// Makes these kinds known beside those that are built in, in place of others that were declared before. `home` is the user's home folder.
/// Declarations with a fault are passed over.
pub fn declare(declarations: &[Declaration], home: Option<&Path>) {
    let valid = || declarations.iter().filter(|declaration| fault(declaration).is_none());
    let known = declared();
    // Those that are known keep their place in memory.
    if !known.iter().filter_map(|kind| kind.declaration()).eq(valid()) {
        let kind = |declaration| -> Kind { Box::leak(Box::new(DeclaredKind::new(declaration, home))) };
        *DECLARED.write().unwrap_or_else(PoisonError::into_inner) = valid().map(kind).collect();
    }
}

/// The credentials of every kind of agent, wherever a workspace is: by name, and for the agents that an environment tells of, by the files
/// themselves.
pub fn secrets(variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
    let mut found = SecretFiles::default();
    for SecretFiles { names, folders, files } in all().iter().map(|kind| kind.secrets(variable)) {
        found.names.extend(names);
        found.folders.extend(folders);
        found.files.extend(files);
    }
    found
}

/// The records of each kind. What may be anybody's is the last one's.
pub(crate) const RECORDS: [Records; 3] = [gemini::RECORDS, codex::RECORDS, claude::RECORDS];

impl Format {
    /// The kind of agent that writes it.
    pub fn kind(self) -> Kind {
        match self {
            Format::Transcript | Format::Subagent | Format::StreamJson => &Claude,
            Format::Rollout => &Codex,
            Format::Chat => &Gemini,
        }
    }

    /// The functions that read records of this format.
    pub(crate) fn records(self) -> Records {
        match self {
            Format::Transcript | Format::Subagent | Format::StreamJson => claude::RECORDS,
            Format::Rollout => codex::RECORDS,
            Format::Chat => gemini::RECORDS,
        }
    }
}

#[cfg(test)]
mod tests;
