//! The agent's program: which it is, exactly.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use parhelia_store::threads;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::{Cache, Stamp};
use crate::{
    error::{Error, IoContext, Result},
    program,
};

const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The agent's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its version, as it says itself.
    pub version: String,
    /// `sha256:` and the digest of the program.
    pub binary_hash: String,
    /// Where it is, links followed.
    pub install_path: String,
}

/// The program of a name on a search path, or of a path.
pub(super) fn locate(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && std::os::unix::fs::MetadataExt::mode(&m) & 0o111 != 0);
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(is_program)
}

/// Looks at the agent's program. None where there is none.
pub(super) fn look(name: &OsStr, path: Option<&OsStr>, home: Option<&OsStr>, cache: &Cache) -> Result<Option<Agent>> {
    let Some(found) = locate(name, path) else { return Ok(None) };
    let real = found.canonicalize().at("read", &found)?;
    cache.get("agent", &Stamp::of(&real), || examine(&real, path, home)).map(Some)
}

fn examine(real: &Path, path: Option<&OsStr>, home: Option<&OsStr>) -> Result<Agent> {
    let (version, hash) = std::thread::scope(|scope| {
        let hash = threads::beside_or_here(scope, || hash(real));
        (version(real, path, home), hash.join())
    });
    let binary_hash = hash.unwrap_or_else(|_| Err(io::Error::other("the hashing thread ended"))).at("read", real)?;
    Ok(Agent { version: version?, binary_hash, install_path: real.to_string_lossy().into_owned() })
}

fn version(real: &Path, path: Option<&OsStr>, home: Option<&OsStr>) -> Result<String> {
    let mut command = Command::new(real);
    command.arg("--version").env_clear().env("DISABLE_AUTOUPDATER", "1");
    command.envs([("PATH", path), ("HOME", home)].into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
    let printed = program::run(&mut command, VERSION_LIMIT)?;
    let printed = String::from_utf8_lossy(&printed);
    let version = printed.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let unknown = || Error::Program { command: format!("{} --version", real.display()), reason: "it printed no version".into() };
    version.map(str::to_owned).ok_or_else(unknown)
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(format!("sha256:{}", super::hex(&hasher.finalize())))
}
