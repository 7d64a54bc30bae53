//! The service of a store: it sees sessions whose agents died and has them go on, makes checkpoints of agents that nobody else watches over,
//! and answers programs over HTTP.
//!
//! It is one process for a store, and nothing depends on it: whatever it does is a workflow of [`parhelia_session`], which the command line
//! has as well. It starts no agent as its own child, so that its end, or another release in its place, ends none.
//!
//! `doors` opens the socket (`listen`) and TCP, or takes those that systemd has opened (`activation`), `tls` encrypts, `connection` accepts
//! connections and bounds them (`guests`), `guard` asks for the `token` and refuses requests of others' web pages, which `origin` keeps apart
//! from `page`, this service's own, which shows by `browsers` that it may ask without sending the token. `repeated` answers those that are sent again, `gzip` compresses answers, `api` answers the others, `feed` tells listeners of new
//! events, `metrics` counts, `emitter` is the other end of a run elsewhere, `start` starts agents, and `watch` looks after sessions. Only this crate is asynchronous, and only where it waits
//! for sockets: the work itself runs on a bounded number of threads (`app`).

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod activation;
mod api;
mod app;
mod browsers;
mod caller;
mod connection;
mod doors;
mod emitter;
mod feed;
mod guard;
mod guests;
mod gzip;
mod http;
mod listen;
mod listing;
mod log;
mod metrics;
pub mod model;
pub mod notify;
mod origin;
pub mod outbox;
mod own;
mod page;
mod repeated;
mod serve;
mod signals;
mod start;
mod systemd;
mod timely;
mod tls;
mod token;
pub mod trackers;
mod turns;
mod verdict;
mod watch;

pub use activation::{Passed, PassedSocket};
pub use api::openapi::document as openapi;
pub use browsers::{Browser, Table as Browsers};
pub use doors::{Address, Page, Socket, Tcp, token_path};
pub use emitter::{BeginRun, EmitError, Emitter, Reach};
pub use listen::socket_path;
pub use serve::{Error, Options, serve};
pub use start::{NewSession, Place, Start, Starter, Variables};
pub use tls::CertificateFiles;
