//! The command line's tests, by subject: the real binary in a home of its own.

#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods)]

mod beginning;
mod common;

mod environment;
mod exit_codes;
mod export;
mod first_checkpoint;
mod habits;
mod listed;
mod mount;
mod reading;
mod remotes;
mod said;
mod sessions;
mod store_places;
mod terminal;
mod unprinted;
mod unread;
mod unsupervised;
mod words;
mod writing;
