//! Errors of a bucket: the action, the object and the cause; [`Error::step`] has the next step.

use std::{fmt, time::Duration};

/// Result of what a bucket does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a bucket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A remote's URL that cannot be used. The URL itself is not in the message, because it may hold a password.
    #[error("cannot use the URL of the remote: {0}")]
    Url(String),
    /// A server that lacks what the bucket needs.
    #[error("cannot use the remote: {0}")]
    Refused(String),
    /// A request that failed.
    #[error("cannot {action} {object}: {cause}")]
    Request {
        /// The action, as a verb: `read`, `write`, `list`, `delete`.
        action: &'static str,
        /// The object's path in the bucket.
        object: String,
        /// The cause, without query strings, which may hold signatures.
        cause: String,
        /// True if the same request may succeed later.
        is_transient: bool,
    },
    /// A request without an answer.
    #[error("cannot {action} {object}: no answer within {} s", .after.as_secs())]
    TimedOut {
        /// The action, as a verb.
        action: &'static str,
        /// The object's path in the bucket.
        object: String,
        /// The time that was waited.
        after: Duration,
    },
    /// An object that does not exist.
    #[error("cannot read {object}: it does not exist")]
    NotFound {
        /// The object's path in the bucket.
        object: String,
    },
    /// A write whose outcome is open: it may have taken effect, or may still do so.
    #[error("cannot tell whether {object} was written: {cause}")]
    NotKnown {
        /// The object's path in the bucket.
        object: String,
        /// The last answer.
        cause: String,
    },
    /// An object whose bytes are not what was written.
    #[error("{object} is damaged: {cause}")]
    Damaged {
        /// The object's path in the bucket.
        object: String,
        /// What does not fit.
        cause: String,
    },
    /// A key that does not open an object which is itself whole.
    #[error("cannot open {object}: the key of generation {generation} is another one")]
    WrongKey {
        /// The object's path in the bucket.
        object: String,
        /// Generation of the key that the object names.
        generation: u32,
    },
    /// A generation of keys that is not at hand.
    #[error("cannot open {object}: the key of generation {generation} is not known here")]
    NoKey {
        /// The object's path in the bucket.
        object: String,
        /// Generation of the missing key.
        generation: u32,
    },
    /// No slot opens with the secret that was given.
    #[error("cannot open the keys of the bucket: {0}")]
    Locked(String),
    /// A format that is newer than this release.
    #[error("cannot use {object}: {what}")]
    Newer {
        /// The object's path in the bucket.
        object: String,
        /// The version or feature flag that is not known.
        what: String,
    },
    /// A bucket that is not what this machine knows: another store, or an older copy.
    #[error("cannot use the bucket: {0}")]
    Foreign(String),
    /// A credential command that failed.
    #[error("cannot get credentials from credential_command: {0}")]
    Credential(String),
    /// The state of this machine that could not be kept or read.
    #[error("cannot keep the state of this machine: {0}")]
    State(String),
    /// A local pack whose content is not the one that it is known by.
    #[error("cannot upload {object}: the content of the local pack {label} has changed")]
    Changed {
        /// The object's path in the bucket.
        object: String,
        /// The local store's name of the pack, in hex.
        label: String,
    },
    /// The local store's answer.
    #[error("{0}")]
    Local(Box<dyn std::error::Error + Send + Sync>),
    /// A request that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Random bytes that the system does not give.
    #[error("cannot get random bytes from the system")]
    Random,
}

impl Error {
    /// An error of damaged bytes.
    pub(crate) fn damaged(object: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Error::Damaged { object: object.to_string(), cause: cause.to_string() }
    }

    /// True if the same action may succeed when it is tried again.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Request { is_transient, .. } => *is_transient,
            Error::TimedOut { .. } => true,
            _ => false,
        }
    }

    /// The next step, in words that name no command; absent where the message says it.
    pub fn step(&self) -> Option<&'static str> {
        match self {
            Error::Url(_) => {
                Some("write it as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or file:///FOLDER")
            }
            Error::Refused(_) => {
                Some("use a server whose writes with If-None-Match are atomic, such as S3, R2, GCS, Azure or Ceph")
            }
            Error::Request { is_transient: true, .. } | Error::TimedOut { .. } => Some("try again when the remote answers"),
            Error::Request { .. } => Some("check the credentials, the bucket's name and the rights of the key"),
            Error::NotKnown { .. } => Some("nothing is lost: the same bytes are sent again at the next push"),
            Error::Damaged { .. } => {
                Some("bring the object back from the bucket's versions or a copy; machines' own stores have what they made")
            }
            Error::WrongKey { .. } | Error::Locked(_) => Some("give the passphrase, key or recovery phrase of this bucket"),
            Error::NoKey { .. } => Some("read the keys of the bucket again: they were rotated"),
            Error::Newer { .. } => Some("use a newer release of parhelia"),
            Error::Foreign(_) => Some(
                "check the URL; if the bucket was set back to an older state, leave it and join it again: everything that it lacks is sent",
            ),
            Error::Credential(_) => Some("run the command by hand and look at what it prints"),
            Error::Changed { .. } => {
                Some("check the local store and repair the pack; the next push uploads it under a fresh name")
            }
            Error::State(_) => Some("check the disk of the local store"),
            Error::NotFound { .. } | Error::Local(_) | Error::Invalid(_) | Error::Random => None,
        }
    }
}

/// A message of a client, with the query strings of URLs left out: they may hold signatures and tokens.
pub(crate) fn without_queries(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for word in message.split_inclusive(char::is_whitespace) {
        match word.find("://").and_then(|scheme| word[scheme..].find('?').map(|query| scheme + query)) {
            Some(query) => {
                out.push_str(&word[..query]);
                out.extend(word.chars().filter(|c| c.is_whitespace()));
            }
            None => out.push_str(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_in_urls_are_left_out() {
        let message = "error sending request for url (https://a.example/b/c?sig=SECRET&se=1) after 3 tries";
        assert_eq!(without_queries(message), "error sending request for url (https://a.example/b/c after 3 tries");
        assert_eq!(without_queries("is it there? yes"), "is it there? yes");
    }
}
