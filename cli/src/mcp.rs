//! `mcp`: serves checkpoints to the agent itself.

use parhelia_mcp::server::{self, Opener};

use crate::{
    context::{Context, seen_folder},
    exit::{Code, Failure, Result},
};

/// Serves until the agent has ended.
pub fn run(context: &Context) -> Result<Code> {
    let place = context.store_place()?;
    let opener =
        Opener { path: place.path, makes_store: !place.is_named, lock_timeout: context.lock_timeout()?, memory: seen_folder() };
    let host = Box::new(context.host()?);
    let failed =
        |source| Failure::File { action: "serve the Model Context Protocol over", path: "standard input".into(), source };
    server::serve(opener, host).map_err(failed)?;
    Ok(Code::Done)
}
