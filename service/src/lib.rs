//! The service of a store: it sees sessions whose agents died and has them go on, makes checkpoints of agents that nobody else watches over,
//! and answers programs over HTTP.
//!
//! It is one process for a store, and nothing depends on it: whatever it does is a workflow of [`parhelia_life`] and its neighbours, which the command line
//! has as well. It starts no agent as its own child, so that its end, or another release in its place, ends none.
//!
//! `doors` opens the socket (`listen`) and TCP, or takes those that systemd has opened (`activation`), `tls` encrypts, `connection` accepts
//! connections and bounds them (`guests`), `guard` asks for the `token` and refuses requests of others' web pages, which `origin` keeps apart
//! from `page`, this service's own, which shows by `browsers` that it may ask without sending the token. `repeated` answers those that are sent again, `gzip` compresses answers, `api` answers the others, `feed` tells listeners of new
//! events, `metrics` counts, `emitter` is the other end of a run elsewhere, `start` starts agents, and `watch` looks after sessions. Only this crate is asynchronous, and only where it waits
//! for sockets: the work itself runs on a bounded number of threads (`app`).
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `serve` `signals` | the service from its start to its end: its lock, its threads; the signals that end it, the second one at once |
//! | `doors` `listen` `activation` | the places at which it can be connected to: its own socket and address, or those that systemd has passed |
//! | `tls` `token` `own` | certificates and handshakes; the token of browsers; files that go with the service |
//! | `connection` `timely` | connections, bounded in number and time, with places of their own at the socket and over TCP; writes that make no progress |
//! | `guard` `origin` | what a request must be, whatever it asks for; the literal address that a browser must name |
//! | `page` | the files of the page (`service/page/`), which are in the binary, and the headers that they are sent with |
//! | `app` | what requests share, and the bounded threads on which they read, work and record; places for checkpoints of the watch |
//! | `caller/` | the process at the other end of a connection, as a host of workflows; `tcp` finds that of a loopback connection |
//! | `api/` | operations, each described where it is routed; `openapi` is made of them |
//! | `problem` | the answer to a request that cannot be served: the one table of errors |
//! | `repeated/` | requests with a key, which are done once; `file` keeps their answers |
//! | `gzip` | answers that are compressed for those who take them so |
//! | `listing` | sessions as they were recorded and seen last, for lists and numbers |
//! | `emitter` `heartbeat` | the other end of a run on another machine: begins it at a service, says that it lives until its agent has ended |
//! | `metrics` | numbers for a monitor |
//! | `feed` | new entries of the journal, for everybody who listens |
//! | `start` | sessions that are begun and resumed, in tmux, apart from the service |
//! | `watch/` | one thread that waits for deaths and for the journal to grow: checkpoints where nobody else makes them (`capture`), resumes (`recovery`), handing over before a container's end (`lifetime`), retention and gc (`upkeep`) |
//! | `outbox/` | what follows from events outside of the store, as deliveries: kept in files beside the store until they are done, tried again, and failed for good in the end |
//! | `notify/` | which events are told to whom (`told`), in which words (`text`), and each kind of channel |
//! | `trackers/` | which issues a session has to do with (`found`), what follows for them (`acts`), and each tracker behind one trait |
//! | `model` | asking a model's API for a summary |
//! | `http` | requests to others: https alone, no redirects, bounded answers, no secret in an error |

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
mod error;
mod feed;
mod guard;
mod guests;
mod gzip;
mod heartbeat;
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
mod problem;
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

pub use activation::{PassedSocket, PassedSockets};
pub use api::openapi::document as openapi;
pub use browsers::Table as Browsers;
pub use doors::{Address, Page, Socket, Tcp, token_path};
pub use emitter::{BeginRun, EmitError, Emitter, Reach};
pub use error::Error;
pub use heartbeat::{HeartbeatFailure, supervise};
pub use listen::socket_path;
pub use serve::{Options, serve};
pub use tls::CertificateFiles;
