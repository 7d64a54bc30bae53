//! A user's memory of a store, kept outside of it: how far its journal went, and on which filesystem it was.
//!
//! An older copy of a store, or a stale one below a mountpoint whose disk is not mounted, is whole in itself, and nothing in it tells that it is not
//! the store. What was recorded since is unknown to it, so that its retention and gc would decide by too little. So each handle that appends to the
//! journal notes the end in a file of the user's, one for each store at each place; and where the store does not go as far any more, nothing
//! removes anything from it.

#![expect(clippy::disallowed_methods, reason = "its file is in the user's state folder")]

mod missing;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

pub(crate) use self::missing::last_at;
use self::missing::resolved;
use crate::{
    clock, disk,
    error::{Error, IoContext, Result, Younger},
    event::kind,
    files,
    id::{OpId, Ulid, hex},
    journal::{Entry, Journal, Position},
    layout::{Layout, is_set_aside},
    place::Place,
};

/// Ending of the names of the journal's segments.
const SEGMENT: &str = ".log";

/// The text of the file: what was seen of a store at a place.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Observation {
    store: Ulid,
    /// The store's folder, with the filesystem that it was on.
    place: Place,
    /// End of the journal when this user appended to it last.
    end: Position,
    /// The time at which that was noted.
    at: String,
    /// Names of the files in the journal's folder then: each damage that was known has begun one of them, or set one aside. Earlier releases
    /// noted none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<BTreeSet<String>>,
}

/// What stands for a place in the names of notes.
fn place_id(place: &Path) -> String {
    hex(&blake3::hash(place.as_os_str().as_bytes()).as_bytes()[..8])
}

/// The memory of one store at one place. What this process appends is noted when it is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    file: Option<PathBuf>,
    root: PathBuf,
    journal: PathBuf,
    store: Ulid,
    younger: Option<Younger>,
    /// The sequence that was noted when this was opened.
    noted: Option<u64>,
    /// The synced end of what was appended through this handle.
    appended: Mutex<Option<Position>>,
}

impl Memory {
    /// The memory of a store in a folder of the user's; none without one. `view` looks how far the journal goes, and is called once what was seen
    /// before is known: what others append meanwhile, and note, is not held against what this process has read.
    pub(crate) fn open<T>(
        folder: Option<&Path>,
        layout: &Layout,
        store: Ulid,
        view: impl FnOnce() -> Result<(Position, T)>,
    ) -> Result<(Self, T)> {
        let root = resolved(&layout.root);
        let file = folder.map(|folder| folder.join(format!("{store}-{}.json", place_id(&root))));
        let seen = file.as_deref().and_then(read).filter(|seen| seen.store == store);
        let noted = seen.as_ref().map(|seen| seen.end.sequence);
        let (end, view) = view()?;
        let is_older = |seen: &Observation| !goes_on(layout, &end, &seen.end) && !has_lost_records(layout, seen);
        let younger = seen.filter(is_older).map(|seen| Younger {
            path: layout.root.clone(),
            sequence: end.sequence,
            seen_sequence: seen.end.sequence,
            seen_at: seen.at,
            lost: seen.place.lost().map(|lost| lost.to_string()),
        });
        Ok((Memory { file, root, journal: layout.journal(), store, younger, noted, appended: Mutex::default() }, view))
    }

    pub(crate) fn younger(&self) -> Option<&Younger> {
        self.younger.as_ref()
    }

    /// Takes note of a synced end.
    pub(crate) fn appended(&self, end: &Position) {
        *self.appended.lock().unwrap_or_else(PoisonError::into_inner) = Some(end.clone());
    }

    /// Notes the end of a copy of the store in another folder, where that goes less far than it was seen to.
    pub(crate) fn accept_copy(&self, copy: &Layout, end: &Position) -> Result<()> {
        let folder = self.file.as_deref().and_then(Path::parent);
        let (other, ()) = Memory::open(folder, copy, self.store, || Ok((end.clone(), ())))?;
        if other.younger.is_some() { other.write(end) } else { Ok(()) }
    }

    /// Notes an end, whatever was seen before.
    pub(crate) fn write(&self, end: &Position) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let Ok(place) = Place::of(&self.root) else { return Ok(()) };
        let seen = Observation {
            store: self.store,
            place,
            end: end.clone(),
            at: clock::timestamp().to_string(),
            files: Some(journal_files(&self.journal)),
        };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).ok();
            disk::make_folder(folder)?;
        }
        let under_way = file.with_extension(format!("{}.tmp", OpId::generate()));
        let write = || {
            let mut new = fs::File::options().write(true).create_new(true).mode(0o600).open(&under_way)?;
            new.write_all(&serde_json::to_vec(&seen).unwrap_or_default())?;
            fs::rename(&under_way, file)
        };
        let written: std::io::Result<()> = write();
        written.inspect_err(|_| drop(fs::remove_file(&under_way))).at("write", file)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let appended = self.appended.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(end) = appended.filter(|_| self.younger.is_none()) else { return };
        // Another process may have noted a later end meanwhile, or an earlier one, for an older copy that is the store from now on.
        let known = self.file.as_deref().and_then(read).filter(|seen| seen.store == self.store);
        let was_set_back = known.as_ref().is_some_and(|seen| Some(seen.end.sequence) < self.noted);
        if !was_set_back && known.is_none_or(|seen| seen.end.sequence < end.sequence) {
            // Without a memory, nothing is missed but its warning.
            let _ = self.write(&end);
        }
    }
}

fn read(file: &Path) -> Option<Observation> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// True if a journal that ends here has what was seen of it.
fn goes_on(layout: &Layout, end: &Position, seen: &Position) -> bool {
    match end.sequence {
        sequence if sequence < seen.sequence => false,
        sequence if sequence == seen.sequence => end.hash == seen.hash,
        // The next record is chained to what was seen. What cannot be read for another reason is no proof that it is not.
        _ => !matches!(Journal::of(layout).read_page(seen, 1), Err(Error::Corrupt { .. })),
    }
}

/// True if the journal shows by itself that records of it were lost or damaged since it was seen: it is no older copy, and gc and `check` know
/// of that. An older copy has the damage that was known already.
fn has_lost_records(layout: &Layout, seen: &Observation) -> bool {
    let is_known = |first: &u64| seen.files.as_ref().is_some_and(|files| files.contains(&Journal::segment_name(*first)));
    let is_new = |name: &String| seen.files.as_ref().is_some_and(|files| !files.contains(name));
    // What was seen must be among what is lost: the hint of an older copy may be a little newer than its segments.
    let is_among = |last: u64| last >= seen.end.sequence;
    match Journal::of(layout).read(&Position::start()) {
        Ok(tail) => {
            let is_told = tail.records.iter().any(|logged| {
                let lost = lost_before(&logged.entry);
                lost.is_some_and(|lost| lost.is_none_or(|lost| is_among(logged.sequence - 1 + lost)))
            });
            let is_longer = is_among(tail.end.sequence);
            // A copy that was made in the middle of an append is torn, too, and goes on behind that.
            let has_new_cut = tail.cuts.iter().any(|first| *first <= tail.end.sequence && !is_known(first));
            let has_set_aside =
                || journal_files(&layout.journal()).iter().any(|name| is_set_aside(name.as_bytes()) && is_new(name));
            let missing = tail.missing.max(u64::from(tail.is_doubtful));
            missing > 0 && is_among(tail.end.sequence + missing) || (is_longer || is_told) && (has_new_cut || has_set_aside())
        }
        Err(e) => matches!(e, Error::Corrupt { .. }),
    }
}

/// The number of records that were lost before an event which says so, where it knows that.
fn lost_before(entry: &Entry) -> Option<Option<u64>> {
    match entry {
        Entry::Event(event) if event.kind == kind::JOURNAL_CUT => Some(event.data.get("records").and_then(|lost| lost.as_u64())),
        _ => None,
    }
}

/// Names of the journal's segments, and of those that were set aside.
fn journal_files(journal: &Path) -> BTreeSet<String> {
    let names = files::list(journal).unwrap_or_default();
    let names = names.iter().filter_map(|path| path.file_name()?.to_str());
    names.filter(|name| name.ends_with(SEGMENT) || is_set_aside(name.as_bytes())).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Actor, NewEvent},
        gc,
        store::{OpenOptions, Store},
    };

    /// A store, and the folder in which it is remembered.
    struct Scene {
        folder: tempfile::TempDir,
        options: OpenOptions,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let options = OpenOptions { create: true, memory: Some(folder.path().join("state")), ..OpenOptions::default() };
            Scene { folder, options }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn open(&self) -> Store {
            Store::open(&self.at("store"), &self.options).unwrap()
        }
    }

    /// Appends an event to a store.
    fn commit(store: &Store) {
        store.append_events(&[NewEvent::new("test.noted", "it", Actor::default())], &()).unwrap();
    }

    /// Copies a folder, or replaces one.
    fn copy(from: &Path, to: &Path) {
        let _ = fs::remove_dir_all(to);
        assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    #[test]
    fn nothing_is_removed_from_an_older_copy_in_the_place_of_a_store() {
        let scene = Scene::new();
        let (root, older) = (scene.at("store"), scene.at("older"));
        let (open, commit) = (|| scene.open(), || commit(&scene.open()));
        commit();
        copy(&root, &older);
        assert!(open().younger().is_none());
        commit();
        assert!(open().younger().is_none(), "it has grown");
        let newer = scene.at("newer");
        copy(&root, &newer);
        copy(&older, &root);
        let refused = gc::run(&open(), &Default::default(), &()).unwrap_err();
        assert!(refused.to_string().contains("an older copy seems to be in its place"), "{refused}");
        // It is told from the store also when it has grown as far, and further.
        commit();
        assert!(open().younger().is_some());
        commit();
        commit();
        assert!(open().younger().is_some_and(|younger| younger.to_string().contains("another journal")));
        // At another place it is a copy, of which nothing was seen there.
        assert!(Store::open(&older, &scene.options).unwrap().younger().is_none());
        copy(&newer, &root);
        assert!(open().younger().is_none());
        copy(&older, &root);
        open().accept_older().unwrap();
        assert!(open().younger().is_none());
        gc::run(&open(), &Default::default(), &()).unwrap();
    }

    #[test]
    fn what_others_append_while_a_store_is_opened_does_not_make_it_younger() {
        let scene = Scene::new();
        commit(&scene.open());
        let store = scene.open();
        let (memory, ()) = Memory::open(scene.options.memory.as_deref(), store.layout(), store.config().id, || {
            let end = store.view().end().clone();
            commit(&scene.open());
            Ok((end, ()))
        })
        .unwrap();
        assert!(memory.younger().is_none());
    }

    #[test]
    fn a_hint_that_is_ahead_of_its_segments_excuses_an_older_copy_only_of_what_it_tells() {
        let scene = Scene::new();
        let (root, older) = (scene.at("store"), scene.at("older"));
        let (open, commit) = (|| scene.open(), || commit(&scene.open()));
        commit();
        copy(&root, &older);
        commit();
        // The copy was made while somebody wrote.
        copy(&root.join("journal/synced"), &older.join("journal/synced"));
        // The last record that was seen is among those of which the hint tells: the journal has lost it.
        let newer = scene.at("newer");
        copy(&root, &newer);
        copy(&older, &root);
        assert!(open().view().lacks_records() && open().younger().is_none());
        copy(&newer, &root);
        (0..4).for_each(|_| commit());
        copy(&older, &root);
        assert!(open().younger().is_some());
        // Nor does it once the loss is noted.
        commit();
        assert!(open().younger().is_some());
        assert!(gc::run(&open(), &Default::default(), &()).is_err());
    }

    #[test]
    fn a_handle_that_saw_the_newer_store_does_not_take_back_that_an_older_one_was_accepted() {
        let scene = Scene::new();
        let (root, older) = (scene.at("store"), scene.at("older"));
        let open = || scene.open();
        commit(&open());
        copy(&root, &older);
        commit(&open());
        let held = open();
        commit(&held);
        copy(&older, &root);
        open().accept_older().unwrap();
        drop(held);
        assert!(open().younger().is_none());
    }

    #[test]
    fn what_is_wrong_with_an_older_copy_does_not_excuse_it_once_it_is_gone_on_with() {
        let scene = Scene::new();
        let (root, older) = (scene.at("store"), scene.at("older"));
        let (open, commit) = (|| scene.open(), || commit(&scene.open()));
        commit();
        copy(&root, &older);
        (0..5).for_each(|_| commit());
        // Made in the middle of an append, or repaired by itself.
        let segment = older.join("journal").join(Journal::segment_name(1));
        fs::File::options().append(true).open(&segment).unwrap().write_all(b"torn").unwrap();
        fs::write(segment.with_extension("damaged"), "").unwrap();
        copy(&older, &root);
        assert!(open().younger().is_some());
        commit();
        assert!(open().younger().is_some());
        assert!(gc::run(&open(), &Default::default(), &()).is_err());
    }

    #[test]
    fn damage_that_was_known_already_does_not_excuse_an_older_copy() {
        let scene = Scene::new();
        let (root, older) = (scene.at("store"), scene.at("older"));
        let (open, commit) = (|| scene.open(), || commit(&scene.open()));
        let newest = || Journal::of(open().layout()).segments().unwrap().pop().unwrap();
        let tear = || {
            let path = root.join("journal").join(Journal::segment_name(newest()));
            fs::File::options().append(true).open(path).unwrap().write_all(b"torn").unwrap();
        };
        commit();
        commit();
        tear();
        let torn = scene.at("torn");
        copy(&root, &torn);
        commit();
        copy(&root, &older);
        commit();
        commit();
        let newer = scene.at("newer");
        copy(&root, &newer);
        for copied in [&older, &torn] {
            copy(copied, &root);
            assert!(open().younger().is_some(), "{}", copied.display());
            assert!(gc::run(&open(), &Default::default(), &()).is_err());
        }
        // So is a torn end alone: a copy that was made in the middle of an append has one.
        copy(&newer, &root);
        assert!(open().younger().is_none());
        let path = root.join("journal").join(Journal::segment_name(newest()));
        let length = fs::metadata(&path).unwrap().len();
        fs::File::options().write(true).open(&path).unwrap().set_len(length - 9).unwrap();
        fs::remove_file(root.join("journal/synced")).unwrap();
        fs::remove_dir_all(root.join("view")).unwrap();
        assert!(open().younger().is_some());
        // What is known to be missing, or damaged with whole records behind it, is none of an older copy.
        copy(&newer, &root);
        fs::File::options().write(true).open(&path).unwrap().set_len(length - 9).unwrap();
        fs::remove_dir_all(root.join("view")).unwrap();
        assert!(open().younger().is_none());
    }
}
