//! The state of the MCP servers around an agent: read from the live ones as a checkpoint is made, kept in it, and given back to those that
//! serve the agent once it was resumed.
//!
//! A server over standard streams belongs to one agent, and no other process can talk to it. So a proxy (`parhelia mcp-proxy`) stands
//! between the two and can be asked ([`live`]). Servers that keep their state in files are read from these (`declared`); one that does
//! neither is stateless.

mod back;
mod capture;
mod declared;
mod inside;
pub mod last;
pub mod live;
pub mod pending;
mod saved;

pub use back::{Back, give_back};
pub use capture::{Around, job};
pub use saved::{MCP, SavedFile, SavedState, Server, ServerList, saved};

/// The reason why a server over HTTP is not asked, behind "it is reached over HTTP, and".
pub(crate) const NOT_ASKED: &str = "is not configured by the user, with supports_checkpoint (`mcp.servers`)";

/// The words for a server that has ended.
pub(crate) const ENDED: &str = "it has ended";
