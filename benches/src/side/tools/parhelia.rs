//! The binary under test.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Tool, empty, synced};
use crate::error::{Context, Error, Result};
use crate::process;
use crate::side::launch::{Job, Outcome, Runner, Step};
use crate::side::mounted::MountGuard;
use crate::walk;

/// The outcome of a `checkpoint create`, from its summary.
#[derive(Debug, Clone)]
pub struct CreateSummary {
    /// ULID of the checkpoint.
    pub id: String,
    /// The time for which the commit lock was held, in milliseconds, if the summary says so.
    pub lock_held_ms: Option<f64>,
}

/// The sizes of the parts of a store, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct StoreSize {
    /// The blocks that hold content.
    pub data_blocks: u64,
    /// Everything on the disk but stat caches and ballast.
    pub store: u64,
    /// The ballast file on the disk.
    pub ballast: u64,
    /// Stat caches on the disk.
    pub cache: u64,
}

/// parhelia with a store of its own.
#[derive(Debug, Clone)]
pub struct Parhelia {
    binary: PathBuf,
    home: PathBuf,
    /// The checkpoints that were created in this store, oldest first.
    pub created: Vec<CreateSummary>,
}

impl Parhelia {
    /// The binary that is asked for, or the one in cargo's target folder.
    pub fn find(asked_for: Option<&Path>) -> Result<PathBuf> {
        if let Some(binary) = asked_for {
            return check(binary).ok_or_else(|| Error::new(format!("parhelia: no binary at {}", binary.display())));
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let this = std::env::current_exe().context(|| "find this program")?;
        let mut candidates = vec![this.with_file_name("parhelia")];
        candidates.extend(target.map(|target| target.join("release/parhelia")));
        candidates.reverse();
        candidates.dedup();
        let found = candidates.iter().find_map(|path| check(path));
        found.ok_or_else(|| {
            let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
            Error::new(format!(
                "parhelia: no binary at {}; build it with `cargo build --release`, or give \
                 --parhelia or PARHELIA_BIN",
                looked.join(" or ")
            ))
        })
    }

    /// A tool with its store in `home`.
    pub fn new(binary: PathBuf, home: PathBuf) -> Self {
        Self { binary, home, created: Vec::new() }
    }

    /// The same binary with another store.
    pub fn with_home(&self, home: PathBuf) -> Self {
        Self::new(self.binary.clone(), home)
    }

    /// Path of the binary under test.
    pub fn binary(&self) -> PathBuf {
        self.binary.clone()
    }

    /// `parhelia --store HOME ARGS`.
    pub fn step(&self, args: &[&str]) -> Step {
        Step::new(self.binary.display()).args(["--store"]).path(&self.home).args(args)
    }

    /// The id of the newest checkpoint.
    pub fn last_id(&self) -> Result<&str> {
        self.created.last().map(|created| created.id.as_str()).ok_or_else(|| Error::new("parhelia: no checkpoint was made yet"))
    }

    /// Makes the store where there is none.
    pub fn make_store(&self) -> Result<()> {
        process::run(std::process::Command::new(&self.binary).arg("--store").arg(&self.home).args(["init", "--new", "--quiet"]))
    }

    fn data_blocks(&self) -> Result<u64> {
        let output = std::process::Command::new(&self.binary).arg("--store").arg(&self.home).args(["stats", "--json"]).output();
        let output = output.context(|| "parhelia: run stats")?;
        let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        let value: Value = serde_json::from_str(&last).context(|| format!("parhelia: understand the summary `{last}`"))?;
        value
            .get("data_block_bytes")
            .and_then(Value::as_u64)
            .ok_or_else(|| Error::new("parhelia: stats gave no `data_block_bytes`"))
    }

    /// Sizes of the store's parts.
    pub fn sizes(&self) -> Result<StoreSize> {
        let part = |name: &str| {
            let path = self.home.join(name);
            match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => walk::count(&path),
                Ok(meta) => Ok(walk::Count {
                    bytes: meta.len(),
                    allocated: std::os::unix::fs::MetadataExt::blocks(&meta) * 512,
                    ..walk::Count::default()
                }),
                Err(_) => Ok(walk::Count::default()),
            }
        };
        let whole = walk::count(&self.home)?.allocated;
        let (cache, ballast) = (part("cache")?.allocated, part("ballast")?.allocated);
        Ok(StoreSize { data_blocks: self.data_blocks()?, store: whole - cache - ballast, ballast, cache })
    }
}

fn check(path: &Path) -> Option<PathBuf> {
    // The steps run in other folders, so the path must not be relative.
    path.is_file().then(|| std::path::absolute(path).ok())?
}

/// Reads the summary, the last line that a `create --json` writes.
fn summary(output: &str) -> Result<CreateSummary> {
    let last = output.lines().rfind(|line| !line.trim().is_empty());
    let last = last.ok_or_else(|| Error::new("parhelia: create printed no summary"))?;
    let value: Value = serde_json::from_str(last).context(|| format!("parhelia: understand the summary `{last}`"))?;
    let id = value.get("id").and_then(Value::as_str);
    let id = id.ok_or_else(|| Error::new(format!("parhelia: no `id` in the summary `{last}`")))?;
    Ok(CreateSummary { id: id.to_owned(), lock_held_ms: value.get("lock_held_ms").and_then(Value::as_f64) })
}

impl Tool for Parhelia {
    fn name(&self) -> &'static str {
        "parhelia"
    }

    fn fresh(&mut self, _runner: &Runner) -> Result<()> {
        self.created.clear();
        process::remove(&self.home)?;
        self.make_store()
    }

    fn checkpoint(&mut self, runner: &Runner, tree: &Path) -> Result<Outcome> {
        if !self.home.join("store.json").exists() {
            self.make_store()?;
        }
        let step =
            self.step(&["checkpoint", "create", "--workspace"]).path(tree).args(["--no-default-excludes", "--json", "--quiet"]);
        let outcome = synced(runner, &self.home, vec![step])?;
        self.created.push(summary(&runner.stdout()?)?);
        Ok(outcome)
    }

    fn restore(&mut self, runner: &Runner, to: &Path) -> Result<Option<(Outcome, PathBuf)>> {
        let step = self.step(&["checkpoint", "restore", self.last_id()?, "--quiet", "--to"]).path(to);
        Ok(Some((synced(runner, &self.home, vec![step])?, to.to_owned())))
    }

    fn restore_in_place(&mut self, runner: &Runner, tree: &Path) -> Result<Option<Outcome>> {
        let step = self.step(&["checkpoint", "restore", self.last_id()?]).args([
            "--in-place",
            "--delete",
            "--no-safety",
            "--quiet",
            "--to",
        ]);
        let step = step.path(tree);
        synced(runner, &self.home, vec![step]).map(Some)
    }

    fn mount(&self, runner: &Runner, at: &Path) -> Result<Option<MountGuard>> {
        let step = self.step(&["mount", "--json", self.last_id()?]).path(at);
        runner.run(&Job { steps: vec![step], sync: None })?;
        let said: Value = serde_json::from_str(runner.stdout()?.trim()).context(|| "parhelia: understand what mount said")?;
        let process =
            said.get("process").and_then(Value::as_u64).ok_or_else(|| Error::new("parhelia: no `process` of the mount"))?;
        let log = said.get("log").and_then(Value::as_str).map(PathBuf::from);
        Ok(Some(MountGuard::of_process(process, log, at)))
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn store_bytes(&self) -> Result<u64> {
        Ok(self.sizes()?.store)
    }
}

impl Parhelia {
    /// Runs a verb that only reads, as a whole process and without syncing.
    pub fn read_verb(&self, runner: &Runner, args: &[&str]) -> Result<Outcome> {
        runner.run(&Job { steps: vec![self.step(args)], sync: None })
    }

    /// Makes a checkpoint, untimed, and says which.
    pub fn checkpoint_id(&mut self, runner: &Runner, tree: &Path) -> Result<String> {
        self.checkpoint(runner, tree)?;
        self.last_id().map(str::to_owned)
    }

    /// Removes the store for good.
    pub fn discard(&mut self) -> Result<()> {
        self.created.clear();
        empty(&self.home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_last_line() {
        let created = summary("{\"path\":\"a\"}\n{\"id\":\"01X\",\"lock_held_ms\":3}\n").unwrap();
        assert_eq!((created.id.as_str(), created.lock_held_ms), ("01X", Some(3.0)));
        assert!(summary("{\"files\":1}\n").is_err());
        assert!(summary("").is_err());
    }
}
