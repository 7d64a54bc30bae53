//! Mounts of the tools, for as long as something is measured in them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::launch::Step;
use crate::error::{Context, Error, Result};
use crate::process;

/// The longest wait for a tool to mount, or to end after it was unmounted.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A mount. Dropping it unmounts, whatever uses it.
#[derive(Debug)]
pub struct MountGuard {
    at: PathBuf,
    /// Folder of the tree.
    pub shown: PathBuf,
    child: Option<Child>,
    process: Option<u64>,
    log: Option<PathBuf>,
    is_there: bool,
}

impl MountGuard {
    fn new(at: &Path, shown: &Path) -> Self {
        Self { at: at.to_owned(), shown: shown.to_owned(), child: None, process: None, log: None, is_there: true }
    }

    /// The mount of a tool that goes into the background by itself.
    pub fn of_daemon(at: &Path, shown: &Path) -> Self {
        Self::new(at, shown)
    }

    /// The mount of a tool that says which process serves it, and where that logs.
    pub fn of_process(process: u64, log: Option<PathBuf>, at: &Path) -> Self {
        let mut mounted = Self::new(at, at);
        (mounted.process, mounted.log) = (Some(process), log);
        mounted
    }

    /// Starts a tool that stays in the foreground, and waits until the tree is there.
    pub fn of_child(step: Step, at: &Path, shown: &Path) -> Result<Self> {
        let mut command = step.command()?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.context(|| format!("start what mounts {}", at.display()))?;
        let mut mounted = Self::new(at, shown);
        mounted.child = Some(child);
        let began = Instant::now();
        while !shown.is_dir() {
            let ended = mounted.child.as_mut().and_then(|child| child.try_wait().ok()).flatten();
            if ended.is_some() || began.elapsed() > PATIENCE {
                return Err(Error::new(format!("{} does not appear", shown.display())));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(mounted)
    }

    /// The most memory that the process which serves it ever had, in bytes, if that process is known.
    pub fn peak_memory(&self) -> Result<Option<u64>> {
        let Some(process) = self.process else { return Ok(None) };
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).context(|| "read the memory of a mount")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: Option<u64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kib.map(|kib| Some(kib * 1024)).ok_or_else(|| Error::new("the kernel does not say the memory of a mount"))
    }

    /// Unmounts, waits until the tool is done, and gives what it logged.
    pub fn end(mut self) -> Result<String> {
        process::run(Command::new("umount").arg(&self.at))?;
        self.is_there = false;
        if let Some(mut child) = self.child.take() {
            child.wait().context(|| "wait for the end of a mount")?;
        }
        let began = Instant::now();
        while self.process.is_some_and(|process| Path::new(&format!("/proc/{process}")).exists()) {
            if began.elapsed() > PATIENCE {
                return Err(Error::new(format!("the process of the mount on {} does not end", self.at.display())));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        match &self.log {
            Some(log) => std::fs::read_to_string(log).context(|| format!("read {}", log.display())),
            None => Ok(String::new()),
        }
    }
}

impl Drop for MountGuard {
    fn drop(&mut self) {
        if self.is_there {
            let _ = process::run(Command::new("umount").arg("--lazy").arg(&self.at));
            if let Some(child) = &mut self.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
