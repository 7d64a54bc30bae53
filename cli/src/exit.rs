//! Exit codes, failures, and how they are reported.

use parhelia_store::name::NameExt as _;
use std::{
    io::{self, ErrorKind as IoKind, Write},
    process::ExitCode,
};

use parhelia_host::Refusal;
use parhelia_store::{Error, ErrorKind};
use parhelia_wire::{Line, VerbError};

use crate::{limits, words};

/// Exit codes. Any code that is not listed means failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Everything that was asked for is done.
    Done = 0,
    /// It failed for a reason that has no code of its own.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Done, but for what was named.
    Partly = 3,
    /// Refused because of a state, as of a live agent.
    Refused = 4,
    /// No such store or checkpoint.
    NotFound = 10,
    /// Another process holds the store's lock, or what was asked for.
    Locked = 11,
    /// Stored bytes are damaged.
    Corrupt = 12,
    /// Stopped by Ctrl-C or a signal.
    Interrupted = 130,
}

impl Code {
    /// The code that a process of ours ended with.
    pub fn of_process(status: std::process::ExitStatus) -> Self {
        use Code::*;
        let all = [Done, Failed, Usage, Partly, Refused, NotFound, Locked, Corrupt, Interrupted];
        all.into_iter().find(|code| status.code() == Some(i32::from(*code as u8))).unwrap_or(Failed)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

/// The failure of a verb.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The store's answer.
    #[error(transparent)]
    Store(#[from] Error),
    /// A session's part of it failed.
    #[error("{}", words::error(.0))]
    Session(#[from] parhelia_host::Error),
    /// The agent's part of it failed.
    #[error(transparent)]
    Agent(#[from] parhelia_agent::Error),
    /// The FUSE side of a mount failed.
    #[error(transparent)]
    Mount(#[from] parhelia_fuse::Error),
    /// The service could not be started, or failed.
    #[error(transparent)]
    Service(#[from] parhelia_service::Error),
    /// The remote's part of it failed.
    #[error("{}", words::remote(.0))]
    Remote(#[from] parhelia_remote::Error),
    /// The outbox's files, or something behind them, failed.
    #[error(transparent)]
    Outbox(parhelia_service::outbox::Error),
    /// A process in the background ended before it answered; its own words, and its exit code.
    #[error("{message}")]
    Background {
        /// Its last words.
        message: String,
        /// The exit code that it ended with.
        code: Code,
    },
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The command makes sense, and a state is against it.
    #[error("{0}")]
    Refused(String),
    /// Something that was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// It could not be printed.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// A file that the user named failed.
    #[error("cannot {action} {}: {source}", path.shown())]
    File {
        /// The action that failed, as an infinitive.
        action: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Result of a verb, or of a part of one.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Session(refusal.into())
    }
}

impl Failure {
    /// The exit code for it.
    pub fn code(&self) -> Code {
        match self {
            Failure::Store(error) => of_kind(error.kind()),
            Failure::Session(error) => of_kind(error.kind()),
            Failure::Remote(error) => of_kind(error.kind()),
            Failure::Usage(_)
            | Failure::Agent(parhelia_agent::Error::Invalid(_))
            | Failure::Mount(parhelia_fuse::Error::Mountpoint { .. }) => Code::Usage,
            Failure::Mount(parhelia_fuse::Error::Store(error)) => of_kind(error.kind()),
            Failure::Mount(parhelia_fuse::Error::NotMounted { .. }) | Failure::NotFound(_) => Code::NotFound,
            Failure::Refused(_) => Code::Refused,
            Failure::Service(parhelia_service::Error::Store(error)) => of_kind(error.kind()),
            Failure::Service(parhelia_service::Error::Taken { .. }) => Code::Locked,
            // systemd starts what these end no second time.
            Failure::Service(parhelia_service::Error::Unprotected { .. } | parhelia_service::Error::Passed { .. }) => Code::Usage,
            Failure::Mount(_) | Failure::Agent(_) | Failure::Service(_) | Failure::Outbox(_) => Code::Failed,
            Failure::Background { code, .. } => *code,
            // A path that was to be read. Where something cannot be made or started, more is missing than that.
            Failure::File { action: "open" | "read", source, .. } if source.kind() == IoKind::NotFound => Code::NotFound,
            Failure::Output(_) | Failure::File { .. } => Code::Failed,
        }
    }

    /// True if nobody reads our output any more, as behind `| head`: that is the reader's right and no failure.
    pub fn is_broken_pipe(&self) -> bool {
        let is_output = matches!(self, Failure::Output(_) | Failure::Store(_));
        is_output && self.system_error().is_some_and(|source| source.kind() == IoKind::BrokenPipe)
    }

    /// The system's error, however deep it lies; none if there is none.
    fn system_error(&self) -> Option<&io::Error> {
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }
}

/// The one table from error kinds to exit codes.
fn of_kind(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Failed => Code::Failed,
        ErrorKind::Usage => Code::Usage,
        ErrorKind::Refused => Code::Refused,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Locked => Code::Locked,
        ErrorKind::Corrupt => Code::Corrupt,
        ErrorKind::Cancelled => Code::Interrupted,
    }
}

/// Reports a failure on stderr, and as the last line of stdout under `--json`.
pub fn report(failure: &Failure, json: bool) -> ExitCode {
    if failure.is_broken_pipe() {
        return Code::Done.into();
    }
    let code = failure.code();
    tell!("parhelia: {failure}");
    if let Some(hint) = failure.system_error().and_then(limits::hint) {
        tell!("{hint}");
    }
    if json {
        print_error(code, &failure.to_string());
    }
    code.into()
}

/// Reports arguments that do not parse; also prints help and version, which come as errors.
pub fn of_arguments(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| io::stdout().flush());
    if !error.use_stderr() {
        return printed.map_err(Failure::Output).map_or_else(|failure| report(&failure, false), |()| Code::Done.into());
    }
    if std::env::args_os().any(|arg| arg == "--json") {
        let text = error.to_string();
        print_error(Code::Usage, text.trim_start_matches("error: ").lines().next().unwrap_or_default());
    }
    Code::Usage.into()
}

fn print_error(code: Code, message: &str) {
    let line = Line::Error(VerbError { code: code as u8, message: message.into() });
    if let Ok(text) = serde_json::to_string(&line) {
        let _ = writeln!(io::stdout(), "{text}");
    }
}
