//! Rules of capture for leaving entries out: the user's patterns, and proof that they can be made again.

use parhelia_name::step::Step;
use std::{
    io::Read,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{
    error::{Error, Result},
    name,
    omitted::{NODE_MODULES, NOT_TRACKED, PYCACHE, TARGET_OF_CARGO, TARGET_OF_MAVEN, VENV},
    record::Rules,
    sys,
};

const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// First bytes of a CACHEDIR.TAG (the Cache Directory Tagging Specification).
const CACHE_TAG_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Decides about entries.
#[derive(Debug)]
pub struct Excluder {
    rules: Rules,
    patterns: Gitignore,
    /// Paths to capture, in order, with everything below them; all, if there are none.
    listed: Option<Vec<Vec<u8>>>,
}

/// A git work tree on the way from the workspace folder to an entry.
#[derive(Debug)]
pub struct Repository {
    /// Path of its work tree from the workspace folder.
    path: Vec<u8>,
    /// Path of the workspace folder inside the work tree, where the work tree begins above it.
    prefix: Vec<u8>,
    dot_git: PathBuf,
    tracked: OnceLock<Vec<Vec<u8>>>,
}

impl Repository {
    /// The work tree whose `.git` lies at `dot_git`, in the folder at `path` of the workspace.
    pub fn new(path: Vec<u8>, dot_git: PathBuf) -> Arc<Self> {
        Arc::new(Repository { path, prefix: Vec::new(), dot_git, tracked: OnceLock::new() })
    }

    /// The work tree that the workspace folder lies in, if its root is above.
    pub fn around(workspace: &Path) -> Option<Arc<Self>> {
        let above = workspace.ancestors().skip(1).find(|folder| folder.join(".git").exists())?;
        let inside = workspace.strip_prefix(above).ok()?;
        use std::os::unix::ffi::OsStrExt;
        Some(Arc::new(Repository {
            path: Vec::new(),
            prefix: inside.as_os_str().as_bytes().to_vec(),
            dot_git: above.join(".git"),
            tracked: OnceLock::new(),
        }))
    }

    /// Every tracked path, ordered. An index that cannot be read counts as tracking everything: see [`Repository::tracks`].
    fn tracked(&self) -> &[Vec<u8>] {
        self.tracked.get_or_init(|| read_index(&self.dot_git).unwrap_or_else(|| vec![Vec::new()]))
    }

    /// True if git tracks the entry at a path of the workspace, or something below it.
    pub fn tracks(&self, path: &[u8]) -> bool {
        let below = match path.strip_prefix(self.path.as_slice()) {
            Some(rest) => rest.strip_prefix(b"/").unwrap_or(rest),
            None => return false,
        };
        let wanted = name::join(&self.prefix, below);
        let tracked = self.tracked();
        if tracked.first().is_some_and(Vec::is_empty) {
            return true;
        }
        let at = tracked.partition_point(|t| t.as_slice() < wanted.as_slice());
        let starts = |t: &Vec<u8>| t.strip_prefix(wanted.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
        // `target` sorts before `target-x`, which sorts before `target/x`: look at the folder's own place as well.
        let folder = [wanted.as_slice(), b"/"].concat();
        let inside = tracked.partition_point(|t| t.as_slice() < folder.as_slice());
        tracked.get(at).is_some_and(starts) || tracked.get(inside).is_some_and(starts)
    }
}

/// The longest `.git` file that is believed to be one, in bytes.
const LINK_BYTES_MAX: u64 = 64 << 10;

/// The paths in a repository's index; `None` where it cannot be read. A repository without an index tracks nothing.
fn read_index(dot_git: &Path) -> Option<Vec<Vec<u8>>> {
    let folder = if dot_git.is_file() {
        let mut text = String::new();
        std::fs::File::open(dot_git).ok()?.take(LINK_BYTES_MAX).read_to_string(&mut text).ok()?;
        dot_git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    } else {
        dot_git.to_owned()
    };
    let path = folder.join("index");
    // A fifo would never be read to its end.
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Some(Vec::new()),
        Ok(_) | Err(_) => return None,
    }
    let index = gix_index::File::at(path, gix_index::hash::Kind::Sha1, true, Default::default()).ok()?;
    let mut paths: Vec<Vec<u8>> = index.entries().iter().map(|entry| entry.path(&index).to_vec()).collect();
    paths.sort_unstable();
    Some(paths)
}

/// One folder as rules see it.
pub struct Surroundings<'a> {
    /// Its path from the workspace folder.
    pub path: &'a [u8],
    /// The names in it, ordered.
    pub names: &'a [Vec<u8>],
    /// The innermost work tree around it.
    pub repository: Option<&'a Repository>,
    /// Only what git tracks is captured, because the folder as a whole can be made again.
    pub only_tracked: bool,
}

impl Surroundings<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.binary_search_by(|n| n.as_slice().cmp(name.as_bytes())).is_ok()
    }
}

/// Verdicts on an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Capture it.
    Keep,
    /// Capture what git tracks in it, and nothing else.
    KeepTracked,
    /// Leave it out, by this rule.
    Exclude(String),
}

impl Excluder {
    /// Prepares the rules. Patterns are in gitignore syntax, relative to the workspace folder. Fails on one that does not parse.
    pub fn new(rules: Rules, listed: Option<Vec<Vec<u8>>>) -> Result<Self> {
        let mut builder = GitignoreBuilder::new("");
        for pattern in &rules.patterns {
            builder
                .add_line(None, pattern)
                .map_err(|e| Error::Invalid(format!("the exclude pattern '{pattern}' does not parse: {e}")))?;
        }
        let patterns = builder.build().map_err(|e| Error::Invalid(format!("the exclude patterns do not parse: {e}")))?;
        let in_order = |mut listed: Vec<Vec<u8>>| {
            listed.sort_unstable();
            listed
        };
        Ok(Excluder { rules, patterns, listed: listed.map(in_order) })
    }

    /// The rules, as they go into the record.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// True if [`Self::judge`] must know the paths of files.
    pub fn needs_paths(&self) -> bool {
        self.listed.is_some() || !self.patterns.is_empty()
    }

    /// True if an entry of this name decides about others in its folder and below.
    pub fn goes_by(&self, name: &[u8]) -> bool {
        let proofs = match name {
            b"Cargo.toml" | b"pom.xml" | b"package.json" | b"pyvenv.cfg" => self.rules.defaults,
            b".git" | b"CACHEDIR.TAG" => self.rules.defaults || self.rules.caches,
            _ => false,
        };
        proofs || self.rules.if_present.iter().any(|tag| tag.as_bytes() == name)
    }

    /// Decides about an entry by its name and surroundings.
    pub fn judge(&self, around: &Surroundings<'_>, name: &[u8], path: &[u8], is_folder: bool) -> Verdict {
        if let Some(listed) = &self.listed
            && !is_listed(listed, path, is_folder)
        {
            return Verdict::Exclude(format!("not in {}", Step::FilesFrom));
        }
        if !self.patterns.is_empty() {
            let matched = self.patterns.matched(name::as_path(path), is_folder);
            if let Some(glob) = matched.inner().filter(|_| matched.is_ignore()) {
                return Verdict::Exclude(format!("pattern {}", glob.original()));
            }
        }
        if around.only_tracked {
            return match around.repository {
                Some(repository) if !repository.tracks(path) => Verdict::Exclude(NOT_TRACKED.into()),
                _ if is_folder => Verdict::KeepTracked,
                _ => Verdict::Keep,
            };
        }
        if !is_folder || !self.rules.defaults {
            return Verdict::Keep;
        }
        let proof = match name {
            b"target" if around.has("Cargo.toml") => TARGET_OF_CARGO,
            b"target" if around.has("pom.xml") => TARGET_OF_MAVEN,
            b"node_modules" if around.has("package.json") => NODE_MODULES,
            b"__pycache__" => PYCACHE,
            _ => return Verdict::Keep,
        };
        self.unless_tracked(around.repository, path, proof.into())
    }

    fn unless_tracked(&self, repository: Option<&Repository>, path: &[u8], rule: String) -> Verdict {
        match repository {
            Some(repository) if repository.tracks(path) => Verdict::KeepTracked,
            _ => Verdict::Exclude(rule),
        }
    }

    /// Decides about a folder by what is in it, once it is open. `KeepTracked` and `Exclude` mean the same as for [`Self::judge`].
    pub fn judge_inside(&self, around: &Surroundings<'_>, name: &[u8], folder: BorrowedFd<'_>) -> Verdict {
        let tag = self.rules.if_present.iter().find(|tag| around.has(tag));
        if let Some(tag) = tag {
            return Verdict::Exclude(format!("holds {tag}"));
        }
        let caches = self.rules.defaults || self.rules.caches;
        if caches && around.has("CACHEDIR.TAG") && is_cache_tag(folder) {
            return self.unless_tracked(around.repository, around.path, "CACHEDIR.TAG".into());
        }
        if self.rules.defaults && name == b".venv" && around.has("pyvenv.cfg") {
            return self.unless_tracked(around.repository, around.path, VENV.into());
        }
        Verdict::Keep
    }
}

/// True if a path is in a list in order, or a folder above it, or something below it.
fn is_listed(listed: &[Vec<u8>], path: &[u8], is_folder: bool) -> bool {
    let is_above_listed = || {
        let below = [path, b"/"].concat();
        let first = listed.partition_point(|listed| *listed < below);
        listed.get(first).is_some_and(|listed| listed.starts_with(&below))
    };
    name::with_folders(path).any(|path| listed.binary_search_by(|listed| listed.as_slice().cmp(path)).is_ok())
        || is_folder && is_above_listed()
}

fn is_cache_tag(folder: BorrowedFd<'_>) -> bool {
    let mut start = [0; CACHE_TAG_SIGNATURE.len()];
    sys::open_file_at(folder, CACHE_TAG).and_then(|file| rustix::io::read(&file, &mut start)).is_ok()
        && start == CACHE_TAG_SIGNATURE
}
