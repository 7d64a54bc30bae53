//! `mount-guard`: the process that detaches a mount whose own process died. Only `mount` starts it.

use std::path::PathBuf;

use crate::exit::{Code, Result};

/// Arguments of `mount-guard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Mountpoint
    mountpoint: PathBuf,
    /// The mount's identity, as the mount itself says
    identity: String,
}

/// Guards a mount until it is over.
pub fn run(args: &Args) -> Result<Code> {
    parhelia_fuse::guard(&args.mountpoint, &args.identity)?;
    Ok(Code::Done)
}
