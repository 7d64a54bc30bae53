//! The Model Context Protocol around a session: a [`proxy`] between an agent and a server, so that the live server's state can be had; a
//! [`client`] of servers over HTTP; and a [`server`] for the agent itself. The async runtime stays inside.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `proxy/` | from the agent to the server (`agents`) and back (`servers`), the handshake (`hello`), requests of ours between (`ours`), checkpoints that ask (`asked`), a state that is given back (`given`) |
//! | `client` `state` | servers over HTTP; the convention by which servers hand their state out and take it back |
//! | `server/` | tools and resources for the agent: their arguments (`asked`), results (`shown`), and the work |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod client;
pub mod proxy;
pub mod server;
mod state;
