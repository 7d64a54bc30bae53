//! The errors of the service.

use parhelia_store::name::step::Step;
use std::{io, net::SocketAddr, path::PathBuf};

use parhelia_store::name::NameExt as _;

/// An error of the service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another service has the store.
    #[error("this store has a service already: {holder}; stop that one first")]
    Taken {
        /// The process that has it.
        holder: String,
    },
    /// The store said so.
    #[error(transparent)]
    Store(#[from] parhelia_store::Error),
    /// A socket cannot be used.
    #[error("cannot {action} {}: {source}", path.shown())]
    Socket {
        /// The action that failed, as an infinitive.
        action: &'static str,
        /// The socket, or its folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Address {
        /// IP address and port that were to be listened at.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// An address that other machines can reach, without TLS.
    #[error(
        "cannot listen at {address}: without TLS only addresses of this machine are taken, such as 127.0.0.1\nGive {} FILE and {} FILE, or \
         listen at 127.0.0.1 and come through ssh -L",
        Step::TlsCertificate,
        Step::TlsKey
    )]
    Unprotected {
        /// IP address and port, which other machines can reach.
        address: SocketAddr,
    },
    /// A certificate, or its key, cannot be used.
    #[error("cannot use the {what} {}: {why}\n{next}", path.shown())]
    Certificate {
        /// The kind of file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
        /// The next step, as a sentence.
        next: String,
    },
    /// A socket that systemd has passed cannot be used.
    #[error("cannot use file descriptor {number}, which systemd has passed: {why}\n{next}")]
    Passed {
        /// The file descriptor.
        number: usize,
        /// The reason.
        why: String,
        /// The next step, as a sentence.
        next: &'static str,
    },
    /// A token cannot be used.
    #[error("cannot use the token {}: {source}", path.shown())]
    Token {
        /// Its file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The threads of the service cannot be started.
    #[error("cannot start the service's threads: {0}")]
    Threads(#[source] io::Error),
}
