//! `checkout`: a git working tree with real history, a packed `.git`, loose objects and edits.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::Dataset;
use super::marker::Recipe;
use super::versions::{RELEASES, folder};
use crate::error::{Context, Error, Result};
use crate::process;

/// The number of commits that come after `git gc` and stay loose.
const LOOSE_COMMITS: usize = 5;
/// The first commit's time; each later one comes a day after.
const FIRST_COMMIT_SECONDS: u64 = 1_500_000_000;
const DAY_SECONDS: u64 = 86_400;

/// The set `checkout`; made from the set `versions`.
#[derive(Debug)]
pub struct Checkout;

impl Dataset for Checkout {
    fn recipe(&self) -> Recipe {
        Recipe::new("checkout", &format!("{RELEASES:?} loose {LOOSE_COMMITS}"))
    }

    fn fill(&self, data: &Path, target: &Path, _scratch: &Path) -> Result<()> {
        process::need(&["git", "rsync"])?;
        let repo = Repo { folder: target };
        repo.git(&["init", "--quiet", "--initial-branch=main"], 0)?;
        for (index, release) in RELEASES.iter().enumerate() {
            process::run(
                Command::new("rsync")
                    .args(["-a", "--delete", "--exclude=/.git"])
                    .arg(format!("{}/", data.join("versions").join(folder(index)).display()))
                    .arg(target),
            )?;
            repo.commit(&format!("Release {release}"), index as u64)?;
            repo.git(&["tag", release], index as u64)?;
        }
        repo.git(&["gc", "--quiet"], RELEASES.len() as u64)?;

        let files = repo.files()?;
        for commit in 0..LOOSE_COMMITS {
            for file in files.iter().skip(commit).step_by(files.len() / 4 + 1) {
                append(&target.join(file), &format!("\n# loose commit {commit}\n"))?;
            }
            let day = (RELEASES.len() + commit) as u64;
            repo.commit(&format!("Later work {commit}"), day)?;
        }
        leave_work_unfinished(&repo, &files)
    }
}

/// Edits that are in no commit: staged, unstaged, deleted and untracked.
fn leave_work_unfinished(repo: &Repo<'_>, files: &[String]) -> Result<()> {
    let pick = |part: usize| -> Result<&str> {
        files.get(files.len() * part / 10).map(String::as_str).ok_or_else(|| Error::new("the checkout has no files"))
    };
    for part in 1..=5 {
        append(&repo.folder.join(pick(part)?), "\n# not committed\n")?;
    }
    repo.git(&["add", pick(1)?, pick(2)?], 0)?;
    process::remove(&repo.folder.join(pick(7)?))?;
    append(&repo.folder.join("notes/untracked.txt"), "not tracked\n")
}

struct Repo<'a> {
    folder: &'a Path,
}

impl Repo<'_> {
    fn command(&self, args: &[&str], day: u64) -> Command {
        let date = format!("{} +0000", FIRST_COMMIT_SECONDS + day * DAY_SECONDS);
        let mut command = Command::new("git");
        command
            .args(["-c", "core.excludesFile=/dev/null", "-c", "gc.auto=0"])
            .args(args)
            .current_dir(self.folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Bench")
                .env(format!("GIT_{role}_EMAIL"), "bench@example.org")
                .env(format!("GIT_{role}_DATE"), &date);
        }
        command
    }

    fn git(&self, args: &[&str], day: u64) -> Result<()> {
        process::run(&mut self.command(args, day))
    }

    fn commit(&self, message: &str, day: u64) -> Result<()> {
        self.git(&["add", "--all", "--force"], day)?;
        self.git(&["commit", "--quiet", "--message", message], day)
    }

    /// Tracked files with plain names, in the index's order.
    fn files(&self) -> Result<Vec<String>> {
        let text = process::output(&mut self.command(&["ls-files", "*.py", "*.txt"], 0))?;
        Ok(text.lines().filter(|line| !line.starts_with('"')).map(str::to_owned).collect())
    }
}

fn append(path: &Path, text: &str) -> Result<()> {
    process::make_dir(path.parent().unwrap_or(path))?;
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .context(|| format!("append to {}", path.display()))
}
