//! The command lines by which this program starts itself: in panes of tmux, as the relay of an agent's output, and to ask a model.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use parhelia_host::pane::PaneWork;

use crate::global::Global;

/// The only argument of the process that passes on what an agent prints. It is no verb: nobody calls it.
pub const RELAY: &str = "relay-of-agent";

/// The words that have a model asked for a summary of a session.
pub const ASK_MODEL: [&str; 3] = ["session", "summary", "--ask-model"];

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
pub fn in_pane(program: PathBuf, folder: &Path) -> Vec<OsString> {
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
