//! The one error type of this crate. Every variant names the thing, the cause and, where there is one, the next step.

use parhelia_name::{NameExt as _, step::Step};
use std::{io, path::Path, path::PathBuf};

/// The reasons why something could not be done with an agent, its files or its processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.shown())]
    Io {
        /// The action, as an infinitive ("read", "create folder").
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// Name of the program, such as `git`.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program ended badly.
    #[error("`{command}` failed: {reason}")]
    Program {
        /// Words of the command line, shortened, or what it was run for.
        command: String,
        /// Its own words, or how it ended.
        reason: String,
    },
    /// A repository is another user's, and the user's settings of git do not allow it.
    #[error("the repository {} belongs to uid {uid}, and git's setting safe.directory does not allow it", root.shown())]
    StrangersRepository {
        /// Its folder.
        root: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// A program did not end in time, and was ended.
    #[error("`{command}` did not answer within {waited_ms} ms")]
    Slow {
        /// Words of the command line, shortened, or the program's name.
        command: String,
        /// The time that was waited.
        waited_ms: u128,
    },
    /// A settings file that must not be touched.
    #[error("{}: {reason}; nothing was changed", path.shown())]
    Settings {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A file that cannot be replaced, and could be written over only in part.
    #[error("cannot write all of {}: {source}; copy {} over it", path.shown(), copy.shown())]
    HalfWritten {
        /// The file.
        path: PathBuf,
        /// A file with the whole text.
        copy: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A signal could not be sent.
    #[error("cannot stop process {process}: {source}")]
    Signal {
        /// Process id of the process that was to be stopped.
        process: i32,
        /// The system's answer.
        source: io::Error,
    },
    /// A conversation that is not where the agent keeps them.
    #[error("no transcript of conversation {agent_session} below {}; name it with {}, or check the agent's configuration folder", config.shown(), Step::Transcript)]
    NoTranscript {
        /// The agent's id of the conversation.
        agent_session: String,
        /// The agent's own folder, in which it was looked for.
        config: PathBuf,
    },
    /// The request makes no sense as put.
    #[error("{0}")]
    Invalid(String),
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds to a system error what was being done, to what.
pub trait IoContext<T> {
    /// `action` is an infinitive.
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { action, path: path.to_owned(), source: source.into() })
    }
}
