//! `umount`: ends a mount.

use parhelia_store::name::NameExt as _;
use std::path::PathBuf;

use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `umount`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The mountpoint
    mountpoint: PathBuf,
}

/// Unmounts; says who holds it where somebody does.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    parhelia_fuse::unmount(&args.mountpoint)?;
    let at = args.mountpoint.shown();
    context.out.did(format!("{at} is unmounted"));
    context.out.remark(format!("Unmounted {at}."))?;
    context.out.summary(Summary::Umount { mountpoint: at })?;
    Ok(Code::Done)
}
