//! Timing commands.
//!
//! A command's peak memory counts what its parent held when it was started, so commands are
//! started by a small process of their own: this program again, with [`LAUNCH_VERB`].

use parhelia_store::clock;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::process::tail;

/// The first argument that makes this program the launcher.
pub const LAUNCH_VERB: &str = "launch-and-measure";

/// Variables that would change what a tool does are not handed on.
const DROPPED_PREFIXES: [&str; 7] = ["RESTIC_", "BORG_", "GIT_", "PARHELIA_", "TAR_", "ZSTD_", "RSYNC_"];

/// One command of a job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Step {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    folder: Option<PathBuf>,
    input: Option<PathBuf>,
}

impl Step {
    /// A command without arguments.
    pub fn new(program: impl ToString) -> Self {
        Self { argv: vec![program.to_string()], ..Self::default() }
    }

    /// Adds arguments.
    pub fn args<S: ToString>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.argv.extend(args.into_iter().map(|arg| arg.to_string()));
        self
    }

    /// Adds an argument that is a path.
    pub fn path(mut self, path: &Path) -> Self {
        self.argv.push(path.display().to_string());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets the folder that the command runs in.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets the file that the command reads as its standard input; else it has none.
    pub fn input(mut self, file: &Path) -> Self {
        self.input = Some(file.to_owned());
        self
    }

    /// The command, without the variables that would change what a tool does.
    pub fn command(&self) -> Result<Command> {
        let (program, args) = self.argv.split_first().ok_or_else(|| Error::new("a step without a program"))?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if DROPPED_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        command.args(args).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(match &self.input {
            Some(path) => File::open(path).context(|| format!("open {}", path.display()))?.into(),
            None => Stdio::null(),
        });
        Ok(command)
    }
}

/// Commands that are timed together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Run one after the other.
    pub steps: Vec<Step>,
    /// A path whose filesystem is synced at the end; the time counts.
    pub sync: Option<PathBuf>,
}

/// The cost of a job.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Time of its start, in seconds since 1970.
    pub started_s: f64,
    /// Wall time, syncing included.
    pub wall_s: f64,
    /// The part of it that was syncing.
    pub sync_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel on the commands' behalf.
    pub sys_s: f64,
    /// The largest memory of any one process.
    pub rss_kib: u64,
}

impl Outcome {
    /// Both one after the other.
    pub fn then(self, other: Self) -> Self {
        Self {
            started_s: self.started_s,
            wall_s: self.wall_s + other.wall_s,
            sync_s: self.sync_s + other.sync_s,
            user_s: self.user_s + other.user_s,
            sys_s: self.sys_s + other.sys_s,
            rss_kib: self.rss_kib.max(other.rss_kib),
        }
    }

    /// CPU time in all.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.sys_s
    }
}

/// Runs jobs in launchers.
#[derive(Debug)]
pub struct Runner {
    program: PathBuf,
    folder: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl Runner {
    /// A runner that keeps the commands' output in `folder`.
    pub fn new(folder: &Path, interrupted: Arc<AtomicBool>) -> Result<Self> {
        Ok(Self { program: std::env::current_exe().context(|| "find this program")?, folder: folder.to_owned(), interrupted })
    }

    /// Runs a job, and measures it.
    pub fn run(&self, job: &Job) -> Result<Outcome> {
        let input = serde_json::to_vec(job).context(|| "describe a job")?;
        let stdout = File::create(self.stdout_path()).context(|| "create the output file")?;
        let stderr = File::create(self.stderr_path()).context(|| "create the error file")?;
        let mut launcher = Command::new(&self.program)
            .arg(LAUNCH_VERB)
            .arg(self.outcome_path())
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .context(|| "start the launcher")?;
        if let Some(mut stdin) = launcher.stdin.take() {
            stdin.write_all(&input).context(|| "hand over a job")?;
        }
        let status = launcher.wait().context(|| "wait for the launcher")?;
        self.stop_if_interrupted()?;
        if !status.success() {
            let said = std::fs::read(self.stderr_path()).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).into_owned();
            return Err(Error::new(tail(&said, 2000)));
        }
        let outcome = std::fs::read(self.outcome_path()).context(|| "read an outcome")?;
        serde_json::from_slice(&outcome).context(|| "understand an outcome")
    }

    /// The standard output of the last job.
    pub fn stdout(&self) -> Result<String> {
        let bytes = std::fs::read(self.stdout_path()).context(|| "read a command's output")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Fails if the user asked to stop.
    pub fn stop_if_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::new("interrupted"));
        }
        Ok(())
    }

    fn stdout_path(&self) -> PathBuf {
        self.folder.join("stdout")
    }

    fn stderr_path(&self) -> PathBuf {
        self.folder.join("stderr")
    }

    fn outcome_path(&self) -> PathBuf {
        self.folder.join("outcome.json")
    }
}

/// Writes everything of a filesystem that is not on its medium yet.
pub fn sync_filesystem(path: &Path) -> Result<()> {
    let fd = File::open(path).context(|| format!("open {}", path.display()))?;
    rustix::fs::syncfs(&fd).context(|| format!("sync {}", path.display()))
}

/// The launcher: reads a job from standard input and writes its outcome to the file `out`.
pub fn launcher(out: &Path) -> Result<()> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).context(|| "read the job")?;
    let job: Job = serde_json::from_slice(&input).context(|| "understand the job")?;
    let outcome = measure(&job)?;
    let text = serde_json::to_vec(&outcome).context(|| "write the outcome")?;
    std::fs::write(out, text).context(|| "write the outcome")
}

/// Seconds since 1970, as other processes say the time, too.
pub fn now_s() -> f64 {
    SystemTime::from(clock::timestamp()).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn measure(job: &Job) -> Result<Outcome> {
    let (start, started_s) = (Instant::now(), now_s());
    for step in &job.steps {
        let status = step.command()?.status().context(|| format!("start {}", step.argv[0]))?;
        if !status.success() {
            return Err(Error::new(format!("`{}`: {status}", step.argv.join(" "))));
        }
    }
    let ran = start.elapsed();
    if let Some(path) = &job.sync {
        sync_filesystem(path)?;
    }
    let wall = start.elapsed();
    // Waited-for children alone: exactly the steps and what they started in turn.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context(|| "ask for the resource usage")?;
    Ok(Outcome {
        started_s,
        wall_s: wall.as_secs_f64(),
        sync_s: (wall - ran).as_secs_f64(),
        user_s: usage.user_time().num_microseconds() as f64 / 1e6,
        sys_s: usage.system_time().num_microseconds() as f64 / 1e6,
        rss_kib: u64::try_from(usage.max_rss()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_timed_and_its_cpu_counted() {
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let job = Job { steps: vec![Step::new("sh").args(["-c", busy])], sync: None };
        let outcome = measure(&job).unwrap();
        assert!(outcome.wall_s > 0.0 && outcome.cpu_s() > 0.0 && outcome.rss_kib > 0);
    }

    #[test]
    fn a_step_reads_its_input() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::write(&input, "words").unwrap();
        let step = Step::new("sh").args(["-c", "test \"$(cat)\" = words"]).input(&input);
        let before = now_s();
        let outcome = measure(&Job { steps: vec![step], sync: None }).unwrap();
        assert!(outcome.started_s >= before && outcome.started_s <= now_s());
    }

    #[test]
    fn a_failing_step_is_named() {
        let job = Job { steps: vec![Step::new("false").args(["--now"])], sync: None };
        assert!(measure(&job).unwrap_err().chain().contains("false --now"));
    }
}
