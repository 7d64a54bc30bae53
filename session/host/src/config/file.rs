//! One configuration file: its settings with their lines.

use parhelia_store::name::NameExt as _;
use parhelia_store::name::step::Step;
use std::{
    fs,
    io::{self, ErrorKind, Read},
    path::Path,
};

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::options::{self, Level, OPTIONS, Opt};
use crate::{Error, Result, error::IoContext};
use parhelia_agent::{declaration::Declaration, regular};

/// A setting of a file.
pub(super) struct Setting {
    pub option: &'static Opt,
    pub value: Value,
    /// From 1.
    pub line: usize,
}

/// The longest file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The option that declares kinds of agents.
const AGENTS: &str = "agent";

/// The text of a file; none where it may be absent and is.
pub(super) fn read(path: &Path, must_exist: bool) -> Result<Option<String>> {
    // One that was named may be a pipe, as of a shell's `<(…)`; one that was come upon may be anything.
    let text = || {
        let file = if must_exist { fs::File::open(path)? } else { regular::open(path)? };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > BYTES_MAX {
            true => Err(io::Error::other(format!("it is longer than {BYTES_MAX} bytes"))),
            false => String::from_utf8(bytes).map_err(io::Error::other),
        }
    };
    match text() {
        Err(e) if !must_exist && matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        text => text.at("read", path).map(Some),
    }
}

/// The settings of a file, each or why it is none. Fails where the file is no TOML.
pub(super) fn parse(path: &Path, text: &str, level: Level) -> Result<Vec<Result<Setting>>> {
    let file = File { path, text, level };
    let table = DeTable::parse(text).map_err(|e| file.error(e.span().map_or(0, |span| span.start), e.message()))?;
    let mut settings = Vec::new();
    file.settings("", table.get_ref(), &mut settings);
    Ok(settings)
}

/// The kinds of agents that a file of the user's declares, whatever else of it is wrong: a process has to know an agent above it before it knows
/// whose word counts.
pub fn declared(path: &Path) -> Vec<Declaration> {
    let settings = read(path, false).ok().flatten().and_then(|text| parse(path, &text, Level::User).ok());
    let values = settings.into_iter().flatten().flatten().filter(|setting| setting.option.key == AGENTS);
    values.filter_map(|setting| serde_json::from_value::<Vec<Declaration>>(setting.value).ok()).flatten().collect()
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    level: Level,
}

impl File<'_> {
    /// The settings of a section and of those in it. The file's own table is the section of no name.
    fn settings(&self, section: &str, table: &DeTable, found: &mut Vec<Result<Setting>>) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let dot = if section.is_empty() { "" } else { "." };
            let name = format!("{section}{dot}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if is_section(&name) => self.settings(&name, inner, found),
                _ => found.push(self.setting(&name, key.span().start, value)),
            }
        }
    }

    fn setting(&self, key: &str, at: usize, value: &Spanned<DeValue>) -> Result<Setting> {
        let Some(option) = options::find(key) else { return Err(self.error(at, &unknown(key))) };
        if option.level > self.level {
            let reason = format!("`{key}` cannot be set by a project; set it in your own {}", super::FILE_NAME);
            return Err(self.error(at, &reason));
        }
        let value = option.kind.read_toml(value.get_ref()).map_err(|reason| self.error(at, &format!("`{key}`: {reason}")))?;
        Ok(Setting { option, value, line: self.line(at) })
    }

    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|&&b| b == b'\n').count() + 1
    }

    fn error(&self, at: usize, reason: &str) -> Error {
        Error::Config { place: format!("{}:{}", self.path.shown(), self.line(at)), reason: reason.to_owned() }
    }
}

fn is_section(name: &str) -> bool {
    OPTIONS.iter().any(|option| option.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The error text for an unknown key, with the most similar option if there is one.
fn unknown(key: &str) -> String {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let name = key.rsplit('.').next().unwrap_or(key);
    let likeness = |option: &Opt| strsim::jaro_winkler(key, option.key).max(strsim::jaro_winkler(name, last(option.key)) * 0.98);
    let near = OPTIONS.iter().map(|option| (likeness(option), option.key)).max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((likeness, near)) if likeness > 0.8 => format!("there is no option `{key}`; did you mean `{near}`?"),
        _ => format!("there is no option `{key}`; {} names all", Step::Options),
    }
}
