//! `mcp-proxy`: stands between an agent and an MCP server that the agent starts.

use std::{
    ffi::{OsStr, OsString},
    process::{Command, exit},
};

use parhelia_agent::process::{Identity, SESSION_MARKER, ancestors};
use parhelia_host::config::call::OVERRULED;
use parhelia_mcp::proxy::{self, ProxyTarget};

use crate::{
    authority,
    context::Context,
    exit::{Code, Failure, Result},
    limits,
};

/// Flags of `mcp-proxy`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server's name in the agent's configuration
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    name: String,
    /// The server, and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The variable that names the store.
const STORE: &str = "PARHELIA_STORE";

/// Does it, until the server ends; this process ends as it did.
pub fn run(context: &Context, args: &Args) -> Result<Code> {
    // Some agents give their servers few variables; the agent itself has them.
    let above: Vec<Identity> = ancestors().into_iter().skip(1).collect();
    let inherited = |name: &str| {
        let found = std::env::var_os(name).or_else(|| above.iter().find_map(|one| value_of(one, name)));
        found.filter(|value| !value.is_empty())
    };
    let named = context.global.store.clone().or_else(|| inherited(STORE).map(Into::into));
    // Whatever is wrong with the configuration, the agent has its server.
    let settings = context.own_config().map(|config| config.mcp).unwrap_or_default();
    let proxied = ProxyTarget {
        name: args.name.clone(),
        command: args.command.clone(),
        store: named.or_else(|| context.store_path().ok()).filter(|_| settings.capture),
        state_bytes_max: settings.max_state_bytes,
        session: inherited(SESSION_MARKER).and_then(|session| session.into_string().ok()),
    };
    // The server has the variables that the agent's configuration gives it.
    let start = |command: &mut Command| {
        for (name, value) in authority::carried() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env_remove(OVERRULED);
        limits::for_others(|| command.spawn())
    };
    match proxy::run(proxied, start) {
        Ok(code) => exit(code.into()),
        Err(source) => {
            let path = args.command.first().map(Into::into).unwrap_or_default();
            Err(Failure::File { action: "start", path, source })
        }
    }
}

fn value_of(process: &Identity, name: &str) -> Option<OsString> {
    let variables = process.variables().ok()?;
    variables.into_iter().find(|(key, _)| key == OsStr::new(name)).map(|(_, value)| value)
}
