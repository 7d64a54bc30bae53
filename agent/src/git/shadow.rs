//! A git folder of our own that stands for a repository's. It has the repository's references, index and objects, and only those of its settings
//! that name no program.
//!
//! A repository may name programs in many of its settings (filters, `core.fsmonitor`, hooks, `diff.external`, transports of a partial
//! clone, files that it includes, ...), and each release of git adds some. Hence none is overridden here: git never reads the repository's
//! settings or the user's, and finds no hooks. A file whose attributes name a filter is compared as it is, because a filter without a
//! program does nothing.

#![expect(clippy::disallowed_methods, reason = "makes a temporary folder of its own")]

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use super::{Environment, Repository, find::read, writing::RepositoryWriter};
use crate::{
    error::{Error, IoContext, Result},
    program::ProgramOutput,
};

/// Runs a command line of git, for as long as it may take.
pub type Run<'a> = &'a dyn Fn(&mut Command) -> Result<ProgramOutput>;

/// Settings that decide how files and references are read, by section, subsection (`*` where there is any) and name.
const KEPT: [(&str, &str, &[&str]); 8] = [
    (
        "core",
        "",
        &[
            "autocrlf",
            "checkstat",
            "eol",
            "excludesfile",
            "filemode",
            "ignorecase",
            "precomposeunicode",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "trustctime",
        ],
    ),
    ("extensions", "", &["objectformat", "refstorage"]),
    ("branch", "*", &["merge", "remote"]),
    ("remote", "*", &["fetch"]),
    ("user", "", &["email", "name"]),
    ("author", "", &["email", "name"]),
    ("committer", "", &["email", "name"]),
    ("index", "", &["sparse"]),
];

/// The longest file of settings, in bytes: git keeps it in memory several times over.
const SETTINGS_BYTES_MAX: u64 = 4 << 20;
/// The longest file of patterns or attributes that git is shown, in bytes.
const PATTERNS_BYTES_MAX: u64 = 64 << 20;

/// Entries of the repository's own folder, and of the folder that worktrees share, that our copy shows.
const OWN: [&str; 2] = ["info/sparse-checkout", "reftable"];
const SHARED: [&str; 6] = ["info/attributes", "info/exclude", "logs", "packed-refs", "refs", "shallow"];

/// A setting of git's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    section: String,
    subsection: String,
    name: String,
    value: String,
}

impl Setting {
    /// Reads what `git config --list -z` prints.
    fn parse(printed: &[u8]) -> Vec<Self> {
        let printed = String::from_utf8_lossy(printed);
        let entries = printed.split('\0').filter(|entry| !entry.is_empty());
        let parsed = entries.filter_map(|entry| {
            // A name without a value is a switch that is on.
            let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            let (section, rest) = key.split_once('.')?;
            let (subsection, name) = rest.rsplit_once('.').unwrap_or(("", rest));
            let [section, subsection, name, value] = [section, subsection, name, value].map(str::to_owned);
            Some(Setting { section, subsection, name, value })
        });
        parsed.collect()
    }

    fn is(&self, section: &str, name: &str) -> bool {
        self.section == section && self.name == name
    }

    /// The value, if it is the setting of this name.
    pub(super) fn of(&self, section: &str, name: &str) -> Option<&str> {
        (self.is(section, name) && self.subsection.is_empty()).then_some(self.value.as_str())
    }

    /// True if the setting is on, or has any other value.
    fn is_on(&self) -> bool {
        !matches!(self.value.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
    }

    fn is_kept(&self) -> bool {
        KEPT.iter().any(|(section, subsection, names)| {
            self.section == *section && (*subsection == "*") != self.subsection.is_empty() && names.contains(&self.name.as_str())
        })
    }

    /// The setting as a line of a settings file. A subsection cannot hold a line break, and no setting that is read has one in its value.
    fn line(&self) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let subsection = match self.subsection.is_empty() {
            true => String::new(),
            false => format!(" \"{}\"", quoted(&self.subsection)),
        };
        let value = quoted(&self.value).replace('\n', "\\n");
        format!("[{}{subsection}]\n\t{} = \"{value}\"\n", self.section, self.name)
    }
}

/// The user's settings: what is in `HOME` and of the whole machine, with the files that those include.
pub(super) fn user_settings(env: &Environment, run: Run<'_>) -> Result<Vec<Setting>> {
    let mut command = env.command(Path::new("/"))?;
    // Of no repository.
    command.env("GIT_DIR", "/dev/null").args(["config", "--includes", "-z", "--list"]);
    Ok(Setting::parse(&run(&mut command)?))
}

/// A repository's own settings. What it includes from elsewhere is not read.
fn own_settings(repository: &Repository, env: &Environment, run: Run<'_>) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for path in [repository.common().join("config"), repository.git().join("config.worktree")] {
        match path.metadata() {
            // A fifo would keep git waiting.
            Ok(metadata) if !metadata.is_file() => continue,
            Ok(metadata) if metadata.len() > SETTINGS_BYTES_MAX => {
                return Err(refused(repository, &format!("{} is longer than {SETTINGS_BYTES_MAX} bytes", path.display())));
            }
            Ok(_) => {}
            Err(_) => continue,
        }
        let mut command = env.command(Path::new("/"))?;
        command.env("GIT_DIR", "/dev/null").args(["config", "--no-includes", "-z", "--list", "--file"]).arg(&path);
        settings.extend(Setting::parse(&run(&mut command)?));
    }
    Ok(settings)
}

/// A folder for git in place of a repository's; it is removed with this.
#[derive(Debug)]
pub struct Shadow<'a> {
    env: &'a Environment,
    repository: Repository,
    folder: PathBuf,
    is_partial_clone: bool,
    has_identity: bool,
    /// The folder of files that the repository names by itself.
    worktree: Option<PathBuf>,
}

impl<'a> Shadow<'a> {
    /// Makes one. `user` are the user's own settings.
    pub fn new(repository: &Repository, env: &'a Environment, user: &[Setting], run: Run<'_>) -> Result<Self> {
        if let Some(uid) = repository.stranger(env, user) {
            return Err(Error::StrangersRepository { root: repository.root().to_owned(), uid });
        }
        ensure_readable(repository)?;
        let own = own_settings(repository, env, run)?;
        let is_on =
            |section: &str, name: &str| own.iter().rev().find(|setting| setting.is(section, name)).is_some_and(Setting::is_on);
        if is_on("core", "bare") && !repository.is_linked_worktree() {
            return Err(refused(repository, "it is bare, and has no files"));
        }
        if is_on("extensions", "refstorage") && repository.is_linked_worktree() && repository.git().join("reftable").exists() {
            return Err(refused(repository, "it is a linked worktree whose references are in a reftable"));
        }
        let kept: Vec<&Setting> = user.iter().chain(&own).filter(|setting| setting.is_kept()).collect();
        let has = |name: &str| kept.iter().any(|setting| setting.is("user", name) && !setting.value.is_empty());
        let shadow = Shadow {
            env,
            repository: repository.clone(),
            folder: env.scratch()?,
            is_partial_clone: is_on("extensions", "partialclone") || own.iter().any(|setting| setting.is("remote", "promisor")),
            has_identity: has("name") && has("email"),
            worktree: own.iter().rev().find_map(|setting| setting.of("core", "worktree")).map(PathBuf::from),
        };
        shadow.fill(&kept).at("make git folder", &shadow.folder)?;
        Ok(shadow)
    }

    fn fill(&self, settings: &[&Setting]) -> io::Result<()> {
        let (git, common) = (self.repository.git(), self.repository.common());
        let version = u8::from(settings.iter().any(|setting| setting.section == "extensions"));
        let mut config = format!("[core]\n\trepositoryformatversion = {version}\n\tbare = false\n");
        config.extend(settings.iter().map(|setting| setting.line()));
        fs::write(self.folder.join("config"), config)?;
        let head =
            read(&git.join("HEAD")).ok_or_else(|| io::Error::other(format!("{} is unreadable", git.join("HEAD").display())))?;
        fs::write(self.folder.join("HEAD"), head)?;
        fs::create_dir(self.folder.join("info"))?;
        let own = OWN.iter().map(|name| (git.join(name), *name));
        for (path, name) in own.chain(SHARED.iter().map(|name| (common.join(name), *name))) {
            // A fifo would keep git waiting.
            let is_shown = |metadata: fs::Metadata| {
                let is_short = metadata.len() <= PATTERNS_BYTES_MAX || !name.starts_with("info/");
                metadata.is_dir() || metadata.is_file() && is_short
            };
            if path.metadata().is_ok_and(is_shown) {
                symlink(path, self.folder.join(name))?;
            }
        }
        for entry in fs::read_dir(git)? {
            let entry = entry?;
            let is_shared_index = entry.file_name().as_encoded_bytes().starts_with(b"sharedindex.");
            // Git moves the time of one that it uses.
            if is_shared_index && entry.file_type()?.is_file() {
                symlink(entry.path(), self.folder.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// The folders that git may write to for this repository, opened without following a link.
    pub fn writing(&self) -> Result<RepositoryWriter> {
        RepositoryWriter::of(&self.repository, self.worktree.as_deref()).map_err(|reason| refused(&self.repository, &reason))
    }

    /// Has git find the references' tables of the repository at another path.
    pub fn link_reftable(&self, to: &Path) -> Result<()> {
        let link = self.folder.join("reftable");
        fs::remove_file(&link).at("remove link", &link)?;
        symlink(to, &link).at("make link", &link)
    }

    /// Our folder, in which files may be put for as long as this lives.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of the repository's own index file.
    pub fn index(&self) -> PathBuf {
        self.repository.git().join("index")
    }

    /// True if git knows the committer's name.
    pub fn has_identity(&self) -> bool {
        self.has_identity
    }

    /// A git command line in a folder of the repository.
    pub fn command(&self, folder: &Path) -> Result<Command> {
        let mut command = self.env.command(folder)?;
        command.env("GIT_DIR", &self.folder).env("GIT_WORK_TREE", self.repository.root()).env("GIT_INDEX_FILE", self.index());
        command.env("GIT_OBJECT_DIRECTORY", self.repository.common().join("objects"));
        command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_ATTR_NOSYSTEM", "1")]);
        // Contents that a partial clone has not fetched cannot be compared.
        let renames = if self.is_partial_clone { "status.renames=false" } else { "status.renames=true" };
        command.args(["-c", renames]);
        Ok(command)
    }
}

impl Drop for Shadow<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Fails where something else than a file stands where git reads one, as it would wait for a fifo's writer, and where a file is too long that it reads
/// whole.
fn ensure_readable(repository: &Repository) -> Result<()> {
    let (root, git, common) = (repository.root(), repository.git(), repository.common());
    let head = read(&git.join("HEAD")).unwrap_or_default();
    let name = head.trim_end().strip_prefix("ref: ").filter(|name| name.starts_with("refs/") && !name.contains(".."));
    let branch = name.map(|name| (common.join(name), PATTERNS_BYTES_MAX));
    let shared = ["refs/stash", "logs/refs/stash", "packed-refs"].map(|name| (common.join(name), u64::MAX));
    let own = [(git.join("HEAD"), PATTERNS_BYTES_MAX), (git.join("index"), u64::MAX)];
    // Git follows no link to these.
    let patterns = [".gitignore", ".gitattributes"].map(|name| (root.join(name), PATTERNS_BYTES_MAX));
    let patterns = patterns.into_iter().filter(|(path, _)| !path.is_symlink());
    for (path, bytes_max) in own.into_iter().chain(branch).chain(shared).chain(patterns) {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if !metadata.is_file() => {
                return Err(refused(repository, &format!("{} is no regular file", path.display())));
            }
            Ok(metadata) if metadata.len() > bytes_max => {
                return Err(refused(repository, &format!("{} is longer than {bytes_max} bytes", path.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused(repository: &Repository, reason: &str) -> Error {
    Error::Program { command: format!("git status in {}", repository.root().display()), reason: reason.to_owned() }
}

/// Makes a folder of our own below the first of these places where that can be done.
pub(super) fn make_folder(places: &[PathBuf]) -> Result<PathBuf> {
    let mut made = Err(Error::Invalid("cannot make a temporary folder: no place for it is known".into()));
    for place in places {
        let folder = place.join(format!("parhelia-{}.tmp", uuid::Uuid::new_v4().simple()));
        made = fs::DirBuilder::new().mode(0o700).create(&folder).at("create folder", &folder).map(|()| folder);
        if made.is_ok() {
            break;
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_name_programs_are_dropped_and_others_survive_quoting() {
        let printed =
            b"core.autocrlf\ninput\0core.fsmonitor\n./evil\0filter.a.b.clean\nevil\0branch.a\"\\.b.merge\nrefs/heads/x\n y\0\
            core.filemode\0include.path\nevil\0core.a.eol\nlf\0branch.remote\nno\0alias.status\n!evil\0";
        let kept: Vec<Setting> = Setting::parse(printed).into_iter().filter(Setting::is_kept).collect();
        let lines: Vec<String> = kept.iter().map(Setting::line).collect();
        let expected = [
            "[core]\n\tautocrlf = \"input\"\n",
            "[branch \"a\\\"\\\\.b\"]\n\tmerge = \"refs/heads/x\\n y\"\n",
            "[core]\n\tfilemode = \"true\"\n",
        ];
        assert_eq!(lines, expected);
    }
}
