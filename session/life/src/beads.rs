//! Running `bd`, the program of Beads, in a workspace.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
};

use parhelia_agent::program;

/// Variables that it gets, where they are set.
const VARIABLES: [&str; 12] = [
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "BEADS_DIR",
];

/// A command of `bd`, which gets no variable that could be a secret; none where it is not installed. A program that lies in the workspace is
/// never run.
pub fn command(workspace: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Command> {
    let search_path = variable("PATH");
    let bd = program::outside("bd", search_path.as_deref(), workspace)?;
    let mut command = Command::new(bd);
    command.current_dir(workspace).env_clear();
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, variable(name)?))));
    let path = program::search_path(search_path.as_deref(), workspace);
    command.env("PATH", path.as_deref().unwrap_or(OsStr::new("/usr/bin:/bin")));
    // A background process would keep the pipes, and outlive this one.
    command.env("BD_ACTOR", "parhelia").env("BEADS_NO_DAEMON", "1");
    Some(command)
}
