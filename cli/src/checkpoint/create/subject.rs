//! The arguments of `checkpoint create`: folders to capture, or the session of one.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::listed::resolved;
use parhelia_host::Host;
use parhelia_ledger::{LedgerView as _, Session, Status, selector};
use parhelia_life::{session_name::checked_name, target};
use parhelia_store::{Store, name::Shown as _};

use crate::{
    exit::{Failure, OPEN_WORKSPACE, Result},
    human,
    workspace::workspace,
};

/// A folder to capture.
#[derive(Debug)]
pub struct Subject {
    /// The folder, absolute, symlinks resolved.
    pub workspace: PathBuf,
    word: Word,
}

/// The word that was given for it.
#[derive(Debug)]
enum Word {
    /// None.
    None,
    /// A session's name beside `--workspace`.
    Session(String),
    /// A session's name alone: the current folder is meant. True if a file has the same name.
    Name(String, bool),
    /// The folder's own path.
    Folder(OsString),
}

/// The folders that a command line names. Nothing is looked up in a store yet.
pub fn subjects(words: &[OsString], folder: Option<&Path>) -> Result<Vec<Subject>> {
    match (words, folder) {
        ([], folder) => Ok(vec![Subject { workspace: workspace(folder.unwrap_or(Path::new(".")))?, word: Word::None }]),
        ([word], Some(folder)) => {
            let name = checked_name(&word.to_string_lossy())?;
            Ok(vec![Subject { workspace: workspace(folder)?, word: Word::Session(name) }])
        }
        (_, Some(_)) => Err(Failure::Usage("with --workspace, give one session's name; without it, folders to capture".into())),
        ([word], None) => Ok(vec![alone(word)?]),
        (words, None) => words.iter().map(|word| one_of_several(word)).collect(),
    }
}

/// The meaning of the only word.
fn alone(word: &OsStr) -> Result<Subject> {
    let is_file = match found(word)? {
        Found::Folder => return Ok(Subject { workspace: workspace(Path::new(word))?, word: Word::Folder(word.to_owned()) }),
        Found::Other => true,
        Found::Nothing if word.as_bytes().contains(&b'/') => {
            let source = rustix::io::Errno::NOENT.into();
            return Err(Failure::File { action: OPEN_WORKSPACE, path: word.into(), source });
        }
        Found::Nothing => false,
    };
    match word.to_str().map(checked_name) {
        Some(Ok(name)) => Ok(Subject { workspace: workspace(Path::new("."))?, word: Word::Name(name, is_file) }),
        _ if is_file => Err(of_file(word)),
        Some(Err(refused)) => Err(refused.into()),
        None => {
            Err(checked_name(&Path::new(word).shown())
                .map_or_else(Into::into, |_| Failure::Usage("a session's name is text".into())))
        }
    }
}

fn one_of_several(word: &OsStr) -> Result<Subject> {
    match found(word)? {
        Found::Folder => Ok(Subject { workspace: workspace(Path::new(word))?, word: Word::Folder(word.to_owned()) }),
        _ => Err(Failure::Usage(format!(
            "{} is no folder, and several words are folders to capture; `parhelia checkpoint create SESSION --workspace DIR` captures one \
             for a session",
            Path::new(word).shown()
        ))),
    }
}

/// The thing at a path.
enum Found {
    Folder,
    Other,
    Nothing,
}

fn found(word: &OsStr) -> Result<Found> {
    let gone = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename);
    match fs::metadata(word) {
        Ok(meta) if meta.is_dir() => Ok(Found::Folder),
        Ok(_) => Ok(Found::Other),
        // A symlink to nothing is something.
        Err(e) if gone(e.kind()) => Ok(if fs::symlink_metadata(word).is_ok() { Found::Other } else { Found::Nothing }),
        Err(source) => Err(Failure::File { action: OPEN_WORKSPACE, path: word.into(), source }),
    }
}

impl Subject {
    /// The session that was named for it, if any. Fails where a word has two meanings, or may be mistyped: a wrong guess captures another folder
    /// than the one that was meant, and reports success.
    pub fn session(&self, store: &Store, host: &dyn Host) -> Result<Option<String>> {
        match &self.word {
            Word::None => self.session_there(store, host, false),
            Word::Session(name) => Ok(Some(name.clone())),
            Word::Folder(word) => self.session_of_folder(store, host, word),
            Word::Name(name, is_file) => {
                let known = target::target(store, host, Some(name.clone()), &self.workspace)?.known;
                if known.is_some() {
                    return Ok(Some(name.clone()));
                }
                if *is_file {
                    return Err(of_file(OsStr::new(name)));
                }
                match near(store, &self.workspace, name)? {
                    Some(other) => Err(mistyped(name, &other)),
                    None => Ok(Some(name.clone())),
                }
            }
        }
    }

    /// The session of the folder: the one that has its name as well, or else another one that works there, or else a new one of that name. Where
    /// the name is that of a session of the current folder, either may be meant.
    fn session_of_folder(&self, store: &Store, host: &dyn Host, word: &OsStr) -> Result<Option<String>> {
        let Some(name) = word.to_str().filter(|word| checked_name(word).is_ok()) else {
            return self.session_there(store, host, true);
        };
        let here = workspace(Path::new("."))?;
        let sessions = store.view().sessions()?;
        let works_in = |session: &Session, folder: &Path| {
            (session.id == name || session.name == name)
                && session
                    .workspace
                    .as_ref()
                    .is_some_and(|place| place.folder().canonicalize().is_ok_and(|found| found == folder))
        };
        if here != self.workspace && sessions.iter().any(|session| works_in(session, &here)) {
            let word = human::shell(word.as_bytes());
            return Err(Failure::Usage(format!(
                "'{name}' is a folder here, and a session of this folder\n`parhelia checkpoint create ./{word}` captures the folder; \
                 `parhelia checkpoint create {word} --workspace .` captures this folder for the session"
            )));
        }
        if sessions.iter().any(|session| works_in(session, &self.workspace)) {
            return Ok(Some(name.to_owned()));
        }
        if let Some(there) = self.session_there(store, host, true)? {
            return Ok(Some(there));
        }
        let is_taken = sessions.iter().any(|session| session.id == name || session.name == name);
        let is_known = target::target(store, host, None, &self.workspace)?.known.is_some();
        Ok((!is_taken && !is_known).then(|| name.to_owned()))
    }

    /// The session that works in the folder where the usual one does not exist: the one that has the folder's name, as if that had been given, or,
    /// where `takes_only` says so, the only one.
    fn session_there(&self, store: &Store, host: &dyn Host, takes_only: bool) -> Result<Option<String>> {
        if target::target(store, host, None, &self.workspace)?.known.is_some() {
            return Ok(None);
        }
        let (folder, mut there) = selector::workspace_at(&store.view(), &self.workspace)?.unwrap_or_default();
        there.retain(|session| folder == self.workspace && session.status != Status::Ended);
        let name = self.workspace.file_name().and_then(OsStr::to_str);
        let of_name = there.iter().find(|session| name == Some(&session.id) || name == Some(&session.name));
        let only = there.first().filter(|_| takes_only && there.len() == 1);
        Ok(of_name.or(only).map(|session| session.id.clone()))
    }

    /// A sentence about the folder that is captured, where the command line did not name it.
    pub fn note(&self, is_new: bool) -> Option<String> {
        let Word::Name(name, _) = &self.word else { return None };
        let folder = human::path(self.workspace.as_os_str().as_bytes());
        is_new.then(|| format!("{folder} is captured, as the new session {name}"))
    }

    /// True if the command line names the folder.
    pub fn is_folder_named(&self) -> bool {
        matches!(self.word, Word::Folder(_) | Word::Session(_))
    }
}

fn of_file(word: &OsStr) -> Failure {
    let shell = human::shell(word.as_bytes());
    let named = match word.to_str().is_some_and(|word| checked_name(word).is_ok()) {
        true => format!("; `parhelia checkpoint create {shell} --workspace .` captures this folder for a session of that name"),
        false => String::new(),
    };
    let alone = match command_for_file(word) {
        Some(command) => format!("`{command}` captures that file alone"),
        None => "`parhelia checkpoint create --files-from LIST` captures the files of a list alone".into(),
    };
    Failure::Usage(format!("{} is a file, and a checkpoint is of a folder\n{alone}{named}", Path::new(word).shown()))
}

/// The command that captures one file alone, given from the current folder.
fn command_for_file(word: &OsStr) -> Option<String> {
    let (here, file) = (workspace(Path::new(".")).ok()?, resolved(&Path::new(".").join(word))?);
    let (folder, listed) = match file.strip_prefix(&here) {
        Ok(inside) => (String::new(), inside),
        Err(_) => (format!(" --workspace {}", human::shell(file.parent()?.as_os_str().as_bytes())), Path::new(file.file_name()?)),
    };
    let listed = listed.as_os_str().as_bytes();
    let shell = human::shell(listed);
    // `echo` may take a dash for its own, and a backslash for more than itself.
    Some(match listed.starts_with(b"-") || listed.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        false => format!("echo {shell} | parhelia checkpoint create{folder} --files-from -"),
        true => format!("printf '%s\\0' {shell} | parhelia checkpoint create{folder} --null --files-from -"),
    })
}

/// Something that has nearly the name that was given.
enum Near {
    Folder(OsString),
    Session(String),
}

fn mistyped(name: &str, other: &Near) -> Failure {
    let word = human::shell(name.as_bytes());
    let (other, meant) = match other {
        Near::Folder(other) => (format!("the folder {}", Path::new(other).shown()), human::shell(other.as_bytes())),
        Near::Session(other) => (format!("the session {other}"), human::shell(other.as_bytes())),
    };
    Failure::Usage(format!(
        "there is no session '{name}' yet; did you mean {other}?\n`parhelia checkpoint create {meant}` captures that one; \
         `parhelia checkpoint create {word} --workspace .` captures this folder as a new session {name}"
    ))
}

/// The folder here, or else the session, whose name is nearly the one that was given.
fn near(store: &Store, here: &Path, name: &str) -> Result<Option<Near>> {
    // A folder that cannot be listed has no names to compare with.
    let mut folders: Vec<OsString> = fs::read_dir(here)
        .map(|entries| entries.flatten().filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    folders.retain(|folder| folder.to_str().is_some_and(|folder| is_near(name, folder, true)));
    if let Some(folder) = folders.into_iter().min() {
        return Ok(Some(Near::Folder(folder)));
    }
    let sessions = store.view().sessions()?;
    let names = sessions.into_iter().flat_map(|session| [session.name, session.id]);
    Ok(names.filter(|other| is_near(name, other, false)).min().map(Near::Session))
}

/// True if one may be a slip of the other. Names that differ in digits alone are names of a series. Short names of sessions are often alike on
/// purpose; of a folder that is there, one of three letters is near already.
fn is_near(name: &str, other: &str, is_folder: bool) -> bool {
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>().to_lowercase();
    let (a, b) = (letters(name), letters(other));
    let most = match a.chars().count().max(b.chars().count()) {
        0..3 => 0,
        3..5 => usize::from(is_folder),
        5..9 => 1,
        _ => 2,
    };
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let slips = strsim::damerau_levenshtein(&a, &b);
    let is_swapped = slips == 1 && sorted(&a) == sorted(&b);
    let is_same_but_for_case = name != other && name.to_lowercase() == other.to_lowercase();
    is_same_but_for_case || is_swapped || a != b && slips <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_near_and_series_are_not() {
        for (name, other) in [
            ("documnets", "documents"),
            ("Documents", "documents"),
            ("notse", "notes"),
            ("projct", "project"),
            ("scr", "src"),
            ("buid", "build"),
        ] {
            assert!(is_near(name, other, false) && is_near(name, other, true), "{name} {other}");
        }
        for (name, other) in [("sc", "src"), ("api", "app"), ("work", "word"), ("tests", "test"), ("lb", "lib")] {
            assert!(is_near(name, other, true), "{name} {other}");
        }
        for (name, other) in [("api", "app"), ("work", "word"), ("lib", "lab")] {
            assert!(!is_near(name, other, false), "{name} {other}");
        }
        for (name, other) in
            [("s1", "s2"), ("release-1", "release-2"), ("notes", "notes.md"), ("a", "a"), ("a", "b"), ("a", "ab"), ("web", "src")]
        {
            assert!(!is_near(name, other, true) && !is_near(name, other, false), "{name} {other}");
        }
    }
}
