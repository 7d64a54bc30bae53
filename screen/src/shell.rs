//! A shell in a checkpoint that is mounted read-only for as long as it runs.

#![expect(clippy::disallowed_methods, reason = "its mountpoint is a temporary folder")]

use std::{
    fs, io,
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::Arc,
    thread,
    time::Duration,
};

use parhelia_store::{Store, id::Ulid, name::NameExt as _};

use crate::Caller;

/// The shell of whoever has none.
const DEFAULT: &str = "/bin/sh";
/// The end of the shell is looked for so often.
const LOOK_EVERY: Duration = Duration::from_millis(30);

/// A reason why there is no shell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The checkpoint cannot be mounted.
    #[error("cannot open a shell in checkpoint {checkpoint}: {why}")]
    NotMounted {
        /// Id of the checkpoint that was to be mounted.
        checkpoint: Ulid,
        /// The reason.
        why: String,
    },
    /// A system call failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action, as an infinitive.
        action: &'static str,
        /// The file or program, as shown.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// Mounts a checkpoint on a new folder, runs the user's shell in it until that ends, and removes both. `begin` is called with the folder just
/// before the shell starts.
pub fn run(caller: &dyn Caller, store: &Arc<Store>, checkpoint: Ulid, begin: impl FnOnce(&Path)) -> Result<(), Error> {
    let failed = |action: &'static str, path: String| move |source| Error::Io { action, path, source };
    let folder = tempfile::Builder::new().prefix("parhelia-review-").tempdir();
    // Never removed with its content, which is the checkpoint's as long as it is mounted.
    let folder = folder.map_err(failed("create a folder in", std::env::temp_dir().shown()))?.keep();
    let ended = match caller.mount(store, checkpoint, &folder) {
        Ok(mounted) => {
            begin(&folder);
            let ended = shell(caller, &folder);
            drop(mounted);
            ended
        }
        Err(why) => Err(Error::NotMounted { checkpoint, why }),
    };
    let _ = fs::remove_dir(&folder);
    ended
}

fn shell(caller: &dyn Caller, folder: &Path) -> Result<(), Error> {
    let program = caller.host().variable("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| DEFAULT.into());
    let mut command = Command::new(&program);
    command.current_dir(folder);
    let mut started = None;
    caller.host().with_own_limits(&mut || started = Some(command.spawn()));
    let failed = |source| Error::Io { action: "start", path: program.shown(), source };
    let mut child = started.unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into())).map_err(failed)?;
    wait(caller, &mut child).map_err(failed)?;
    Ok(())
}

/// Waits for the end of a shell. When the caller is asked to stop, it is ended.
fn wait(caller: &dyn Caller, child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if caller.is_stopped() {
            child.kill()?;
        }
        thread::sleep(LOOK_EVERY);
    }
}
