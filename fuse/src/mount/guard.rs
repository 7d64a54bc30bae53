//! The guard of a mount: a small process that outlives the one that serves it. When that one dies without unmounting, the guard detaches
//! the mount, so that nobody is left with a folder that answers "transport endpoint is not connected". `fusermount3` offers the same
//! (`auto_unmount`), but looks whether the mountpoint can be opened; once the kernel has been told that opening needs no question, it
//! always can.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    error::{Error, Result},
    mount::{
        identity::{Identity, is_disconnected},
        unmount::detach_if,
    },
};

/// The guard of a mount, as the process that serves the mount holds it.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a guard: a command that calls [`guard`] with the two arguments that are appended. `None` where it cannot be started: the
    /// mount is as good without.
    pub(crate) fn start(command: &[OsString], mountpoint: &Path, identity: Identity) -> Option<Self> {
        let (program, args) = command.split_first()?;
        let child = Command::new(program)
            // As others see it.
            .arg0("parhelia")
            .args(args)
            .arg(mountpoint)
            .arg(identity.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to our process group, such as ctrl-C, is none of its business.
            .process_group(0)
            .spawn()
            .ok()?;
        Some(Guard { child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(b"done\n");
        }
        let _ = self.child.wait();
    }
}

/// Guards a mount in this process, which [`crate::Options::guard`] started with these two arguments. Returns when the mount is over.
///
/// Standard input ends with a line when the mount ends in order. Its end alone means that the process which serves the mount died. Then the
/// very mount that was started is detached, if it does not answer; whatever else is mounted there by then stays.
pub fn guard(mountpoint: &Path, identity: &str) -> Result<()> {
    let failed = |action, source| Error::Io { action, path: mountpoint.to_owned(), source };
    let identity: Identity = identity.parse().map_err(|reason| failed("guard", io::Error::other(reason)))?;
    let mut said = [0];
    loop {
        match io::stdin().read(&mut said) {
            Ok(0) => break,
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(failed("guard", source)),
        }
    }
    detach_if(mountpoint, |root, found| found == identity && is_disconnected(root)).map(drop)
}
