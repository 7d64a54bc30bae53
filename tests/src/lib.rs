//! Shared parts of the whole-system tests: the real binary in a clean environment, trees of every kind of entry, comparison by
//! independent tools, and a filesystem that records what is written and synced.

pub mod allocation;
pub mod clock;
pub mod editor;
pub mod filesystems;
pub mod host;
pub mod lines;
pub mod node;
pub mod pages;
pub mod python;
pub mod receiver;
pub mod recorder;
pub mod story;
pub mod tree;

pub mod agent;
pub mod live;
pub mod scripted;
pub mod sessions;
pub mod tmux;
pub mod user;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use parhelia_store::OpenOptions;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use serde_json::Value;

/// The binary under test: cargo puts it beside the tests' own folder.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    // A program stands beside it, a test one folder deeper.
    let beside = test.ancestors().skip(1).take(2).map(|folder| folder.join("parhelia")).find(|binary| binary.is_file());
    beside.unwrap_or_else(|| panic!("the binary is missing beside {}: `cargo build --release --workspace`", test.display()))
}

/// A folder in the user's cache folder for what tests get from registries, by a name.
pub fn cache(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let folder = cache.unwrap_or_else(|| panic!("HOME or XDG_CACHE_HOME must be set")).join("parhelia").join(name);
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    folder
}

/// Number of rounds of a long run, by `PARHELIA_LONG`; 0 in the ordinary run.
pub fn long() -> u64 {
    std::env::var("PARHELIA_LONG").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The seed that a run of chance is to repeat, by `PARHELIA_SEED`.
pub fn given_seed() -> Option<u64> {
    std::env::var("PARHELIA_SEED").ok().and_then(|text| text.parse().ok())
}

/// The variables that repeat a run of chance with this seed.
pub fn repeated_by(seed: u64) -> String {
    match long() {
        0 => format!("PARHELIA_SEED={seed}"),
        rounds => format!("PARHELIA_SEED={seed} PARHELIA_LONG={rounds}"),
    }
}

/// Makes an empty store where there is none, as `parhelia init` of the owner of the folder around it does.
pub fn make_store(path: &Path) {
    if path.join("store.json").exists() {
        return;
    }
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    drop(parhelia_ledger::open(path, &options).unwrap_or_else(|e| panic!("no store: {e}")));
    let owner = path.parent().and_then(|parent| fs::metadata(parent).ok()).map_or(0, |parent| parent.uid());
    if owner != 0 {
        let given = Command::new("chown").args(["-R", &format!("{owner}:{owner}")]).arg(path).status();
        assert!(given.is_ok_and(|status| status.success()), "{} could not be given away", path.display());
    }
}

/// A scratch folder with a store, which the first command finds made.
pub struct Scratch {
    folder: tempfile::TempDir,
    store: PathBuf,
    /// Set once the store has been made, or where a test wants none.
    has_store: AtomicBool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// A new one.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no scratch folder: {e}"));
        Scratch { store: folder.path().join("store"), folder, has_store: AtomicBool::new(false) }
    }

    /// A new one, whose store does not exist: no command makes a store that is named.
    pub fn without_store() -> Self {
        Scratch { has_store: AtomicBool::new(true), ..Self::new() }
    }

    /// Makes the store, once: a test may take it away again. Where something is there already, the test has put it there.
    fn make_store(&self) {
        let has_something = || fs::read_dir(&self.store).map_or(self.store.exists(), |mut entries| entries.next().is_some());
        if !self.has_store.swap(true, Ordering::Relaxed) && !has_something() {
            make_store(&self.store);
        }
    }

    /// A new one with an empty store whose packs get no parity, so that a damaged byte is damage.
    pub fn without_parity() -> Self {
        let scratch = Self::new();
        let options = parhelia_store::OpenOptions { create: true, parity: false, ..Default::default() };
        parhelia_ledger::open(&scratch.store, &options).unwrap_or_else(|e| panic!("no store: {e}"));
        scratch
    }

    /// A new one, whose store is somewhere else.
    pub fn with_store(store: PathBuf) -> Self {
        Scratch { store, ..Self::new() }
    }

    /// The same, with its store somewhere else.
    pub fn put_store(&mut self, store: PathBuf) {
        self.store = store;
        self.has_store.store(false, Ordering::Relaxed);
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The store's folder.
    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }

    /// A command line in a clean environment.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        self.make_store();
        let mut command = Command::new(binary());
        command.env_clear().env("HOME", self.path("home")).env("PARHELIA_STORE", self.store()).env("NO_COLOR", "1");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null()).args(arguments);
        command
    }

    /// Runs a command line to its end.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Output {
        let output = self.command(arguments).output().unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
        lines::ensure(arguments, &output);
        output
    }

    /// Runs a command line that must exit with `code`; returns what it printed, standard error behind standard output.
    pub fn expect<S: AsRef<std::ffi::OsStr> + std::fmt::Debug>(&self, code: i32, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(!text.contains("panicked"), "{arguments:?}: {text}");
        text
    }

    /// Runs a command line with `--json`, and returns the summary on its last line.
    pub fn summary<S: AsRef<std::ffi::OsStr> + std::fmt::Debug>(&self, arguments: &[S]) -> Value {
        let mut command = self.command(arguments);
        let output = command.arg("--json").output().unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
        lines::ensure(&["--json"], &output);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {last}"))
    }

    /// Makes a checkpoint of a folder, nothing left out, and returns its id.
    pub fn create(&self, session: &str, workspace: &Path) -> String {
        let workspace = workspace.to_string_lossy();
        let arguments = ["checkpoint", "create", session, "--workspace", &workspace, "--no-default-excludes"];
        self.summary(&arguments)["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Restores a checkpoint into a new folder.
    pub fn restore(&self, id: &str, to: &Path) {
        self.expect(0, &["checkpoint", "restore", id, "--quiet", "--to", &to.to_string_lossy()]);
    }
}

fn tool(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|e| panic!("{program} is needed by this test: {e}"));
    assert!(output.stderr.is_empty(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Panics unless two folders are equal by diff, rsync (contents, owners, times, hard links, xattrs, ACLs), find and getfattr.
pub fn assert_equal(a: &Path, b: &Path) {
    let (from, to) = (format!("{}/", a.display()), format!("{}/", b.display()));
    let changed = tool("rsync", &["-aHAXnci", "--modify-window=-1", "--checksum", "--delete", &from, &to], a);
    assert_eq!(changed, "", "rsync finds differences between {from} and {to}");
    let listing = |folder| tool("find", &[".", "-printf", "%P %y %m %U %G %T@ %n %l\\n"], folder);
    assert_eq!(sorted(listing(a)), sorted(listing(b)), "find finds differences");
    let xattrs = |folder| tool("getfattr", &["-R", "-h", "-d", "-m", "-", "--absolute-names", "."], folder);
    assert_eq!(xattrs(a), xattrs(b), "getfattr finds differences");
}

/// Regular files, by path.
pub type Files = BTreeMap<Vec<u8>, Vec<u8>>;

/// The regular files of a folder.
pub fn files_in(folder: &Path) -> Files {
    fn add(folder: &Path, prefix: &[u8], files: &mut Files) {
        for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
            let path = [prefix, entry.file_name().as_bytes()].concat();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => add(&entry.path(), &[&path, b"/".as_slice()].concat(), files),
                Ok(kind) if kind.is_file() => {
                    files.insert(path, fs::read(entry.path()).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    let mut files = Files::new();
    add(folder, b"", &mut files);
    files
}

fn sorted(text: String) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Bytes that look random and follow from a seed.
pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// Writes a file, with the folders it needs.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, bytes)
}

/// Writes a script that can be run, with the folders it needs. Another process does it: one that is forked here meanwhile would hold the file
/// open for writing, so that it could not be run.
pub fn write_program(path: &Path, text: &str) {
    let script = "mkdir -p \"$(dirname \"$1\")\" && printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
    assert!(Command::new("sh").args(["-c", script, "sh"]).arg(path).arg(text).status().is_ok_and(|status| status.success()));
}

/// A tree with every kind of entry that a store keeps, sockets only where asked.
pub fn every_kind(root: &Path, sockets: bool) -> std::io::Result<()> {
    for i in 0..40 {
        write(
            &root.join(format!("src/m{}/file{i}.rs", i % 5)),
            format!("fn f{i}() {{ {} }}\n", "x();".repeat(i * 10)).as_bytes(),
        )?;
    }
    write(&root.join("empty"), b"")?;
    write(&root.join("big.bin"), &noise(5 << 20, 1))?;
    write(&root.join("middle"), &noise(100_000, 2))?;
    fs::create_dir_all(root.join("empty folder"))?;
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"not \xff utf8\nline")), "odd")?;
    fs::write(root.join("n".repeat(255)), "long name")?;
    symlink("src/m1", root.join("link to folder"))?;
    symlink("/nowhere/at all", root.join("dangling"))?;
    fs::create_dir_all(root.join("links"))?;
    fs::hard_link(root.join("middle"), root.join("links/middle 2"))?;
    fs::hard_link(root.join("middle"), root.join("links/middle 3"))?;
    rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    rustix::fs::mknodat(CWD, root.join("device"), FileType::CharacterDevice, Mode::RUSR, rustix::fs::makedev(1, 3))?;
    if sockets {
        drop(std::os::unix::net::UnixListener::bind(root.join("socket"))?);
    }
    let mut sparse = File::create(root.join("sparse"))?;
    sparse.set_len(20 << 20)?;
    sparse.seek(SeekFrom::Start(9 << 20))?;
    sparse.write_all(&noise(10_000, 3))?;
    rustix::fs::setxattr(root.join("empty"), "user.note", b"value\0with nul", XattrFlags::empty())?;
    rustix::fs::setxattr(root.join("src"), "user.on-a-folder", b"", XattrFlags::empty())?;
    rustix::fs::chownat(
        CWD,
        root.join("src/m1/file1.rs"),
        Some(rustix::fs::Uid::from_raw(1234)),
        None,
        rustix::fs::AtFlags::empty(),
    )?;
    let mode = |path: &str, bits| rustix::fs::chmod(root.join(path), Mode::from_raw_mode(bits));
    mode("src/m2", 0o1777)?;
    mode("src/m3/file3.rs", 0o4755)?;
    mode("src/m4/file4.rs", 0o000)?;
    tool("setfacl", &["-m", "u:1234:rwx,g:99:r", "middle"], root);
    tool("setfacl", &["-d", "-m", "u:1234:rwx", "src/m2"], root);
    tool("touch", &["-h", "-d", "2001-02-03 04:05:06.123456789", "dangling", "src/m0/file0.rs", "links"], root);
    tool("touch", &["-d", "1955-11-05 06:15:00.5", "empty folder"], root);
    Ok(())
}
