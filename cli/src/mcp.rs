//! `mcp`: serves checkpoints to the agent itself.

use parhelia_mcp::server::{self, Opener};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Serves until the agent has ended.
pub fn run(context: &Context) -> Result<Code> {
    let opener = Opener { path: context.store_path()?, lock_timeout: context.lock_timeout()? };
    let host = Box::new(context.host()?);
    let failed =
        |source| Failure::File { action: "serve the Model Context Protocol over", path: "standard input".into(), source };
    server::serve(opener, host).map_err(failed)?;
    Ok(Code::Done)
}
