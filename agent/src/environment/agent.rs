//! The agent's program: which it is, exactly.

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::Path,
    process::Command,
    time::Duration,
};

use crate::threads;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::{Cache, Stamp};
use crate::{
    error::{Error, IoContext, Result},
    package::{installed_version, is_version},
    process::ASKING,
    program, regular,
};

const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The agent's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its version, as it says itself. A program in the workspace is not asked; its package or the name of its file may say it.
    pub version: String,
    /// `sha256:` and the digest of the program.
    pub binary_hash: String,
    /// Its path, with links resolved.
    pub install_path: String,
}

/// Looks at the agent's program. None where there is none. One that lies in the workspace is not run.
pub(super) fn look(
    name: &OsStr,
    path: Option<&OsStr>,
    home: Option<&OsStr>,
    workspace: &Path,
    cache: &Cache,
) -> Result<Option<Agent>> {
    let Some(found) = program::locate(name, path) else { return Ok(None) };
    let real = found.canonicalize().at("read", &found)?;
    if program::is_in(workspace, &real) {
        return cache.get("agent-not-run", &Stamp::of(&real), || unrun(&real)).map(Some);
    }
    let path = program::search_path(path, workspace);
    cache.get("agent", &Stamp::of(&real), || examine(&real, path.as_deref(), home)).map(Some)
}

/// A program that is not run: its version is that of its npm package, or the name of its file, as native installations have it.
fn unrun(real: &Path) -> Result<Agent> {
    Ok(Agent {
        version: installed_version(real).unwrap_or_else(|| "unknown".to_owned()),
        binary_hash: hash(real).at("read", real)?,
        install_path: real.to_string_lossy().into_owned(),
    })
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
    // An interpreter that is started here finds no settings or modules of the workspace.
    command.arg("--version").env_clear().env("DISABLE_AUTOUPDATER", "1").env(ASKING, "1").current_dir("/");
    command.envs([("PATH", path), ("HOME", home)].into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
    let printed = program::run(&mut command, VERSION_LIMIT)?;
    let printed = String::from_utf8_lossy(&printed);
    let version = printed.split_whitespace().find(|word| is_version(word));
    let unknown = || Error::Program { command: format!("{} --version", real.display()), reason: "it printed no version".into() };
    version.map(str::to_owned).ok_or_else(unknown)
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = regular::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(format!("sha256:{}", hex(&hasher.finalize())))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
