//! A small process that outlives ours: when we die without unmounting, it detaches the mount, so that nobody is left with a folder
//! that answers "transport endpoint is not connected". `fusermount3` offers the same (`auto_unmount`), but looks whether the mountpoint can
//! be opened; once the kernel has been told that opening needs no question, it always can.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Waits for a line or the end of its input. The end alone, without a line, means that we died; and only a mount that does not answer
/// is detached. What the kernel remembers it answers for the dead; a name that nobody has asked for it does not know. Our files are closed
/// one after another, so that its question can be on its way when the connection ends: that answers "connection abort".
const SCRIPT: &str = r#"
read -r _ && exit 0
LC_ALL=C stat -- "$1/parhelia-guard-$$" 2>&1 | grep -Eq 'not connected|connection abort' || exit 0
umount -l -- "$1" 2>/dev/null || fusermount3 -u -z -- "$1"
"#;

/// The guard of a mount.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    /// Starts one. `None` where that cannot be: the mount is as good without.
    pub(crate) fn start(mountpoint: &Path) -> Option<Self> {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "parhelia-guard"])
            .arg(mountpoint)
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
