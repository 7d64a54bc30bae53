//! `session in-pane`: becomes what another process of ours does in a new pane of tmux.

use std::{
    ffi::OsStr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_host::Host;
use parhelia_life::tmux;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    limits,
};

/// Flags of `session in-pane`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder in which something is handed over
    folder: PathBuf,
}

/// Becomes what was handed over, with the environment of who did it.
pub fn take(context: &mut Context, args: &Args) -> Result<Code> {
    // Whatever the tmux server's environment says of a configuration.
    let host = context.hook_host();
    let Some(taken) = tmux::take(&args.folder, &host)? else {
        return Err(Failure::Refused("whoever made this pane has given up".into()));
    };
    if let Some(scrolled) = tmux::scroll_up(&host) {
        // The pane may be gone, which is nothing to stop for.
        let _ = context.out.bytes(scrolled.as_bytes()).and_then(|()| context.out.flush());
    }
    let failed = |path: &Path, source| Failure::File { action: "start", path: path.to_owned(), source };
    let program = host.program().map_err(|source| failed(OsStr::new("the program itself").as_ref(), source))?;
    limits::hand_over(taken.umask);
    let source = Command::new(&program).args(taken.arguments).env_clear().envs(taken.environment).exec();
    Err(failed(&program, source))
}
