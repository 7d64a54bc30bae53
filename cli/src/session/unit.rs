//! `session unit`: a unit for systemd that resumes at boot what the machine's end has interrupted.

use parhelia_store::name::NameExt as _;
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Result},
    unit::{Unit, Words, install},
};

/// The unit's name.
const NAME: &str = "parhelia-resume.service";

/// Flags of `session unit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write it into the user's folder of units instead of printing it
    #[arg(long)]
    install: bool,
}

/// Prints or installs it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let text = unit(&Words::of(context)?);
    let path = if args.install {
        let enable = format!("enable {NAME}");
        let unit = Unit { name: NAME, text: text.clone() };
        Some(install(context, &unit, &[], &["daemon-reload", &enable])?)
    } else {
        context.out.line(text.trim_end())?;
        None
    };
    context.out.summary(Summary::SessionUnit { name: NAME.into(), unit: text, path: path.map(|path| path.shown()) })?;
    Ok(Code::Done)
}

/// The unit. It stays active as long as its tmux server does, so that at shutdown the agents are asked to end, and are waited for. What could
/// not be resumed is no reason to end what could.
fn unit(words: &Words) -> String {
    format!(
        "[Unit]\n\
         Description=Resume the coding agents that ran when this machine went down\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         Environment={}\n\
         ExecStart=-{} session resume --all\n\
         TimeoutStopSec=90\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        words.path, words.command
    )
}
