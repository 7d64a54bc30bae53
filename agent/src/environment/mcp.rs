//! The MCP servers that an agent is configured with: where each comes from, in which version, and what its configuration is, by hash.

use std::{collections::BTreeMap, ffi::OsStr, fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    cache::{Cache, Stamp},
    launcher_args::{self, LauncherArgs},
    python::{self, Python},
    redact,
};
use crate::{
    git::Repository,
    mcp::configured::ServerConfig,
    package::package_of,
    program::locate,
    regular::{self, read_json},
};

/// Largest local program that is hashed.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;

/// The kind of source that a server comes from.
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

/// An MCP server as records of the environment have it, without its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The kind of source.
    pub source_type: Source,
    /// Version of a package, commit, hash of a file, or image.
    pub version_id: String,
    /// `blake3:` and the digest of its configuration, credentials taken out.
    pub config_hash: String,
    /// More about the source: `pypi`, `http`, the package, the file.
    pub source_detail: Option<String>,
    /// The file that configures it: `user`, `project`, `local`, `plugin`, `argument`.
    pub scope: String,
}

/// The places where the programs of servers are found.
#[derive(Clone, Debug)]
pub(super) struct Programs<'a> {
    pub workspace: &'a Path,
    pub home: Option<&'a OsStr>,
    pub path: Option<&'a OsStr>,
    /// The Python whose packages are known.
    pub python: Option<&'a Python>,
    pub cache: Cache,
}

/// The servers, by name.
pub(super) fn look(configured: &BTreeMap<String, ServerConfig>, places: &Programs) -> BTreeMap<String, Server> {
    configured.iter().map(|(name, one)| (name.clone(), server(one, places))).collect()
}

fn server(configured: &ServerConfig, places: &Programs) -> Server {
    // A proxy of ours before it says nothing of the server.
    let config = configured.unproxied();
    let (source_type, version_id, source_detail) = origin(&config, places);
    let scope = configured.scope.name().to_owned();
    Server { source_type, version_id, config_hash: config_hash(&config), source_detail, scope }
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

fn origin(config: &Value, places: &Programs) -> Origin {
    let text = |field: &str| config.get(field).and_then(Value::as_str);
    let Some(command) = text("command") else {
        return (
            Source::Local,
            text("url").map_or_else(|| "unknown".into(), host),
            Some(redact::word(text("type").unwrap_or("http"))),
        );
    };
    let arguments: Vec<&str> =
        config.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let name = Path::new(command).file_name().and_then(OsStr::to_str).unwrap_or(command);
    let begun = |verbs: &[&[&str]]| launcher_args::by(&arguments, verbs);
    let npm_of = |begun: LauncherArgs<'_>| begun.value(&["-p", "--package"]).or(begun.target).map(|package| npm(package, places));
    let pypi_of = |begun: LauncherArgs<'_>| begun.value(&["--from", "--spec"]).or(begun.target).map(pypi);
    let known = match name {
        "npx" | "bunx" | "pnpx" => begun(&[]).and_then(npm_of),
        "npm" | "pnpm" | "yarn" => begun(&[&["exec", "dlx", "x"]]).and_then(npm_of),
        "uvx" => begun(&[]).and_then(pypi_of),
        "uv" => begun(&[&["tool"], &["run"]]).and_then(pypi_of).or_else(|| Some(run_by_uv(&begun(&[&["run"]])?, places))),
        "pipx" => begun(&[&["run"]]).and_then(pypi_of),
        "docker" | "podman" | "nerdctl" if arguments.contains(&"run") => Some(docker(&arguments)),
        name if is_python(name) || ["node", "bun", "deno", "bash", "sh", "ruby"].contains(&name) => {
            interpreted(command, &arguments, places.workspace, places)
        }
        _ => None,
    };
    known.unwrap_or_else(|| file(Path::new(command), places))
}

/// Scheme and host of a URL: what follows may be as good as a password.
fn host(url: &str) -> String {
    let url = redact::word(url);
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    url[..end].to_owned()
}

/// The name of a package and its version, if one is given, both without credentials. Credentials are taken out of a URL before it is split,
/// because its user and password stand in a version's place.
fn named(spec: &str, separators: &[&str]) -> (String, Option<String>) {
    let spec = spec.trim();
    if let Some(at) = spec.find("://") {
        // `name @ URL`, as Python and npm write it.
        return match spec[..at].rfind(['@', ' ']) {
            Some(end) if end > 0 => {
                let name = spec[..end].trim_end_matches(['@', ' ']);
                (redact::word(name), Some(redact::word(&spec[end + 1..])))
            }
            _ => {
                let url = redact::word(spec);
                let version = version_of(&url).map(str::to_owned);
                (url, version)
            }
        };
    }
    if let Some(place) = without_user(spec) {
        return (place, None);
    }
    let skip = spec.chars().next().map_or(0, char::len_utf8);
    let split = separators.iter().find_map(|separator| {
        let at = skip + spec.get(skip..)?.find(separator)?;
        Some((&spec[..at], &spec[at + separator.len()..]))
    });
    let (name, version) = split.map_or((spec, None), |(name, version)| (name, Some(version)));
    (redact::word(name.trim()), version.map(|version| redact::word(version.trim())))
}

/// The version that a URL of a repository ends with, as `#v1` or behind the last `@` of its path.
fn version_of(url: &str) -> Option<&str> {
    let path = &url[url.find("://")? + 3..];
    let path = &path[path.find('/')?..];
    let (path, fragment) = path.split_once('#').unwrap_or((path, ""));
    // `/@scope/` is a part of the path.
    let behind = path.rsplit_once('@').filter(|(path, _)| !path.ends_with('/')).map(|(_, version)| version);
    behind.or(Some(fragment).filter(|fragment| !fragment.contains('='))).filter(|version| !version.is_empty())
}

/// A word without credentials: a URL, or what is short for one.
fn plain(word: &str) -> String {
    without_user(word).unwrap_or_else(|| redact::word(word))
}

/// A place that is named without `://` and with a user, without that user. None where it has none.
fn without_user(word: &str) -> Option<String> {
    let (user, host) = word.split_once('@').filter(|(user, host)| !word.contains("://") && is_user_of(user, host))?;
    let user = if user == "git" { user } else { redact::REDACTED };
    Some(format!("{user}@{}", redact::word(host)))
}

/// True if the text before an `@` is a user, with or without a password, and not a package: `git@host:path`, `github:user:token@o/r`.
fn is_user_of(user: &str, rest: &str) -> bool {
    const PROTOCOLS: [&str; 8] = ["npm", "jsr", "github", "gitlab", "bitbucket", "file", "link", "workspace"];
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    let has_host = host.len() < rest.len() && (rest[host.len()..].starts_with(':') || host.contains('.'));
    !user.is_empty() && !user.contains('/') && (user.contains(':') || (has_host && !PROTOCOLS.contains(&host)))
}

/// A package by its name and, where it is given, version. Else the version that npx has in its own cache, if it is there.
fn npm(package: &str, places: &Programs) -> Origin {
    let (name, version) = named(package, &["@"]);
    let exact = version.clone().filter(|version| version.starts_with(|c: char| c.is_ascii_digit()));
    let known = exact.or_else(|| in_npx_cache(&name, places)).or(version);
    (Source::Npm, known.unwrap_or_else(|| "latest".into()), Some(name))
}

fn in_npx_cache(name: &str, places: &Programs) -> Option<String> {
    let cache = Path::new(places.home?).join(".npm/_npx");
    let manifests =
        fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path().join("node_modules").join(name).join("package.json"));
    let newest = manifests.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    let manifest = read_json(&newest?.1).ok()??;
    manifest.get("version")?.as_str().map(str::to_owned)
}

fn pypi(package: &str) -> Origin {
    let (name, version) = named(package, &["==", "@"]);
    (Source::Local, version.unwrap_or_else(|| "latest".into()), Some(format!("pypi {name}")))
}

fn docker(arguments: &[&str]) -> Origin {
    let at = arguments.iter().position(|argument| *argument == "run").map_or(arguments.len(), |at| at + 1);
    let image = launcher_args::image(&arguments[at..]).unwrap_or("unknown");
    let is_digest = |text: &str| text.starts_with("sha256:") || text.starts_with("sha512:");
    match image.rsplit_once('@') {
        Some((name, digest)) if is_digest(digest) => (Source::Docker, digest.to_owned(), Some(plain_image(name))),
        _ => (Source::Docker, plain_image(image), Some("not pinned to a digest".into())),
    }
}

/// An image's name without credentials.
fn plain_image(image: &str) -> String {
    match image.rsplit_once('@') {
        Some((_, rest)) if !image.contains("://") => format!("{}@{}", redact::REDACTED, redact::word(rest)),
        _ => redact::word(image),
    }
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The source of what an interpreter runs: a file, or a Python module, whose package is found among the interpreter's packages.
fn interpreted(interpreter: &str, arguments: &[&str], folder: &Path, places: &Programs) -> Option<Origin> {
    let is_script = |word: &&str| !word.starts_with('-') && folder.join(word).is_file();
    let at = arguments.iter().position(|argument| *argument == "-m").filter(|at| !arguments[..*at].iter().any(is_script));
    let module = at.and_then(|at| arguments.get(at + 1));
    let name = Path::new(interpreter).file_name().and_then(OsStr::to_str).unwrap_or(interpreter);
    if let Some(module) = module.filter(|_| is_python(name)) {
        let found = if Path::new(interpreter).components().count() > 1 {
            Some(folder.join(interpreter))
        } else {
            locate(OsStr::new(interpreter), places.path)
        };
        let version = found.and_then(|found| version_in(found.parent()?, module, places));
        return Some(module_origin(interpreter, module, version));
    }
    let first = arguments.iter().position(|argument| !argument.starts_with('-'))?;
    if arguments[..first].iter().any(|flag| is_program_text(name, flag)) {
        return Some((Source::Local, "unknown".into(), Some(interpreter.to_owned())));
    }
    let first = arguments[first];
    Some(match arguments.iter().find(|word| is_script(word)) {
        Some(script) => file(&folder.join(script), places),
        None => (Source::Local, "unknown".into(), Some(format!("{interpreter} {}", plain(first)))),
    })
}

/// True if an interpreter's flag takes the text of a program, which may hold anything.
fn is_program_text(interpreter: &str, flag: &str) -> bool {
    let letters: &[char] = if matches!(interpreter, "node" | "bun" | "ruby") { &['e', 'p'] } else { &['c'] };
    matches!(flag, "--eval" | "--print") || (!flag.starts_with("--") && flag.contains(letters))
}

fn module_origin(interpreter: &str, module: &str, version: Option<String>) -> Origin {
    (Source::Local, version.unwrap_or_else(|| "unknown".into()), Some(format!("{interpreter} -m {}", plain(module))))
}

/// The version of the package that a module or a command is named after, where the packages are those of the Python in a folder.
fn version_in(bin: &Path, module: &str, places: &Programs) -> Option<String> {
    let python = places.python.filter(|python| Path::new(&python.executable).parent() == Some(bin))?;
    let package = module.split('.').next().unwrap_or(module);
    python::versions(python.freeze.iter().map(String::as_str)).remove(&python::normalised(package))
}

/// The source of what `uv run` runs in a project: a script, a module, or a command of one of the project's packages. uv does not report it.
fn run_by_uv(launched: &LauncherArgs<'_>, places: &Programs) -> Origin {
    let folder = launched.value(&["--directory"]).map_or(places.workspace.to_owned(), |to| places.workspace.join(to));
    let project = launched.value(&["--project"]).map_or(folder.clone(), |to| places.workspace.join(to));
    let bin = project.join(".venv/bin");
    let Some(target) = launched.target else { return (Source::Local, "unknown".into(), Some("uv run".into())) };
    let script = folder.join(target);
    if script.is_file() {
        return file(&script, places);
    }
    if launched.has(&["-m", "--module"]) {
        return module_origin("uv run", target, version_in(&bin, target, places));
    }
    if is_python(target)
        && let Some(origin) = interpreted(&bin.join(target).to_string_lossy(), launched.rest, &folder, places)
    {
        return origin;
    }
    if let Some(version) = version_in(&bin, target, places) {
        return (Source::Local, version, Some(format!("uv run {}", plain(target))));
    }
    let commit = Repository::around(&project).ok().flatten().and_then(|repository| repository.facts().commit);
    match commit {
        Some(commit) => (Source::Git, commit, Some(project.to_string_lossy().into_owned())),
        None => (Source::Local, "unknown".into(), Some(format!("uv run {}", plain(target)))),
    }
}

/// A program: of the npm package or the git repository that it lies in, else by its own hash.
fn file(path: &Path, places: &Programs) -> Origin {
    let located =
        if path.components().count() > 1 { Some(places.workspace.join(path)) } else { locate(path.as_os_str(), places.path) };
    let Some(real) = located.and_then(|path| path.canonicalize().ok()) else {
        return (Source::Local, "missing".into(), Some(plain(&path.to_string_lossy())));
    };
    let shown = real.to_string_lossy().into_owned();
    if let Some((Some(name), Some(version))) = package_of(&real) {
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

fn hash(path: &Path) -> Option<String> {
    let mut file = regular::open(path).ok()?;
    if file.metadata().ok()?.len() > PROGRAM_BYTES_MAX {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut file, &mut hasher).ok()?;
    Some(format!("blake3:{}", hasher.finalize().to_hex()))
}
