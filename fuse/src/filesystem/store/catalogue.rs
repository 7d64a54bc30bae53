//! The lists of a mounted store: sessions, their checkpoints, dates and tags, as of one state of the store.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parhelia_ledger::LedgerView as _;
use parhelia_store::{Result, clock, record::Checkpoint, view::View as StoreState};
use ulid::Ulid;

use crate::filesystem::{
    Invalidation,
    store::{file_name::file_name, inode::Inode, numbers::Numbers, tags::Tags},
};

/// The name of a session's link to its newest checkpoint.
pub const LATEST: &[u8] = b"latest";

/// A session's checkpoints.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its number among the virtual folders.
    pub number: u64,
    /// Numbers of its checkpoints, ascending: in order of commit, but for what took the sequence of another.
    pub checkpoints: Vec<u64>,
    /// The newest that is neither fenced nor a safety checkpoint.
    pub latest: Option<u64>,
}

/// The lists, as of one state of the store.
pub struct Catalogue {
    state: Arc<StoreState>,
    /// The time at which the state was taken in.
    made_at: SystemTime,
    /// Since when folders have the list that they had in an earlier state, too.
    unchanged_since: HashMap<Inode, SystemTime>,
    /// The index of a checkpoint in the state's list, by number.
    by_number: BTreeMap<u64, usize>,
    by_id: HashMap<Ulid, u64>,
    /// Sessions, by the name of their folder.
    pub sessions: BTreeMap<Vec<u8>, Session>,
    /// Names of session folders, by number.
    pub session_names: BTreeMap<u64, Vec<u8>>,
    /// Names under `by-date`, by number, which is their order.
    pub dates: BTreeMap<u64, Vec<u8>>,
    /// The folders and links under `by-tag`.
    pub tags: Tags,
}

impl Catalogue {
    /// Lists what a state of the store holds. Folders that have the same list as before keep their time.
    pub fn new(state: Arc<StoreState>, before: Option<&Catalogue>, numbers: &mut Numbers) -> Result<Self> {
        // Two changes in one tick of the clock are still two.
        let after = before.map_or(SystemTime::UNIX_EPOCH, |before| before.made_at + Duration::from_nanos(1));
        let mut catalogue = Catalogue {
            state: state.clone(),
            made_at: SystemTime::from(clock::timestamp()).max(after),
            unchanged_since: HashMap::new(),
            by_number: BTreeMap::new(),
            by_id: HashMap::new(),
            sessions: BTreeMap::new(),
            session_names: BTreeMap::new(),
            dates: BTreeMap::new(),
            tags: Tags::new(BTreeMap::new(), |_| None, numbers),
        };
        for (index, checkpoint) in state.checkpoints()?.iter().enumerate() {
            let record = &checkpoint.record;
            let Some(number) = numbers.checkpoint(checkpoint.sequence, record.id) else { continue };
            catalogue.by_number.insert(number, index);
            catalogue.by_id.insert(record.id, number);
            let session_number = numbers.session(&record.session);
            let folder = file_name(&record.session);
            catalogue.session_names.insert(session_number, folder.clone());
            let new = || Session { number: session_number, ..Session::default() };
            let session = catalogue.sessions.entry(folder).or_insert_with(new);
            session.checkpoints.push(number);
            session.latest = if record.may_be_latest() { Some(number) } else { session.latest };
            let date = record.created_at.strftime("%Y-%m-%dT%H%M%SZ");
            catalogue.dates.insert(number, format!("{date}-{}", record.id).into_bytes());
        }
        for session in catalogue.sessions.values_mut() {
            session.checkpoints.sort_unstable();
        }
        // Of several checkpoints with one tag the link shows the newest.
        let newest = |ids: &BTreeSet<Ulid>| {
            let numbers = ids.iter().filter_map(|id| catalogue.by_id.get(id));
            numbers.max_by_key(|number| catalogue.by_number.get(number)).copied()
        };
        catalogue.tags = Tags::new(state.tags()?, newest, numbers);
        if let Some(before) = before {
            let same = before.folders().filter(|folder| catalogue.has_same_list(before, *folder));
            catalogue.unchanged_since = same.map(|folder| (folder, before.changed_at(folder))).collect();
        }
        Ok(catalogue)
    }

    /// The folders above the checkpoints.
    fn folders(&self) -> impl Iterator<Item = Inode> {
        let sessions = self.session_names.keys().map(|number| Inode::Session(*number));
        let tags = self.tags.folders.keys().map(|number| Inode::TagFolder(*number));
        [Inode::Root, Inode::Sessions, Inode::ByDate].into_iter().chain(sessions).chain(tags)
    }

    fn session(&self, number: u64) -> Option<&Session> {
        self.sessions.get(self.session_names.get(&number)?)
    }

    fn has_same_list(&self, before: &Catalogue, folder: Inode) -> bool {
        match folder {
            Inode::Root => true,
            Inode::Sessions => self.session_names == before.session_names,
            Inode::ByDate => self.dates == before.dates,
            Inode::TagFolder(number) => self.tags.folders.get(&number) == before.tags.folders.get(&number),
            Inode::Session(number) => self.session(number) == before.session(number),
            _ => false,
        }
    }

    /// Since when a folder above the checkpoints has its list. The kernel reads the list anew when that time is another.
    pub fn changed_at(&self, folder: Inode) -> SystemTime {
        self.unchanged_since.get(&folder).copied().unwrap_or(self.made_at)
    }

    /// Everything that the kernel may have been told of an earlier state and that is not so in this one.
    pub fn outdated(&self, before: &Catalogue) -> Vec<Invalidation> {
        let mut outdated = Vec::new();
        let mut name = |folder: Inode, name: &[u8]| outdated.push(Invalidation::Name(folder.number(), name.to_vec()));
        for (session_name, was) in &before.sessions {
            let folder = Inode::Session(was.number);
            let Some(is) = self.sessions.get(session_name) else {
                name(Inode::Sessions, session_name);
                continue;
            };
            if is.latest != was.latest {
                name(folder, LATEST);
            }
        }
        for (number, index) in before.by_number.iter().filter(|(number, _)| !self.by_number.contains_key(number)) {
            let Some(checkpoint) = before.at(*index) else { continue };
            if let Some(session) = before.sessions.get(&file_name(&checkpoint.record.session)) {
                name(Inode::Session(session.number), checkpoint.id().as_bytes());
            }
            if let Some(date) = before.dates.get(number) {
                name(Inode::ByDate, date);
            }
        }
        for (number, was) in &before.tags.folders {
            let is = self.tags.folders.get(number);
            for (entry, _) in was.entries.iter().filter(|(entry, was)| is.and_then(|is| is.entries.get(*entry)) != Some(was)) {
                name(Inode::TagFolder(*number), entry);
            }
        }
        let changed = before.folders().filter(|folder| !self.has_same_list(before, *folder));
        let gone = before.by_number.keys().filter(|number| !self.by_number.contains_key(number));
        let folders = changed.chain(gone.map(|number| Inode::Entry(*number, 0)));
        outdated.extend(folders.map(|folder| Invalidation::Inode(folder.number())));
        outdated
    }

    fn at(&self, index: usize) -> Option<&Checkpoint> {
        self.state.checkpoints().ok()?.get(index)
    }

    /// True if it lists this very state.
    pub fn is_of(&self, state: &Arc<StoreState>) -> bool {
        Arc::ptr_eq(&self.state, state)
    }

    /// The checkpoint of a number.
    pub fn checkpoint(&self, number: u64) -> Option<&Checkpoint> {
        self.by_number.get(&number).and_then(|index| self.at(*index))
    }

    /// The checkpoint of an id, as a session's folder names it, with its number.
    pub fn named(&self, name: &[u8]) -> Option<(u64, &Checkpoint)> {
        let id: Ulid = std::str::from_utf8(name).ok()?.parse().ok()?;
        let number = *self.by_id.get(&id)?;
        let checkpoint = self.checkpoint(number)?;
        // Ids can be spelled in more ways than one; a file has one name.
        (checkpoint.id().as_bytes() == name).then_some((number, checkpoint))
    }

    /// The number of checkpoints.
    pub fn count(&self) -> usize {
        self.by_number.len()
    }

    /// The number under `by-date` of this name.
    pub fn dated(&self, name: &[u8]) -> Option<u64> {
        let id: Ulid = std::str::from_utf8(name.get(name.len().checked_sub(26)?..)?).ok()?.parse().ok()?;
        let number = *self.by_id.get(&id)?;
        (self.dates.get(&number).map(Vec::as_slice) == Some(name)).then_some(number)
    }

    /// Sums over the workspaces of all checkpoints.
    pub fn sums(&self) -> (u64, u64) {
        let all = self.state.checkpoints().unwrap_or_default();
        all.iter().fold((0, 0), |(bytes, entries), c| {
            let w = &c.record.workspace;
            (u64::saturating_add(bytes, w.bytes), u64::saturating_add(entries, w.entries))
        })
    }
}
