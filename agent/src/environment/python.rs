//! Python: version and packages, read from the folders that pip leaves, without running pip.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    cache::{Cache, Stamp},
    redact,
};
use crate::{error::Result, program, regular};

const RUN_LIMIT: Duration = Duration::from_secs(10);
/// Bytes read of a package's metadata. Name and version stand at its beginning.
const METADATA_BYTES: usize = 64 << 10;
/// Bytes read of a `.python-version`.
const PYTHON_VERSION_BYTES_MAX: u64 = 4 << 10;
/// Prints version and prefix; runs without anybody's modules.
const PROBE: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.prefix); print(sys.executable)";

/// A Python and its packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    /// Version of the interpreter, such as `3.12.4`.
    pub version: String,
    /// Its program.
    pub executable: String,
    /// Its packages as `pip freeze` lists them, by name.
    pub freeze: Vec<String>,
}

/// The places where Python is looked for.
pub(super) struct Places<'a> {
    pub workspace: &'a Path,
    pub path: Option<&'a OsStr>,
    pub home: Option<&'a OsStr>,
    /// Folder of the active virtual environment, from `VIRTUAL_ENV`.
    pub virtual_env: Option<OsString>,
    /// Version that pyenv is to use, from `PYENV_VERSION`.
    pub pyenv_version: Option<OsString>,
}

/// An interpreter, and the folders with its packages.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Interpreter {
    version: String,
    executable: String,
    folders: Vec<PathBuf>,
}

/// The Python of a workspace: the virtual environment that is active, one in the workspace, or the one on the search path.
pub(super) fn look(places: &Places, cache: &Cache) -> Result<Option<Python>> {
    let environments =
        places.virtual_env.iter().map(PathBuf::from).chain([".venv", "venv"].map(|name| places.workspace.join(name)));
    let mut interpreter = None;
    for environment in environments {
        interpreter = virtual_environment(&environment, places, cache)?;
        if interpreter.is_some() {
            break;
        }
    }
    let interpreter = match interpreter {
        Some(found) => Some(found),
        None => installed(places, cache)?,
    };
    let Some(Interpreter { version, executable, folders }) = interpreter else { return Ok(None) };
    let stamps: Vec<Stamp> = folders.iter().map(|folder| Stamp::of(folder)).collect();
    let freeze = cache.get("python-packages", &stamps, || Ok::<_, crate::Error>(freeze(&folders)))?;
    Ok(Some(Python { version, executable, freeze }))
}

/// The longest `pyvenv.cfg`, in bytes.
const VENV_BYTES_MAX: u64 = 64 << 10;

/// A virtual environment says all of itself in `pyvenv.cfg`.
fn virtual_environment(folder: &Path, places: &Places, cache: &Cache) -> Result<Option<Interpreter>> {
    let file = folder.join("pyvenv.cfg");
    let text = regular::read(&file, VENV_BYTES_MAX).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(text) = text else { return Ok(None) };
    let fields: BTreeMap<String, &str> =
        text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.trim().to_lowercase(), v.trim())).collect();
    let Some(version) = ["version", "version_info"].iter().find_map(|name| fields.get(*name)) else { return Ok(None) };
    let version = version.split('.').take(3).collect::<Vec<_>>().join(".");
    let mut folders = site_folders(folder);
    if fields.get("include-system-site-packages") == Some(&"true")
        && let Some(base) = installed(places, cache)?
    {
        folders.extend(base.folders);
    }
    let executable = folder.join("bin/python").to_string_lossy().into_owned();
    Ok(Some(Interpreter { version, executable, folders }))
}

/// The interpreter on the search path. It is run once, and not again until something changes that decides which it is.
fn installed(places: &Places, cache: &Cache) -> Result<Option<Interpreter>> {
    let found = ["python3", "python"].iter().find_map(|name| program::outside(name, places.path, places.workspace));
    let Some(found) = found else { return Ok(None) };
    let real = found.canonicalize().unwrap_or_else(|_| found.clone());
    // pyenv's program chooses one by these.
    let pyenv = places.home.map(|home| Path::new(home).join(".pyenv/version"));
    let version = places.pyenv_version.clone().or_else(|| pyenv_version(places.workspace).map(OsString::from));
    let depends = (
        Stamp::of(&real),
        pyenv.map(|path| Stamp::of(&path)),
        version.as_ref().map(|version| version.to_string_lossy().into_owned()),
    );
    cache.get("python", &depends, || probe(&found, version.as_deref(), places)).map(Some)
}

/// The version that pyenv would read from the workspace's `.python-version`. It is read here, because pyenv's program takes what stands there
/// for a folder's path, and would run a program in any folder that the workspace names.
fn pyenv_version(workspace: &Path) -> Option<String> {
    let file = workspace.ancestors().map(|folder| folder.join(".python-version")).find(|file| file.is_file())?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(regular::open(&file).ok()?, PYTHON_VERSION_BYTES_MAX), &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    let words = text.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace);
    let is_name = |word: &&str| {
        let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._+-/".contains(c));
        is_plain && !word.split('/').any(|part| matches!(part, "" | "." | ".."))
    };
    let names: Vec<&str> = words.filter(is_name).collect();
    (!names.is_empty()).then(|| names.join(":"))
}

fn probe(found: &Path, version: Option<&OsStr>, places: &Places) -> Result<Interpreter> {
    let mut command = Command::new(found);
    // Nothing of the workspace decides what runs.
    command.args(["-I", "-S", "-c", PROBE]).env_clear().current_dir("/");
    let path = program::search_path(places.path, places.workspace);
    let set = [("PATH", path.as_deref()), ("HOME", places.home), ("PYENV_VERSION", version)];
    command.envs(set.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
    let printed = program::run(&mut command, RUN_LIMIT)?;
    let printed = String::from_utf8_lossy(&printed);
    let mut lines = printed.lines().map(str::to_owned);
    let (version, prefix) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let executable = lines.next().unwrap_or_default();
    let minor = version.rsplit_once('.').map_or("", |(minor, _)| minor);
    let mut folders = Vec::new();
    if let Some(home) = places.home {
        folders.push(Path::new(home).join(format!(".local/lib/python{minor}/site-packages")));
    }
    folders.extend(site_folders(Path::new(&prefix)));
    // Debian keeps its own packages apart.
    folders.extend([format!("/usr/local/lib/python{minor}/dist-packages").into()].into_iter().filter(|_| prefix == "/usr"));
    folders.extend(["/usr/lib/python3/dist-packages".into()].into_iter().filter(|_| prefix == "/usr"));
    Ok(Interpreter { version, executable, folders })
}

/// The folders with packages below a prefix.
fn site_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for library in [prefix.join("lib"), prefix.join("lib64")] {
        let entries = fs::read_dir(&library).into_iter().flatten().flatten();
        let pythons = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"));
        folders.extend(pythons.map(|python| python.path().join("site-packages")).filter(|folder| folder.is_dir()));
    }
    let mut real: Vec<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    real.sort();
    real.dedup();
    real
}

/// All packages as `pip freeze` lists them. Of one that is in several folders the first counts.
fn freeze(folders: &[PathBuf]) -> Vec<String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for (name, line) in entries.filter_map(|path| package(&path)) {
            found.entry(normalised(&name)).or_insert(line);
        }
    }
    found.into_values().collect()
}

/// A package's name and line.
fn package(path: &Path) -> Option<(String, String)> {
    let file_name = path.file_name()?.to_str()?;
    let metadata = match (file_name.strip_suffix(".dist-info"), file_name.strip_suffix(".egg-info")) {
        (Some(_), _) => path.join("METADATA"),
        (_, Some(_)) if path.is_dir() => path.join("PKG-INFO"),
        (_, Some(_)) => path.to_owned(),
        _ => return None,
    };
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(regular::open(&metadata).ok()?, METADATA_BYTES as u64), &mut text)
        .ok()?;
    let text = String::from_utf8_lossy(&text);
    let header =
        |name: &str| text.lines().take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (name, version) = (header("Name:")?, header("Version:")?);
    let line = match regular::read_json(&path.join("direct_url.json")).ok().flatten() {
        Some(direct) => {
            let url = redact::text(direct.get("url").and_then(|url| url.as_str()).unwrap_or_default());
            let commit = direct.pointer("/vcs_info/commit_id").and_then(|commit| commit.as_str());
            let kind =
                direct.pointer("/vcs_info/vcs").and_then(|kind| kind.as_str()).map(|kind| format!("{kind}+")).unwrap_or_default();
            format!("{name} @ {kind}{url}{}", commit.map(|commit| format!("@{commit}")).unwrap_or_default())
        }
        None => format!("{name}=={version}"),
    };
    Some((name.to_owned(), line))
}

/// A name as the package index compares names.
pub(super) fn normalised(name: &str) -> String {
    name.to_ascii_lowercase().split(['-', '_', '.']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Versions by normalised name, from a list as [`Python::freeze`] has it.
pub fn versions<'a>(freeze: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let parsed = freeze.into_iter().filter_map(|line| line.split_once("==").or_else(|| line.split_once(" @ ")));
    parsed.map(|(name, version)| (normalised(name), version.to_owned())).collect()
}
