//! Workspaces that are not where they were: their disk is not mounted, or they were moved.

use std::{
    collections::{HashSet, VecDeque},
    fs,
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirEntryExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
};

use parhelia_ledger::{Place, Session, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    mounts,
    name::{self, NameExt as _, step::Step},
    restore,
};
use serde_json::json;

use parhelia_agent::process::canonical;
use parhelia_host::{Error, MoveRefusal, Refusal, Result, error::IoContext, intent};

/// The field of a session with the paths that its workspace had before, oldest first.
const MOVED_FROM: &str = "moved_from";

/// The absolute path of a workspace, symlinks resolved.
pub fn workspace(path: &Path) -> Result<PathBuf> {
    let failed = |source| Error::Workspace { path: path.to_owned(), source };
    let absolute = path.canonicalize().map_err(failed)?;
    match absolute.metadata().map_err(failed)?.is_dir() {
        true => Ok(absolute),
        false => Err(Error::Invalid(format!("the workspace {} is not a folder", path.shown()))),
    }
}

/// Checks whether a workspace is missing or empty. Leftovers of a restore that was killed do not count.
pub(crate) fn is_gone(store: &Store, workspace: &Path) -> Result<bool> {
    let open = |source| Error::Io { action: "open the workspace", path: workspace.to_owned(), source };
    let entries = match fs::read_dir(workspace) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(source) => return Err(open(source)),
    };
    let (folder, pins) = (fs::File::open(workspace).map_err(open)?, store.layout().pins());
    Ok(entries.flatten().all(|entry| restore::is_being_built(folder.as_fd(), entry.file_name().as_bytes(), &pins)))
}

/// Fails where a session's workspace is gone, empty or another folder than recorded, and that is no deletion: its disk is not mounted, or it
/// was moved. What would be restored there would hide the one, or be a second copy beside the other.
pub fn ensure_place(store: &Store, session: &Session) -> Result<()> {
    let Some(place) = &session.workspace else { return Ok(()) };
    let folder = place.folder();
    let is_same = Place::of(&folder).is_ok_and(|now| place.is_same_folder(&now));
    let is_gone = is_gone(store, &folder)?;
    if !is_gone && is_same {
        return Ok(());
    }
    let (path, id) = (&place.path, &session.id);
    let how = match (is_gone, folder.is_dir()) {
        (false, _) => "another folder now",
        (true, true) => "empty",
        (true, false) => "gone",
    };
    if let Some(lost) = place.lost() {
        let (path, session, recorded) = (path.clone(), id.clone(), recorded(place));
        return Err(Refusal::NotMounted { path, session, how, lost: lost.to_string(), recorded }.into());
    }
    // One that was emptied is where it was.
    if is_same {
        return Ok(());
    }
    let Some(to) = moved_to(place) else { return Ok(()) };
    Err(Refusal::WasMoved { path: path.clone(), session: id.clone(), how, to }.into())
}

/// The folder at a session's path, compared with the one that the session was last seen in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FolderIdentity {
    /// It is the same one, or nothing speaks against that.
    #[default]
    Same,
    /// It is another one, and the session's own is nowhere to be found: it was made anew.
    MadeAnew,
    /// It is another one. Where the session's own is, in words.
    Another(String),
}

impl FolderIdentity {
    /// Looks at a session's path.
    pub fn of(session: &Session) -> Self {
        let Some(place) = &session.workspace else { return FolderIdentity::Same };
        let Ok(now) = Place::known_by(&place.folder()) else { return FolderIdentity::Same };
        if place.is_same_folder(&now) {
            return FolderIdentity::Same;
        }
        if let Some(lost) = place.lost() {
            return FolderIdentity::Another(lost.to_string());
        }
        match moved_near(place) {
            Some(to) => FolderIdentity::Another(format!("that one is {} by now", name::display(to.as_os_str().as_bytes()))),
            None if place.is_another_folder(&now) => FolderIdentity::MadeAnew,
            None => FolderIdentity::Same,
        }
    }

    /// The same of a folder that is about to be captured; of another path than the session's there is nothing to say.
    pub fn of_captured(session: Option<&Session>, workspace: &Path) -> Self {
        let is_there = |session: &&Session| {
            session.workspace.as_ref().is_some_and(|place| canonical(&place.folder()) == canonical(workspace))
        };
        session.filter(is_there).map_or(FolderIdentity::Same, FolderIdentity::of)
    }

    /// True if the session's own folder is another one.
    pub fn is_another(&self) -> bool {
        matches!(self, FolderIdentity::Another(_))
    }

    /// A sentence about it, where there is something to say.
    pub fn text(&self, session: &Session) -> Option<String> {
        let (id, path) = (&session.id, session.workspace.as_ref().map(|place| &place.path)?);
        match self {
            FolderIdentity::Same => None,
            FolderIdentity::MadeAnew => {
                Some(format!("{path} is another folder than at the last checkpoint of session {id}, which goes on with it"))
            }
            FolderIdentity::Another(own) => Some(format!(
                "{path} is another folder than session {id} works in; {own}. {} says which one is meant",
                Step::MoveSession(format!("{id} FOLDER"))
            )),
        }
    }
}

/// The recorded inode and filesystem of a place, for messages.
fn recorded(place: &Place) -> String {
    let inode = place.inode.map(|inode| format!("inode {inode}"));
    let filesystem = place.filesystem.as_ref().map(|id| format!("filesystem {}", &id[..id.len().min(12)]));
    let known: Vec<String> = inode.into_iter().chain(filesystem).collect();
    format!("recorded: {}", known.join(" on "))
}

/// Entries that are looked at, at most, and how deep below a folder that the workspace was in.
const ENTRIES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 2;
/// The number of entries that are searched on the whole mount before a workspace counts as gone: under a second where they are cached.
const ENTRIES_ANYWHERE_MAX: usize = 100_000;
/// The number of folders above the old path whose subfolders are searched.
const ABOVE_MAX: usize = 3;

/// The path of a folder that was moved: one in which a process works, one near its old place, or one anywhere on its mount, as far as that can
/// be looked through quickly. Other mounts than its own are not touched: `mv` does not lead there, and a server that is gone would be waited for.
pub(crate) fn moved_to(place: &Place) -> Option<PathBuf> {
    look_for(place, true)
}

/// The same, but not anywhere: for whoever asks of many sessions.
fn moved_near(place: &Place) -> Option<PathBuf> {
    look_for(place, false)
}

fn look_for(place: &Place, anywhere: bool) -> Option<PathBuf> {
    if place.born.is_none() && place.filesystem.is_none() {
        return None;
    }
    let mounted = place.mountpoint.as_ref().map(|path| name::as_path(&name::parse(path)).to_owned())?;
    let search = Search {
        inode: place.inode?,
        mountpoints: mounts::all().ok()?.into_iter().map(|mount| mount.mountpoint).collect(),
        is_it: &|path| Place::of(path).is_ok_and(|found| place.is_same_folder(&found)),
    };
    for folder in working_folders().filter(|folder| search.mount_of(folder) == Some(&mounted)) {
        if let Some(found) = folder.ancestors().take_while(|path| **path != *mounted).find(|path| search.is_it(path)) {
            return Some(found.to_owned());
        }
    }
    let old = place.folder();
    let above = || old.ancestors().skip(1).filter(|path| search.mount_of(path) == Some(&mounted) && path.is_dir());
    let near = search.below(above().take(ABOVE_MAX), DEPTH_MAX, ENTRIES_MAX);
    if near.is_some() || !anywhere {
        return near;
    }
    search.below(above(), usize::MAX, ENTRIES_ANYWHERE_MAX)
}

struct Search<'a> {
    inode: u64,
    mountpoints: HashSet<PathBuf>,
    is_it: &'a dyn Fn(&Path) -> bool,
}

impl Search<'_> {
    /// Mountpoint of the mount that a path lies on.
    fn mount_of(&self, path: &Path) -> Option<&PathBuf> {
        path.ancestors().find_map(|path| self.mountpoints.get(path))
    }

    fn is_it(&self, path: &Path) -> bool {
        let has_inode = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.ino() == self.inode);
        has_inode && (self.is_it)(path)
    }

    /// Looks below each of some folders, the first one first, and at whatever is nearer to it before what is deeper. Each lies in the next
    /// one. At most `left` entries are looked at, down to `depth_max` levels below each of the folders.
    fn below<'p>(&self, folders: impl Iterator<Item = &'p Path>, depth_max: usize, mut left: usize) -> Option<PathBuf> {
        let mut done: Option<&Path> = None;
        for folder in folders {
            let mut pending = VecDeque::from([(folder.to_owned(), 1)]);
            while let Some((folder, depth)) = pending.pop_front() {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    left = left.checked_sub(1)?;
                    if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        continue;
                    }
                    let path = entry.path();
                    if entry.ino() == self.inode && (self.is_it)(&path) {
                        return Some(path);
                    }
                    let is_left_out = NOT_SEARCHED.iter().any(|name| entry.file_name() == *name);
                    if depth < depth_max && !is_left_out && done != Some(&*path) && !self.mountpoints.contains(&path) {
                        pending.push_back((path, depth + 1));
                    }
                }
            }
            done = Some(folder);
        }
        None
    }
}

/// Names of folders that nobody moves a workspace into, and that hold many entries.
const NOT_SEARCHED: [&str; 2] = [".git", "node_modules"];

/// The folders that processes work in, of this one and of others that may be looked at.
fn working_folders() -> impl Iterator<Item = PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let others = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    std::env::current_dir().into_iter().chain(others)
}

/// The paths that a session's workspace had before it was moved.
pub fn moved_from(session: &Session) -> Vec<String> {
    let paths = session.extra.get(MOVED_FROM).and_then(|value| value.as_array()).cloned().unwrap_or_default();
    paths.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect()
}

/// Records that a session works in another folder by now. Another one than it was recorded with, as a copy on another disk is, needs
/// `other_folder`, and so does one while the old one is still there. A rollback under way goes on there. The caller holds the session's turn.
pub fn move_to(store: &Store, session: &Session, to: &Path, other_folder: bool, actor: &Actor) -> Result<Place> {
    let path = to.canonicalize().at("open the workspace", to)?;
    let place = Place::of(&path)?;
    let Some(old) = &session.workspace else {
        return Err(Refusal::Move(MoveRefusal::NothingToMove { session: session.id.clone() }).into());
    };
    let is_same = old.is_same_folder(&place);
    if !is_same && !other_folder {
        let why = match old.folder().is_dir() {
            true => format!("session {} works in {}, which is still there", session.id, old.path),
            false => format!("{} is not the folder that session {} worked in ({})", place.path, session.id, recorded(old)),
        };
        return Err(Refusal::Move(MoveRefusal::NotItsFolder { why, to: place.path }).into());
    }
    let mut changed = NewEvent::new(kind::SESSION_CHANGED, &session.id, actor.clone()).with("workspace", json!(place));
    if old.path != place.path {
        let mut from = moved_from(session);
        from.push(old.path.clone());
        changed = changed.with(MOVED_FROM, json!(from));
    }
    if let Some(intent) = intent::moved_with(session, &path) {
        changed = changed.with(intent::INTENT, json!(intent));
    }
    store.append_events(&[changed], &())?;
    Ok(place)
}
