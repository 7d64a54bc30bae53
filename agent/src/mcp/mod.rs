//! The MCP servers of an agent: where they are configured, how each is reached, and a proxy before those that the agent starts itself.

pub(crate) mod configured;
pub(crate) mod places;
mod proxied;
mod reached;

pub use configured::{Scope, ServerConfig, configured};
pub use places::Places;
pub use proxied::{PROXY, ProxyCommand, ProxyEdit, unwrap, wrap, wrapped};
pub use reached::{Remote, Transport};
