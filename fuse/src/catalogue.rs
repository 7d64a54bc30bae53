//! What the store's view lists: sessions, their checkpoints, dates and tags, as of one state of the store.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::SystemTime,
};

use parhelia_store::{Result, id::BlobId, name, record::Checkpoint, view::View as StoreState};
use ulid::Ulid;

use crate::inode;

/// A session's checkpoints.
#[derive(Debug, Default)]
pub struct Session {
    /// Its number among the virtual folders.
    pub number: u64,
    /// Sequences of its checkpoints, in order of commit.
    pub checkpoints: Vec<u64>,
    /// The newest that is not fenced.
    pub latest: Option<u64>,
}

/// The lists, as of one state of the store.
pub struct Catalogue {
    state: Arc<StoreState>,
    /// When the state was taken in: the time that every virtual folder shows, so that the kernel drops what it remembers of them.
    pub changed_at: SystemTime,
    /// Where in the state's list a checkpoint is, by sequence.
    by_sequence: BTreeMap<u64, usize>,
    by_id: HashMap<Ulid, u64>,
    /// Sessions, by the name of their folder.
    pub sessions: BTreeMap<Vec<u8>, Session>,
    /// Names of session folders, by number.
    pub session_names: BTreeMap<u64, Vec<u8>>,
    /// Names under `by-date`, by sequence, which is their order.
    pub dates: BTreeMap<u64, Vec<u8>>,
    /// Names under `by-tag`, and what they point to.
    pub tags: BTreeMap<Vec<u8>, u64>,
}

/// Numbers that sessions keep as long as the mount lives.
pub type SessionNumbers = HashMap<String, u64>;

impl Catalogue {
    /// Lists what a state of the store holds.
    pub fn new(state: Arc<StoreState>, changed_at: SystemTime, numbers: &mut SessionNumbers) -> Result<Self> {
        let mut catalogue = Catalogue {
            state: state.clone(),
            changed_at,
            by_sequence: BTreeMap::new(),
            by_id: HashMap::new(),
            sessions: BTreeMap::new(),
            session_names: BTreeMap::new(),
            dates: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        for (index, checkpoint) in state.checkpoints()?.iter().enumerate() {
            let (sequence, record) = (checkpoint.sequence, &checkpoint.record);
            if sequence > inode::CHECKPOINT_MAX {
                continue;
            }
            catalogue.by_sequence.insert(sequence, index);
            catalogue.by_id.insert(record.id, sequence);
            let next = numbers.len() as u64;
            let number = *numbers.entry(record.session.clone()).or_insert(next);
            let folder = file_name(&record.session);
            catalogue.session_names.insert(number, folder.clone());
            let session = catalogue.sessions.entry(folder).or_insert_with(|| Session { number, ..Session::default() });
            session.checkpoints.push(sequence);
            session.latest = if record.fenced { session.latest } else { Some(sequence) };
            let date = record.created_at.strftime("%Y-%m-%dT%H%M%SZ");
            catalogue.dates.insert(sequence, format!("{date}-{}", record.id).into_bytes());
        }
        for (id, marks) in state.all_marks()? {
            let Some(sequence) = catalogue.by_id.get(&id) else { continue };
            for tag in &marks.tags {
                // Of several checkpoints with one tag the link shows the newest.
                let newest = catalogue.tags.entry(file_name(tag)).or_insert(*sequence);
                *newest = (*newest).max(*sequence);
            }
        }
        Ok(catalogue)
    }

    /// Whether it lists this very state.
    pub fn is_of(&self, state: &Arc<StoreState>) -> bool {
        Arc::ptr_eq(&self.state, state)
    }

    /// The checkpoint of a sequence.
    pub fn checkpoint(&self, sequence: u64) -> Option<&Checkpoint> {
        self.by_sequence.get(&sequence).and_then(|index| self.state.checkpoints().ok()?.get(*index))
    }

    /// The checkpoint of an id, as a session's folder names it.
    pub fn named(&self, name: &[u8]) -> Option<&Checkpoint> {
        let id: Ulid = std::str::from_utf8(name).ok()?.parse().ok()?;
        let checkpoint = self.checkpoint(*self.by_id.get(&id)?)?;
        // Ids can be spelled in more ways than one; a file has one name.
        (checkpoint.id().as_bytes() == name).then_some(checkpoint)
    }

    /// All checkpoints, in order of commit.
    pub fn sequences(&self) -> impl Iterator<Item = u64> {
        self.by_sequence.keys().copied()
    }

    /// The number under `by-date` of this name.
    pub fn dated(&self, name: &[u8]) -> Option<u64> {
        let id: Ulid = std::str::from_utf8(name.get(name.len().checked_sub(26)?..)?).ok()?.parse().ok()?;
        let sequence = *self.by_id.get(&id)?;
        (self.dates.get(&sequence).map(Vec::as_slice) == Some(name)).then_some(sequence)
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

/// A name as one component of a path: `%` and `/` are escaped, and so is what the name must not be.
pub fn file_name(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'%' | b'/' | 0 => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    match out.as_slice() {
        b"" => out.push(b'%'),
        b"." => out = b"%2E".to_vec(),
        b".." => out = b"%2E%2E".to_vec(),
        _ => {}
    }
    if !name::is_valid(&out) {
        // Too long: what is cut off is told by its hash.
        let hash = format!("%{}", &BlobId::of(text.as_bytes()).to_string()[..16]);
        out.truncate(255 - hash.len());
        out.extend_from_slice(hash.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_names_become_distinct_valid_file_names() {
        let long = "x".repeat(300);
        let longer = "x".repeat(301);
        let names = ["", ".", "..", "a/b", "a%2Fb", "plain", "%", &long, &longer];
        let files: Vec<_> = names.iter().map(|n| file_name(n)).collect();
        for (i, file) in files.iter().enumerate() {
            assert!(name::is_valid(file), "{file:?}");
            assert!(files[i + 1..].iter().all(|other| other != file), "{file:?}");
        }
        assert_eq!(file_name("plain"), b"plain");
    }
}
