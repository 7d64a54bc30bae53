//! The command lines of processes of ours in panes of tmux.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf, absolute},
    process::Command,
    time::Duration,
};

use parhelia_host::{Host, pane::PaneWork};
use parhelia_life::tmux;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    global::Global,
    limits,
};

/// The global flags with which another process of ours does the same; relative paths are made absolute, because a pane has another folder.
pub fn flags(global: &Global) -> io::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(config) = &global.config {
        words.extend(["--config".into(), absolute(config)?.into_os_string()]);
    }
    if let Some(timeout) = global.lock_timeout {
        words.extend(["--lock-timeout".into(), timeout.as_secs_f64().to_string().into()]);
    }
    words.extend(global.quiet.then(|| "--quiet".into()));
    words.extend(global.verbose.then(|| "--verbose".into()));
    Ok(words)
}

/// The command line of the process that takes over what is in a folder.
pub fn command(program: PathBuf, folder: &Path) -> Vec<OsString> {
    vec![program.into(), "session".into(), "in-pane".into(), folder.into()]
}

/// The arguments by which it does some work on a store, with the prompt in a file.
pub fn arguments(flags: &[OsString], store: &Path, work: &PaneWork, prompt: Option<&Path>) -> io::Result<Vec<OsString>> {
    let mut words = vec!["--store".into(), absolute(store)?.into_os_string()];
    words.extend_from_slice(flags);
    let verb = if matches!(work, PaneWork::Launch { .. }) { "run" } else { "resume" };
    words.extend(["session".into(), verb.into()]);
    words.extend(prompt.into_iter().flat_map(|path| ["--prompt-file".into(), path.into()]));
    let every = |interval: &Option<Duration>| ["--interval".into(), interval.unwrap_or_default().as_secs().to_string().into()];
    match work {
        PaneWork::Launch { name, policy, workspace, interval, copied, command } => {
            words.extend(["--workspace".into(), workspace.into()]);
            words.extend(every(interval));
            words.extend(name.iter().map(|name| format!("--name={name}").into()));
            words.extend(policy.iter().map(|policy| format!("--policy={policy}").into()));
            words.extend(copied.iter().flat_map(|(id, folder)| ["--copied".into(), id.into(), folder.into()]));
            words.push("--".into());
            words.extend_from_slice(command);
        }
        PaneWork::Resume { session, run, interval, new_conversation, launch_variables } => {
            words.extend(["--run".into(), run.into()]);
            words.extend(launch_variables.then(|| "--launch-variables".into()));
            words.extend(every(interval));
            words.extend(new_conversation.then(|| "--new-conversation".into()));
            words.extend(["--".into(), session.into()]);
        }
    }
    Ok(words)
}

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
