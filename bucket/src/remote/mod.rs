//! The remote: its URL, the client, and requests that are settled whatever the answers.

mod client;
mod credential;
mod effort;
mod probe;
mod put;
mod request;
mod url;

pub use self::{
    client::{Client, ConnectOptions},
    credential::CredentialCommand,
    effort::Effort,
    probe::{ProbeReport, probe},
    put::PutOutcome,
    request::{Listed, PartsOf},
    url::{Provider, RemoteUrl},
};
