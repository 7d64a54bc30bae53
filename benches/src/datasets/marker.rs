//! Knowing a complete set from an unfinished or outdated one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};
use crate::{process, walk};

/// The recipe of a set: its name, and a hash that changes with its content.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The set's folder, relative to the data folder.
    pub name: String,
    /// Hash of everything that decides the content.
    pub fingerprint: String,
}

impl Recipe {
    /// A recipe whose content is decided by the text `made_from`.
    pub fn new(name: impl Into<String>, made_from: &str) -> Self {
        Self { name: name.into(), fingerprint: blake3::hash(made_from.as_bytes()).to_hex()[..16].to_owned() }
    }
}

/// Written beside a set when it is complete.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Marker {
    /// The first 16 hex digits of a hash of what the set is made from.
    pub fingerprint: String,
    /// Entries of every kind.
    pub entries: u64,
    /// Number of regular files in the set.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

impl Marker {
    /// Counts a finished set.
    pub fn of(root: &Path, recipe: &Recipe) -> Result<Self> {
        let count = walk::count(root)?;
        Ok(Self { fingerprint: recipe.fingerprint.clone(), entries: count.entries, files: count.files, bytes: count.bytes })
    }

    /// The marker of a set that is complete and up to date, if it is.
    pub fn read(data: &Path, recipe: &Recipe) -> Result<Option<Self>> {
        let path = path(data, recipe);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(|| format!("read {}", path.display())),
        };
        let marker = serde_json::from_slice::<Self>(&text).ok();
        let there = data.join(&recipe.name).is_dir();
        Ok(marker.filter(|marker| there && marker.fingerprint == recipe.fingerprint))
    }

    /// Records that the set is complete.
    pub fn write(&self, data: &Path, recipe: &Recipe) -> Result<()> {
        let path = path(data, recipe);
        process::make_dir(path.parent().unwrap_or(data))?;
        let text = serde_json::to_vec_pretty(self).context(|| "write a marker as JSON")?;
        std::fs::write(&path, text).context(|| format!("write {}", path.display()))
    }

    /// Files and size for people.
    pub fn summary(&self) -> String {
        let mib = self.bytes as f64 / 1048576.0;
        format!("{} files, {} entries, {mib:.1} MiB", self.files, self.entries)
    }
}

fn path(data: &Path, recipe: &Recipe) -> PathBuf {
    let name = recipe.name.replace('/', "-");
    data.join(".complete").join(format!("{name}.json"))
}
