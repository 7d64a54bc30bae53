//! The Model Context Protocol around a session: a [`proxy`] between an agent and a server, so that the live server's state can be had; a
//! [`client`] of servers over HTTP; and a [`server`] for the agent itself. The async runtime stays inside.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod client;
pub mod proxy;
pub mod server;
mod state;
