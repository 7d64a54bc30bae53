//! `session move`: the workspace of a session is another folder by now.

use std::path::PathBuf;

use parhelia_life::workspace::moved::{Relocation, move_session};
use parhelia_wire::Summary;

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of `session move`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// The folder that is its workspace by now [default: where the folder is found, by a process that works in it, near its old place or elsewhere on its disk]
    path: Option<PathBuf>,
    /// Also where that is another folder, such as a copy on another disk
    #[arg(long)]
    other_folder: bool,
}

/// Records it. Nothing is moved, and no file is changed.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let path = args.path.as_deref();
    let moved = move_session(&store, &context.host()?, &args.session, path, args.other_folder, &context.progress())?;
    let Relocation { session: id, from, to, others } = moved;
    context.out.did(format!("session {id} works in {} from here on", to.path));
    for other in others {
        tell!("parhelia: session {other} is alive there, too");
    }
    context.out.remark(format!("Session {id} works in {} from here on.", to.path))?;
    context.out.summary(Summary::SessionMove { id, from, to: to.path })?;
    Ok(Code::Done)
}
