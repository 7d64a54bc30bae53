//! One error for the whole crate: what was being done, and why it failed.

use std::error::Error as StdError;
use std::fmt;

/// The action that failed, with the cause below it.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that has no deeper cause.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// The whole chain of causes in one line, outermost first.
    pub fn chain(&self) -> String {
        let mut line = self.what.clone();
        let mut cause = self.source();
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

/// Says what was being done when a call failed.
pub trait Context<T> {
    /// Wraps the error; `what` is evaluated only on failure.
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: StdError + Send + Sync + 'static> Context<T> for std::result::Result<T, E> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|error| Error { what: what().into(), source: Some(Box::new(error)) })
    }
}

/// Prints an error as the programs of this crate do, and gives the exit code.
pub fn report(program: &str, outcome: Result<()>) -> std::process::ExitCode {
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {}", error.chain());
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause() {
        let inner: Result<()> = Err(std::io::Error::other("disk on fire")).context(|| "read x");
        let outer = inner.context(|| "copy the tree").unwrap_err();
        assert_eq!(outer.chain(), "copy the tree: read x: disk on fire");
    }
}
