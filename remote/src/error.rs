//! Errors of a store's remote.

use parhelia_store::ErrorKind;

/// Result of what is done with a remote.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store's remote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The local store's answer.
    #[error(transparent)]
    Store(#[from] parhelia_store::Error),
    /// The bucket's answer.
    #[error("{}", with_step(.0))]
    Bucket(parhelia_bucket::Error),
    /// A store without a remote.
    #[error("the store has no remote")]
    NoRemote,
    /// A store that has another remote.
    #[error("the store has a remote already: {url}")]
    HasRemote {
        /// The URL of the remote that it has.
        url: String,
    },
    /// A bucket that was to be there.
    #[error("there is no store at {url}")]
    NoBucket {
        /// The URL.
        url: String,
    },
    /// A bucket without encryption, where that was not agreed to.
    #[error("the bucket at {url} is not encrypted: whoever can read it reads everything")]
    Plain {
        /// The URL.
        url: String,
    },
    /// A machine that cannot be taken over any more.
    #[error("what machine {machine} has sent was taken in as another machine's")]
    TakenInBefore {
        /// Its id.
        machine: String,
    },
    /// The slot by which this machine opens the bucket.
    #[error("cannot remove the slot {slot}: this machine opens the bucket with it")]
    OwnSlot {
        /// Name of the slot.
        slot: String,
    },
    /// Another process is at work with the remote.
    #[error("another process of this machine is pushing to the remote, or fetching from it")]
    Busy,
    /// A store whose packs nobody else could read.
    #[error("cannot use a remote with this store: {0}")]
    Unfit(String),
    /// A file in the store's folder `remote/` that cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The action, as a verb.
        action: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// An error of the bucket, and the next step.
fn with_step(error: &parhelia_bucket::Error) -> String {
    error.step().map_or_else(|| error.to_string(), |step| format!("{error}; {step}"))
}

impl From<parhelia_bucket::Error> for Error {
    fn from(error: parhelia_bucket::Error) -> Self {
        match error {
            parhelia_bucket::Error::Local(error) => match error.downcast::<parhelia_store::Error>() {
                Ok(error) => Error::Store(*error),
                Err(error) => Error::Bucket(parhelia_bucket::Error::Local(error)),
            },
            error => Error::Bucket(error),
        }
    }
}

impl Error {
    /// The kind of error, for an exit code.
    pub fn kind(&self) -> ErrorKind {
        use parhelia_bucket::Error as Bucket;
        match self {
            Error::Store(error) => error.kind(),
            Error::Bucket(Bucket::Url(_) | Bucket::Invalid(_)) => ErrorKind::Usage,
            Error::Bucket(Bucket::Refused(_) | Bucket::Foreign(_) | Bucket::Newer { .. } | Bucket::Locked(_)) => {
                ErrorKind::Refused
            }
            Error::Bucket(Bucket::Damaged { .. } | Bucket::Changed { .. }) => ErrorKind::Corrupt,
            Error::NoRemote | Error::NoBucket { .. } => ErrorKind::NotFound,
            Error::HasRemote { .. }
            | Error::TakenInBefore { .. }
            | Error::OwnSlot { .. }
            | Error::Plain { .. }
            | Error::Unfit(_) => ErrorKind::Refused,
            Error::Busy => ErrorKind::Locked,
            _ => ErrorKind::Failed,
        }
    }

    /// True if the same may succeed when the remote answers again.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Bucket(error) if error.is_transient())
    }

    /// True if a write may have taken effect, and nobody knows.
    pub fn is_not_known(&self) -> bool {
        matches!(self, Error::Bucket(parhelia_bucket::Error::NotKnown { .. }))
    }
}

/// A local error, as the bucket's protocol hands it on.
pub(crate) fn local(error: parhelia_store::Error) -> parhelia_bucket::Error {
    parhelia_bucket::Error::Local(Box::new(error))
}
