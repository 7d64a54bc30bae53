//! Getting the agent CLI: once, by npm, into the user's cache folder. It is not ours to give away, so it is in no repository of ours.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// The release that is tested against: the newest that runs beside Debian 12's Node.
pub const VERSION: &str = "2.1.197";

const PACKAGE: &str = "@anthropic-ai/claude-code";

/// The program. Installs it where it is not yet, or says why that failed. `PARHELIA_AGENT` names another one.
pub fn executable() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("PARHELIA_AGENT") {
        return checked(Path::new(&program));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let folder = cache.ok_or("neither HOME nor XDG_CACHE_HOME is set")?.join("parhelia/agent");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    // Several test programs may want it at once.
    let lock = File::create(folder.join("lock")).map_err(|e| format!("{}: {e}", folder.display()))?;
    lock.lock().map_err(|e| format!("{}: {e}", folder.display()))?;
    let place = folder.join(VERSION);
    if let Some(program) = native(&place) {
        return checked(&program);
    }
    install(&place)?;
    checked(&native(&place).ok_or_else(|| format!("{PACKAGE}@{VERSION} has no program for this machine"))?)
}

fn install(place: &Path) -> Result<(), String> {
    let unfinished = place.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(|e| format!("{}: {e}", unfinished.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix"]).arg(&unfinished);
    npm.arg(format!("{PACKAGE}@{VERSION}")).stdin(Stdio::null());
    let output = npm.output().map_err(|e| format!("cannot run npm: {e}"))?;
    if !output.status.success() {
        return Err(format!("npm install {PACKAGE}@{VERSION} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let _ = fs::remove_dir_all(place);
    fs::rename(&unfinished, place).map_err(|e| format!("{}: {e}", place.display()))
}

/// The program itself, which lies in a package of its own for each kind of machine.
fn native(place: &Path) -> Option<PathBuf> {
    let packages = fs::read_dir(place.join("node_modules/@anthropic-ai")).ok()?.flatten();
    let programs = packages.filter(|package| package.file_name().to_string_lossy().starts_with("claude-code-linux"));
    programs.map(|package| package.path().join("claude")).find(|program| program.is_file())
}

fn checked(program: &Path) -> Result<PathBuf, String> {
    let shown = program.display();
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|e| format!("{shown}: {e}"))?;
    match output.status.success() {
        true => Ok(program.to_owned()),
        false => Err(format!("{shown} --version: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
