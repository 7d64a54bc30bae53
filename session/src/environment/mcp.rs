//! The MCP servers that an agent is configured with: where each comes from, in which version, and what its configuration is, by hash.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    agent::locate,
    cache::{Cache, Stamp},
    read_json, redact,
};
use crate::git::Repository;

/// Largest local program that is hashed.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;
const SERVERS_MAX: usize = 500;

/// Where a server comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A package of npm.
    Npm,
    /// A file in a git repository.
    Git,
    /// Anything else; `source_detail` says what.
    Local,
    /// A container image.
    Docker,
}

/// An MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Where it comes from.
    pub source_type: Source,
    /// Version of a package, commit, hash of a file, or image.
    pub version_id: String,
    /// `blake3:` and the digest of its configuration, credentials taken out.
    pub config_hash: String,
    /// More about the source: `pypi`, `http`, the package, the file.
    pub source_detail: Option<String>,
    /// Which file configures it: `user`, `project`, `local`, `plugin`, `argument`.
    pub scope: String,
}

/// Where servers are configured.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    pub workspace: &'a Path,
    /// `.claude.json`.
    pub settings: Option<PathBuf>,
    pub home: Option<&'a OsStr>,
    pub path: Option<&'a OsStr>,
    /// Folders of installed plugins, by name.
    pub plugins: Vec<(String, PathBuf)>,
    /// Files that the agent was given with `--mcp-config`.
    pub arguments: &'a [PathBuf],
    pub cache: Cache,
}

/// The servers, by name. A file that is no JSON fails; the rest is tolerant.
pub(super) fn look(places: &Places) -> Result<BTreeMap<String, Server>, String> {
    let mut found: BTreeMap<String, (Value, &str)> = BTreeMap::new();
    let mut add = |config: Option<&Value>, prefix: &str, scope: &'static str| {
        for (name, server) in config.and_then(Value::as_object).into_iter().flatten() {
            found.insert(format!("{prefix}{name}"), (server.clone(), scope));
        }
    };
    for (plugin, folder) in &places.plugins {
        let config = read_json(&folder.join(".mcp.json"))?.unwrap_or_default();
        add(config.get("mcpServers").or(Some(&config)), &format!("plugin:{plugin}:"), "plugin");
    }
    // In rising order, as the agent takes them.
    let settings = places.settings.as_deref().map(read_json).transpose()?.flatten().unwrap_or_default();
    add(settings.get("mcpServers"), "", "user");
    let project = read_json(&places.workspace.join(".mcp.json"))?.unwrap_or_default();
    add(project.get("mcpServers"), "", "project");
    let local = settings.get("projects").and_then(|projects| projects.get(places.workspace.to_str()?)?.get("mcpServers"));
    add(local, "", "local");
    for file in places.arguments {
        let config = read_json(file)?.unwrap_or_default();
        add(config.get("mcpServers"), "", "argument");
    }
    Ok(found.into_iter().take(SERVERS_MAX).map(|(name, (config, scope))| (name, server(&config, scope, places))).collect())
}

fn server(config: &Value, scope: &str, places: &Places) -> Server {
    let (source_type, version_id, source_detail) = origin(config, places);
    Server { source_type, version_id, config_hash: config_hash(config), source_detail, scope: scope.to_owned() }
}

/// Digest of a configuration without its credentials; the order of fields does not matter.
fn config_hash(config: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields: BTreeMap<_, _> = fields.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
                Value::Object(fields.into_iter().collect())
            }
            Value::Array(values) => values.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    format!("blake3:{}", blake3::hash(sorted(&redact::json(config)).to_string().as_bytes()).to_hex())
}

type Origin = (Source, String, Option<String>);

fn origin(config: &Value, places: &Places) -> Origin {
    let text = |field: &str| config.get(field).and_then(Value::as_str);
    let Some(command) = text("command") else {
        return (
            Source::Local,
            text("url").map_or_else(|| "unknown".into(), host),
            Some(text("type").unwrap_or("http").to_owned()),
        );
    };
    let arguments: Vec<&str> =
        config.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let name = Path::new(command).file_name().and_then(OsStr::to_str).unwrap_or(command);
    let words = plain(&arguments);
    match (name, words.first().copied()) {
        ("npx" | "bunx" | "pnpx", Some(package)) => npm(flag(&arguments, &["-p", "--package"]).unwrap_or(package), places),
        ("npm" | "pnpm" | "yarn", Some("exec" | "dlx" | "x")) if words.len() > 1 => npm(words[1], places),
        ("uvx", Some(package)) => pypi(flag(&arguments, &["--from"]).unwrap_or(package)),
        ("uv", Some("tool")) if words.len() > 2 => pypi(words[2]),
        ("pipx", Some("run")) if words.len() > 1 => pypi(words[1]),
        ("docker" | "podman" | "nerdctl", Some("run")) => docker(&arguments),
        ("node" | "bun" | "deno" | "python" | "python3" | "bash" | "sh" | "ruby", Some(_)) => script(command, &words, places),
        _ => file(Path::new(command), places),
    }
}

/// Scheme and host of a URL: what follows may be as good as a password.
fn host(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    redact::text(&url[..end])
}

/// Arguments that are no flags. Values of the flags that take one are passed over, too.
fn plain<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    const WITH_VALUE: [&str; 9] =
        ["-p", "--package", "--from", "--with", "--python", "-c", "--call", "--index-url", "--directory"];
    let mut is_value = false;
    let plain = arguments.iter().filter(|argument| {
        let was_value = std::mem::replace(&mut is_value, WITH_VALUE.contains(argument));
        !was_value && !argument.starts_with('-')
    });
    plain.copied().collect()
}

fn flag<'a>(arguments: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| names.contains(argument))?;
    arguments.get(at + 1).copied()
}

/// A package by its name and, where it is given, version. Else the version that npx has in its own cache, if it is there.
fn npm(package: &str, places: &Places) -> Origin {
    let (name, version) = match package.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&package[..at], Some(&package[at + 1..])),
        None => (package, None),
    };
    let exact = version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned);
    let known = exact.or_else(|| in_npx_cache(name, places)).or_else(|| version.map(str::to_owned));
    (Source::Npm, known.unwrap_or_else(|| "latest".into()), Some(redact::text(name)))
}

fn in_npx_cache(name: &str, places: &Places) -> Option<String> {
    let cache = Path::new(places.home?).join(".npm/_npx");
    let manifests =
        fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path().join("node_modules").join(name).join("package.json"));
    let newest = manifests.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    let manifest = read_json(&newest?.1).ok()??;
    manifest.get("version")?.as_str().map(str::to_owned)
}

fn pypi(package: &str) -> Origin {
    let (name, version) = package.split_once("==").or_else(|| package.split_once('@')).unwrap_or((package, "latest"));
    (Source::Local, redact::text(version.trim()), Some(format!("pypi {}", redact::text(name.trim()))))
}

fn docker(arguments: &[&str]) -> Origin {
    const WITH_VALUE: [&str; 16] = [
        "-e",
        "--env",
        "--env-file",
        "-v",
        "--volume",
        "--mount",
        "-p",
        "--publish",
        "--name",
        "--network",
        "-w",
        "--workdir",
        "-u",
        "--user",
        "--entrypoint",
        "--platform",
    ];
    let mut is_value = false;
    let image = arguments.iter().skip_while(|argument| **argument != "run").skip(1).find(|argument| {
        let was_value = std::mem::replace(&mut is_value, WITH_VALUE.contains(argument));
        !was_value && !argument.starts_with('-')
    });
    let image = image.copied().unwrap_or("unknown");
    match image.split_once('@') {
        Some((name, digest)) => (Source::Docker, digest.to_owned(), Some(name.to_owned())),
        None => (Source::Docker, image.to_owned(), Some("not pinned to a digest".into())),
    }
}

/// The file that an interpreter runs; a module (`-m`) has no file that is known here.
fn script(interpreter: &str, words: &[&str], places: &Places) -> Origin {
    let script = words.iter().map(|word| places.workspace.join(word)).find(|path| path.is_file());
    match script {
        Some(script) => file(&script, places),
        None => (Source::Local, "unknown".into(), Some(format!("{interpreter} {}", redact::text(words.first().unwrap_or(&""))))),
    }
}

/// A program: of the npm package or the git repository that it lies in, else by its own hash.
fn file(path: &Path, places: &Places) -> Origin {
    let located =
        if path.components().count() > 1 { Some(places.workspace.join(path)) } else { locate(path.as_os_str(), places.path) };
    let Some(real) = located.and_then(|path| path.canonicalize().ok()) else {
        return (Source::Local, "missing".into(), Some(path.to_string_lossy().into_owned()));
    };
    let shown = real.to_string_lossy().into_owned();
    let package =
        real.ancestors().find(|folder| folder.parent().is_some_and(is_of_packages)).map(|folder| folder.join("package.json"));
    let manifest = package.and_then(|package| read_json(&package).ok().flatten()).unwrap_or_default();
    let field = |name: &str| manifest.get(name).and_then(Value::as_str).map(str::to_owned);
    if let (Some(name), Some(version)) = (field("name"), field("version")) {
        return (Source::Npm, version, Some(name));
    }
    let commit = Repository::around(&real).ok().flatten().and_then(|repository| repository.facts().commit);
    if let Some(commit) = commit {
        return (Source::Git, commit, Some(shown));
    }
    (
        Source::Local,
        places.cache.get("program", &Stamp::of(&real), || hash(&real).ok_or(())).unwrap_or_else(|()| "unreadable".into()),
        Some(shown),
    )
}

/// Whether a folder holds npm packages: `node_modules`, or a scope in it.
fn is_of_packages(folder: &Path) -> bool {
    let is_modules = |folder: &Path| folder.file_name() == Some(OsStr::new("node_modules"));
    let is_scope = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
    is_modules(folder) || (is_scope && folder.parent().is_some_and(is_modules))
}

fn hash(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    if file.metadata().ok()?.len() > PROGRAM_BYTES_MAX {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut file, &mut hasher).ok()?;
    Some(format!("blake3:{}", hasher.finalize().to_hex()))
}
