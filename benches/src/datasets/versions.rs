//! `versions/01` to `versions/12`: twelve successive releases of one real project, unpacked.

use std::path::Path;
use std::process::Command;

use super::Dataset;
use super::marker::Recipe;
use super::pip::pip;
use crate::error::{Context, Error, Result};
use crate::process;

/// Feature releases of Django, oldest first; each has some 6,500 files and 50 MiB.
pub const RELEASES: [&str; 12] = ["2.0", "2.1", "2.2", "3.0", "3.1", "3.2", "4.0", "4.1", "4.2", "5.0", "5.1", "5.2"];

/// The set `versions`, made of releases of Django.
#[derive(Debug)]
pub struct Versions;

impl Dataset for Versions {
    fn recipe(&self) -> Recipe {
        Recipe::new("versions", &format!("{RELEASES:?}"))
    }

    fn fill(&self, _data: &Path, target: &Path, scratch: &Path) -> Result<()> {
        process::need(&["python3", "tar"])?;
        for (index, release) in RELEASES.iter().enumerate() {
            eprintln!("versions: release {release}");
            let download = scratch.join(release);
            process::make_dir(&download)?;
            process::run(
                pip("download")
                    .args(["--no-deps", "--no-binary=django", "--dest"])
                    .arg(&download)
                    .arg(format!("django=={release}")),
            )?;
            let folder = target.join(folder(index));
            process::make_dir(&folder)?;
            process::run(
                Command::new("tar")
                    .args(["--strip-components=1", "--no-same-owner", "-xf"])
                    .arg(only_file(&download)?)
                    .arg("-C")
                    .arg(&folder),
            )?;
        }
        Ok(())
    }
}

/// The folder of the release at `index`, counted from 0.
pub fn folder(index: usize) -> String {
    format!("{:02}", index + 1)
}

fn only_file(folder: &Path) -> Result<std::path::PathBuf> {
    let mut entries = std::fs::read_dir(folder).context(|| format!("read folder {}", folder.display()))?;
    match (entries.next(), entries.next()) {
        (Some(Ok(entry)), None) => Ok(entry.path()),
        _ => Err(Error::new(format!("expected one downloaded archive in {}", folder.display()))),
    }
}
