//! One cell of the matrix: a workspace, a store and a user. It goes on after a fault, and ends with a list of all that it found.

use parhelia_store::clock;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use parhelia_tests::{
    Scratch, binary,
    editor::Editor,
    filesystems::{Kind, Mounted, Mountpoint, in_memory, text},
    make_store,
    recorder::Recorder,
    tree::{Entry, Tree, changed, whole_tree_in},
};
use serde_json::{Value, json};

/// The place of a workspace or a store.
pub enum Place {
    /// On a filesystem that is mounted for the cell.
    On(Mounted),
    /// On the recorder, whose clock is the test's.
    Recorded(Recorder),
    /// Beside the other.
    Beside,
}

impl Place {
    fn path(&self) -> Option<&Path> {
        match self {
            Place::On(mounted) => Some(mounted.path()),
            Place::Recorded(recorder) => Some(recorder.path()),
            Place::Beside => None,
        }
    }
}

/// Precision with which times of modification are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// To the nanosecond.
    Exact,
    /// To the second, where a lower layer keeps more than the upper one.
    Seconds,
    /// Not at all: FUSE gives a file a new one when it writes back what was mapped.
    None,
}

impl Times {
    /// Precision on a kind of filesystem, with or without mappings.
    pub fn of(kind: Kind, has_mappings: bool) -> Self {
        match kind {
            Kind::Fuse if has_mappings => Times::None,
            Kind::OverlaySeconds => Times::Seconds,
            _ => Times::Exact,
        }
    }

    fn differ(self, a: (i64, u32), b: (i64, u32)) -> bool {
        match self {
            Times::Exact => a != b,
            Times::Seconds => a.0 != b.0,
            Times::None => false,
        }
    }
}

/// A cell, which its story works with. The editor goes before what it may hold open.
pub struct Cell {
    pub editor: Editor,
    /// The folder that is captured.
    pub work: PathBuf,
    pub user: u32,
    /// Content that each checkpoint must hold, oldest first.
    pub held: Vec<(String, Tree)>,
    /// Variables of every command.
    pub variables: BTreeMap<String, String>,
    /// The session of the checkpoints.
    pub session: String,
    /// Precision with which times are compared.
    pub times: Times,
    /// True if new folders are restored beside the store: a restore into the workspace's filesystem writes back what is mapped there.
    pub restores_beside: bool,
    name: String,
    problems: Vec<String>,
    /// Entries that were told of.
    told: BTreeSet<String>,
    done: Vec<String>,
    restores: u32,
    began: Instant,
    program: PathBuf,
    workspace: Place,
    _store: Place,
    _memory: Mountpoint,
    scratch: Scratch,
}

fn own(path: &Path, user: u32) {
    if path.metadata().is_ok_and(|meta| meta.uid() == user) {
        return;
    }
    fs::create_dir_all(path).unwrap();
    chown(path, Some(user), Some(user)).unwrap();
}

impl Cell {
    /// A cell whose workspace is the folder `work` of a place, which `fill` has filled, or fills now.
    pub fn new(name: &str, workspace: Place, store: Place, user: u32) -> Self {
        let mut scratch = Scratch::new();
        let memory = in_memory(&scratch.path(""));
        own(&scratch.path("home"), user);
        let beside = scratch.path("beside");
        own(&beside, user);
        if let Some(place) = store.path() {
            chown(place, Some(user), Some(user)).unwrap();
        }
        scratch.put_store(store.path().unwrap_or(&beside).join("store"));
        make_store(&scratch.store());
        let work = workspace.path().unwrap_or(&beside).join("work");
        own(&work, user);
        Cell {
            editor: Editor::new(&work, user),
            program: if user == 0 { binary() } else { program_for_all(&scratch) },
            work,
            user,
            held: Vec::new(),
            variables: BTreeMap::new(),
            session: "s".into(),
            times: Times::Exact,
            restores_beside: false,
            began: Instant::now(),
            name: name.to_owned(),
            problems: Vec::new(),
            told: BTreeSet::new(),
            done: Vec::new(),
            restores: 0,
            workspace,
            _store: store,
            _memory: memory,
            scratch,
        }
    }

    /// A workspace on a filesystem of some kind, the store beside; filled before the filesystem is mounted where it has two layers.
    pub fn of_workspace(kind: Kind, user: u32, fill: impl FnOnce(&mut Editor)) -> Option<Self> {
        let fill_work = |root: &Path| {
            own(&root.join("work"), user);
            fill(&mut Editor::new(&root.join("work"), user));
        };
        let mounted = Mounted::new(kind, user, fill_work)?;
        let mut cell = Cell::new(&format!("workspace on {kind:?}, user {user}"), Place::On(mounted), Place::Beside, user);
        cell.times = Times::of(kind, false);
        Some(cell)
    }

    /// A store on a filesystem of some kind, the workspace beside.
    pub fn of_store(kind: Kind, user: u32, fill: impl FnOnce(&mut Editor)) -> Option<Self> {
        let mounted = Mounted::new(kind, user, |_| {})?;
        let mut cell = Cell::new(&format!("store on {kind:?}, user {user}"), Place::Beside, Place::On(mounted), user);
        fill(&mut cell.editor);
        Some(cell)
    }

    /// The mounted filesystem of the workspace.
    pub fn mounted(&mut self) -> &mut Mounted {
        match &mut self.workspace {
            Place::On(mounted) => mounted,
            _ => panic!("the workspace is on no filesystem of its own"),
        }
    }

    /// The recorder of the workspace.
    pub fn recorder(&self) -> &Recorder {
        match &self.workspace {
            Place::Recorded(recorder) => recorder,
            _ => panic!("the workspace is not recorded"),
        }
    }

    /// Notes what has happened, to be shown if something is found.
    pub fn tell(&mut self, what: impl Into<String>) {
        self.done.push(what.into());
    }

    /// Notes a fault, and where it was found.
    pub fn fault(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.done.push(format!("FAULT: {what}"));
        self.problems.push(what);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("HOME", self.scratch.path("home"))
            .env("PARHELIA_STORE", self.scratch.store())
            .env("NO_COLOR", "1");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(&self.variables);
        command.args(arguments).arg("--json").current_dir("/").uid(self.user).gid(self.user);
        command
    }

    /// Runs a command; its lines of JSON, or a fault.
    pub fn run(&mut self, arguments: &[&str]) -> Option<Vec<Value>> {
        let output = self.command(arguments).output().unwrap();
        if !output.status.success() {
            self.fault(format!("{arguments:?}: {:?}: {}", output.status.code(), String::from_utf8_lossy(&output.stderr).trim()));
            return None;
        }
        self.tell(format!("{arguments:?}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// Content of the workspace, read without any help of stamps.
    pub fn tree(&self) -> Tree {
        tree_of_user(&self.work)
    }

    fn compare(&mut self, what: &str, is: &Tree, should: &Tree) {
        let paths: BTreeSet<_> = is.keys().chain(should.keys()).collect();
        let told = paths.into_iter().filter_map(|path| {
            let told = self.differing(is.get(path), should.get(path));
            (!told.is_empty()).then(|| format!("{} ({})", String::from_utf8_lossy(path), told.join(", ")))
        });
        let told: Vec<_> = told.collect();
        if told.is_empty() {
            return;
        }
        let new: Vec<_> = told.iter().filter(|entry| self.told.insert((*entry).clone())).cloned().collect();
        let before = told.len() - new.len();
        let new = if new.is_empty() { String::new() } else { format!(": {}", new.join("; ")) };
        self.fault(format!("{what}: {} entries are not as they should be, {before} of them as told above{new}", told.len()));
    }

    /// In what an entry is not what it should be.
    fn differing(&self, is: Option<&Entry>, should: Option<&Entry>) -> Vec<String> {
        let (Some(is), Some(should)) = (is, should) else {
            return match (is, should) {
                (None, Some(_)) => vec!["missing".into()],
                (Some(_), None) => vec!["too many".into()],
                _ => Vec::new(),
            };
        };
        let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let mut told = Vec::new();
        let mut tell = |differs: bool, text: String| told.extend(differs.then_some(text));
        tell(is.what != should.what, format!("{:?} in place of {:?}", is.what, should.what));
        tell(is.mode != should.mode, format!("mode {:o} in place of {:o}", is.mode, should.mode));
        tell(is.owner != should.owner, format!("owner {:?} in place of {:?}", is.owner, should.owner));
        tell(self.times.differ(is.mtime, should.mtime), format!("time {:?} in place of {:?}", is.mtime, should.mtime));
        tell(is.xattrs != should.xattrs, "attributes".into());
        tell(
            is.first_path != should.first_path,
            format!("a link of {} in place of {}", path(&is.first_path), path(&should.first_path)),
        );
        told
    }

    /// `diff` of the last checkpoint and the workspace says exactly what differs.
    fn check_diff(&mut self, when: &str, lines: &[Value], now: &Tree) {
        let Some((_, before)) = self.held.last() else { return };
        let only = |line: &Value| -> Vec<String> { serde_json::from_value(line["metadata"].clone()).unwrap_or_default() };
        let (mut said, mut invented) = (BTreeSet::new(), BTreeSet::new());
        let changes = changed(before, now);
        for line in lines.iter().filter(|line| line["change"].is_string()) {
            for path in [&line["path"], &line["from"]].into_iter().filter_map(Value::as_str) {
                said.insert(path.to_owned());
                // How many names a file has, and where it has holes, is not told by an entry alone.
                let is_told = line["change"] == "metadata" && only(line).iter().all(|field| field == "links" || field == "holes");
                if !is_told && !is_kept_by_fuse(path.as_bytes()) && !changes.any.contains(path.as_bytes()) && !path.is_empty() {
                    invented.insert(format!("{path} ({}, {:?})", line["change"], only(line)));
                }
            }
        }
        let is_said = |path: &Vec<u8>| said.contains(&*String::from_utf8_lossy(path));
        let missed: Vec<_> = changes.of_weight.iter().filter(|path| !is_said(path)).map(|p| String::from_utf8_lossy(p)).collect();
        let faults =
            [("does not name", missed.join(", ")), ("names without need", invented.into_iter().collect::<Vec<_>>().join(", "))];
        for (what, paths) in faults.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            self.fault(format!("{when}: diff against the workspace {what}: {paths}"));
        }
    }

    /// The workspace is compared and captured; what the checkpoint holds is what is there. It is read last, as that may write back what
    /// was mapped.
    pub fn check_capture(&mut self, when: &str) {
        self.tell(format!("-- {when}"));
        let (work, session, last) = (text(&self.work), self.session.clone(), self.held.last().map(|(id, _)| id.clone()));
        let diff = last.map(|last| ["checkpoint", "diff", &last, "--workspace", &work].map(str::to_owned));
        let said = diff.and_then(|diff| self.run(&diff.each_ref().map(String::as_str)));
        let create = ["checkpoint", "create", &session, "--workspace", &work, "--no-default-excludes", "--no-conversation"];
        let created = self.run(&create);
        let now = self.tree();
        if let Some(said) = said {
            self.check_diff(when, &said, &now);
        }
        let Some(lines) = created else { return };
        let id = lines.last().and_then(|line| line["id"].as_str()).unwrap_or_default().to_owned();
        self.held.push((id.clone(), now.clone()));
        self.check_restored(when, &id, &now);
    }

    /// A checkpoint restored to a new folder is what it must hold.
    pub fn check_restored(&mut self, when: &str, id: &str, should: &Tree) {
        // A read-only workspace has no room beside it.
        let is_read_only = rustix::fs::statvfs(&self.work).unwrap().f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
        let name = format!("restored{}", self.restores);
        let is_elsewhere = is_read_only || self.restores_beside;
        let to = if is_elsewhere { self.scratch.path("beside").join(name) } else { self.work.with_file_name(name) };
        self.restores += 1;
        if self.run(&["checkpoint", "restore", id, "--to", &text(&to)]).is_some() {
            self.compare(&format!("{when}: restored to a new folder"), &tree_of_user(&to), should);
        }
        let _ = fs::remove_dir_all(&to);
    }

    /// An earlier checkpoint restored in place makes the workspace what it was, for `diff` and for the next checkpoint, too.
    pub fn check_in_place(&mut self, when: &str, n: usize) {
        let Some((id, should)) = self.held.get(n).cloned() else { return };
        let work = text(&self.work);
        let restore = ["checkpoint", "restore", &id, "--to", &work, "--in-place", "--delete"];
        self.tell(format!("-- {when}"));
        if self.run(&restore).is_some() {
            self.compare(&format!("{when}: restored in place"), &self.tree(), &should);
        }
        self.check_capture(&format!("{when}: captured after the restore in place"));
    }

    /// Changes a file in the second in which it was captured, so that no stamp of whole seconds tells.
    pub fn check_same_second(&mut self, path: &str, whole_seconds: bool) {
        for attempt in 0.. {
            if whole_seconds {
                wait_for_a_new_second();
            }
            self.editor.edit("rewrite", json!([path, 1000 + attempt]));
            self.check_capture(&format!("{path}: rewritten, {attempt}"));
            let before = stamps(&self.work.join(path));
            self.editor.edit("rewrite", json!([path, 2000 + attempt]));
            let is_hidden = stamps(&self.work.join(path)) == before;
            self.check_capture(&format!("{path}: rewritten within the second of its capture, {attempt}"));
            // On a busy machine the second may be over too early.
            if is_hidden || !whole_seconds || attempt == 5 {
                return;
            }
        }
    }

    /// Lets the stamps grow so old that the next capture takes them for what they are; longest where clocks are not trusted.
    pub fn settle(&self, kind: Kind) {
        let millis = match kind {
            Kind::Fuse => 3_100,
            kind if kind.has_whole_seconds() => 1_100,
            _ => 60,
        };
        std::thread::sleep(Duration::from_millis(millis));
    }

    /// Ends the story: every checkpoint still holds what it must, and nothing is wrong with the store.
    pub fn finish(mut self) {
        self.tell("-- the end");
        for (id, should) in self.held.clone().into_iter().step_by(3) {
            self.check_restored("at the end", &id, &should);
        }
        if self.held.len() > 1 {
            let (id, _) = self.held.remove(0);
            self.run(&["checkpoint", "delete", &id]);
        }
        self.run(&["gc"]);
        if let Some((id, should)) = self.held.first().cloned() {
            self.check_restored("after gc", &id, &should);
            self.run(&["checkpoint", "verify", &id, "--deep"]);
        }
        self.run(&["check", "--read-data"]);
        let refused: Vec<_> = self.editor.refused.iter().map(|((edit, errno), n)| format!("{edit}: {errno} ({n})")).collect();
        let time = self.began.elapsed().as_secs_f32();
        println!("{}, {time:.1} s: edits {:?}; refused: {}", self.name, self.editor.done, refused.join(", "));
        if !self.problems.is_empty() {
            eprintln!("{}\n{}", self.name, self.done.join("\n"));
            panic!("{}: {} faults\n- {}", self.name, self.problems.len(), self.problems.join("\n- "));
        }
    }
}

/// The binary, in a folder that anybody may enter.
fn program_for_all(scratch: &Scratch) -> PathBuf {
    let at = scratch.path("parhelia");
    // Another process writes it: one that is forked here meanwhile would hold it open for writing, so that it could not be run.
    assert!(Command::new("cp").arg(binary()).arg(&at).status().unwrap().success());
    fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
    at
}

/// Content of a folder, without what FUSE keeps there of files that are removed while a mapping holds them.
fn tree_of_user(folder: &Path) -> Tree {
    let mut tree = whole_tree_in(folder);
    tree.retain(|path, _| !is_kept_by_fuse(path));
    tree
}

fn is_kept_by_fuse(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name.starts_with(b".fuse_hidden"))
}

/// All that `stat` says of a file by which a change could be seen.
fn stamps(path: &Path) -> [i64; 6] {
    let meta = fs::symlink_metadata(path).unwrap();
    [meta.ino() as i64, meta.size() as i64, meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()]
}

/// Waits until a second has just begun.
fn wait_for_a_new_second() {
    let now = SystemTime::from(clock::timestamp()).duration_since(SystemTime::UNIX_EPOCH).unwrap();
    std::thread::sleep(Duration::from_secs(1) - Duration::from_nanos(u64::from(now.subsec_nanos())) + Duration::from_millis(5));
}
