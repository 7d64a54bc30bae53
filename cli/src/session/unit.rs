//! `session unit`: a unit for systemd that resumes at boot what the machine's end has interrupted.

use parhelia_store::name::Shown as _;
use std::{
    fs,
    path::{Path, PathBuf, absolute},
};

use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
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
    let failed = |source| Failure::File { action: "find", path: "the program itself".into(), source };
    let program = std::env::current_exe().map_err(failed)?;
    let store = context.store_path()?;
    let store = absolute(&store).map_err(|source| Failure::File { action: "use", path: store.clone(), source })?;
    let path = std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned();
    if let Some(path) = [&program, &store].into_iter().find(|path| path.to_str().is_none()) {
        return Err(Failure::Usage(format!(
            "cannot write a unit: {} is not UTF-8, and units are\nGive a store and a program at other paths",
            path.shown()
        )));
    }
    let text = unit(&program, &store, &path);
    if !args.install {
        context.out.line(text.trim_end())?;
        context.out.summary(Summary::SessionUnit { name: NAME.into(), unit: text, path: None })?;
        return Ok(Code::Done);
    }
    let folder = folder()?;
    let path = folder.join(NAME);
    fs::create_dir_all(&folder).map_err(|source| Failure::File { action: "create folder", path: folder, source })?;
    fs::write(&path, &text).map_err(|source| Failure::File { action: "write", path: path.clone(), source })?;
    context.out.did(format!("{} is written", path.shown()));
    context.out.remark(format!("Wrote {}. To have it run at each boot:", path.shown()))?;
    context.out.remark("  systemctl --user daemon-reload")?;
    context.out.remark(format!("  systemctl --user enable {NAME}"))?;
    context.out.remark("  loginctl enable-linger    # also before you log in")?;
    context.out.summary(Summary::SessionUnit { name: NAME.into(), unit: text, path: Some(path.shown()) })?;
    Ok(Code::Done)
}

fn folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    let config = config.ok_or_else(|| Failure::Usage("no folder for units: set HOME or XDG_CONFIG_HOME".into()))?;
    Ok(config.join("systemd/user"))
}

/// The unit. It stays active as long as its tmux server does, so that at shutdown the agents are asked to end, and are waited for. What could
/// not be resumed is no reason to end what could.
fn unit(program: &Path, store: &Path, path: &str) -> String {
    let word = |text: &str| quoted(&text.replace('$', "$$"));
    format!(
        "[Unit]\n\
         Description=Resume the coding agents that ran when this machine went down\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         Environment={}\n\
         ExecStart=-{} --store {} session resume --all\n\
         TimeoutStopSec=90\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        quoted(&format!("PATH={path}")),
        word(&program.to_string_lossy()),
        word(&store.to_string_lossy())
    )
}

/// A word as systemd reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_systemd_takes_them_for() {
        let text = unit(Path::new("/opt/my tools/parhelia"), Path::new("/data/100%/$x"), "/a b:/\"c\"");
        assert!(
            text.contains("\nExecStart=-\"/opt/my tools/parhelia\" --store \"/data/100%%/$$x\" session resume --all\n"),
            "{text}"
        );
        assert!(text.contains("\nEnvironment=\"PATH=/a b:/\\\"c\\\"\"\n"), "{text}");
    }
}
