//! The folder and the session that a checkpoint is to be of, by the word that somebody gave.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_host::{Error, Host, Result};
use parhelia_ledger::{LedgerView as _, Session, Status, selector};
use parhelia_store::{
    Store,
    name::{NameExt as _, display, step::Step},
};

use crate::{
    checkpoint::{listed::resolved, session_name::checked_name, target},
    workspace::place::workspace,
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
    None,
    /// A folder's path, given as such.
    Place,
    /// A session's name beside `--workspace`.
    Session(String),
    /// A session's name alone: the current folder is meant. True if a file has the same name.
    Name(String, bool),
    /// The folder's own path.
    Folder(OsString),
}

/// The thing at a path.
enum PathKind {
    Folder,
    Other,
    Nothing,
}

fn found(word: &OsStr) -> Result<PathKind> {
    let gone = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename);
    match fs::metadata(word) {
        Ok(meta) if meta.is_dir() => Ok(PathKind::Folder),
        Ok(_) => Ok(PathKind::Other),
        // A symlink to nothing is something.
        Err(e) if gone(e.kind()) => Ok(if fs::symlink_metadata(word).is_ok() { PathKind::Other } else { PathKind::Nothing }),
        Err(source) => Err(Error::Workspace { path: word.into(), source }),
    }
}

impl Subject {
    /// A folder, or else the current one, for a session that its own place tells.
    pub fn of_folder(folder: Option<&Path>) -> Result<Self> {
        let word = if folder.is_some() { Word::Place } else { Word::None };
        Ok(Subject { workspace: workspace(folder.unwrap_or(Path::new(".")))?, word })
    }

    /// A folder, for the session that has this name.
    pub fn of_session(name: &str, folder: &Path) -> Result<Self> {
        let name = checked_name(name)?;
        Ok(Subject { workspace: workspace(folder)?, word: Word::Session(name) })
    }

    /// The only word that was given: a folder, or a session of the current one. Nothing is looked up in a store yet.
    pub fn of_word(word: &OsStr) -> Result<Self> {
        let is_file = match found(word)? {
            PathKind::Folder => return Self::of_one(word),
            PathKind::Other => true,
            PathKind::Nothing if word.as_bytes().contains(&b'/') => {
                return Err(Error::Workspace { path: word.into(), source: rustix::io::Errno::NOENT.into() });
            }
            PathKind::Nothing => false,
        };
        match word.to_str().map(checked_name) {
            Some(Ok(name)) => Ok(Subject { workspace: workspace(Path::new("."))?, word: Word::Name(name, is_file) }),
            _ if is_file => Err(of_file(word)),
            Some(Err(refused)) => Err(refused),
            None => Err(checked_name(&Path::new(word).shown())
                .map_or_else(|refused| refused, |_| Error::Invalid("a session's name is text".into()))),
        }
    }

    /// One of several words, each of which is a folder.
    pub fn of_one(word: &OsStr) -> Result<Self> {
        match found(word)? {
            PathKind::Folder => Ok(Subject { workspace: workspace(Path::new(word))?, word: Word::Folder(word.to_owned()) }),
            _ => Err(Error::Invalid(format!(
                "{} is no folder, and several words are folders to capture; {} captures one for a session",
                Path::new(word).shown(),
                Step::CaptureFor
            ))),
        }
    }

    /// The session that was named for it, if any. Fails where a word has two meanings, or may be mistyped: a wrong guess captures another folder
    /// than the one that was meant, and reports success.
    pub fn session(&self, store: &Store, host: &dyn Host) -> Result<Option<String>> {
        match &self.word {
            Word::None | Word::Place => self.session_there(store, host, false),
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
                    Some(error) => Err(error),
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
            return Err(Error::Invalid(format!(
                "'{name}' is a folder here, and a session of this folder\n{} captures the folder; {} captures this folder for the session",
                Step::CaptureFolder(Path::new(".").join(word).into()),
                Step::CaptureHere(word.to_owned())
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
        let folder = display(self.workspace.as_os_str().as_bytes());
        is_new.then(|| format!("{folder} is captured, as the new session {name}"))
    }

    /// True if the command line names the folder.
    pub fn is_folder_named(&self) -> bool {
        matches!(self.word, Word::Folder(_) | Word::Session(_) | Word::Place)
    }
}

fn of_file(word: &OsStr) -> Error {
    let named = match word.to_str().is_some_and(|word| checked_name(word).is_ok()) {
        true => format!("; {} captures this folder for a session of that name", Step::CaptureHere(word.to_owned())),
        false => String::new(),
    };
    let alone = match alone(word) {
        Some(file) => format!("{} captures that file alone", Step::CaptureFile(file)),
        None => format!("{} captures the files of a list alone", Step::CaptureList),
    };
    Error::Invalid(format!("{} is a file, and a checkpoint is of a folder\n{alone}{named}", Path::new(word).shown()))
}

/// A file by its path in the current folder, or by its name in another one.
fn alone(word: &OsStr) -> Option<(Option<PathBuf>, Vec<u8>)> {
    let (here, file) = (workspace(Path::new(".")).ok()?, resolved(&Path::new(".").join(word))?);
    let bytes = |path: &OsStr| path.as_bytes().to_vec();
    Some(match file.strip_prefix(&here) {
        Ok(inside) => (None, bytes(inside.as_os_str())),
        Err(_) => (Some(file.parent()?.to_owned()), bytes(file.file_name()?)),
    })
}

/// The error of a name that is nearly another one.
fn mistyped(name: &str, other: String, meant: OsString) -> Error {
    Error::Invalid(format!(
        "there is no session '{name}' yet; did you mean {other}?\n{} captures that one; {} captures this folder as a new session {name}",
        Step::CaptureFolder(meant),
        Step::CaptureHere(name.into())
    ))
}

/// The folder here, or else the session, whose name is nearly the one that was given.
fn near(store: &Store, here: &Path, name: &str) -> Result<Option<Error>> {
    // A folder that cannot be listed has no names to compare with.
    let mut folders: Vec<OsString> = fs::read_dir(here)
        .map(|entries| entries.flatten().filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    folders.retain(|folder| folder.to_str().is_some_and(|folder| is_near(name, folder, true)));
    if let Some(folder) = folders.into_iter().min() {
        let other = format!("the folder {}", Path::new(&folder).shown());
        return Ok(Some(mistyped(name, other, folder)));
    }
    let sessions = store.view().sessions()?;
    let names = sessions.into_iter().flat_map(|session| [session.name, session.id]);
    let found = names.filter(|other| is_near(name, other, false)).min();
    Ok(found.map(|session| mistyped(name, format!("the session {session}"), session.into())))
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
