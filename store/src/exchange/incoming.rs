//! What another machine has recorded, on its way into the store: packs first, then records, all under that machine's name.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsStr,
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::Serialize;

use super::verify;
use crate::{
    disk,
    error::{Error, IoContext, Result},
    event::{Event, kind},
    files::{self, Folder},
    id::{PackId, Ulid},
    journal::{Entry, Journal, read_event},
    pack::{PackFile, PackInfo},
    pin::Pin,
    progress::{self, Progress},
    record::{self, Unreadable},
    store::Store,
};

/// Ending of the name of a pack in `cache/` that no record names yet.
const TAKEN: &str = ".taken";
/// Records that are appended at a time.
const RECORDS_MAX: usize = 500;

/// Count of what was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TakenIn {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Events.
    pub events: u64,
    /// Packs.
    pub packs: u64,
    /// Length of the packs, in bytes.
    pub pack_bytes: u64,
}

/// The way into a store, from the store of one remote.
pub struct Incoming<'a> {
    store: &'a Store,
    remote: String,
    pin: Pin,
    /// Machines that were this one in an earlier life.
    own: HashSet<String>,
    /// Of each machine, the number of the last segment that was taken in.
    heads: BTreeMap<String, u64>,
    /// Ids of all events that the journal has, this machine's own as well.
    taken_events: HashSet<Ulid>,
    /// Checkpoints that were deleted here.
    deleted: HashSet<Ulid>,
    /// The machines that made the checkpoints which came from a remote.
    makers: HashMap<Ulid, String>,
    /// The names here of packs that were taken in.
    renamed: HashMap<PackId, PackId>,
    /// Packs in `cache/`, by the names that they have where they come from.
    packs: BTreeMap<PackId, PackInfo>,
    next_pack: u32,
    entries: Vec<Entry>,
    new: HashSet<Ulid>,
    taken: TakenIn,
}

impl<'a> Incoming<'a> {
    /// Opens it, for the remote's store of this id, in hex.
    pub fn open(store: &'a Store, remote: &str, progress: &dyn Progress) -> Result<Self> {
        store.check_writable()?;
        let pin = Pin::take(&store.layout().pins(), true, "fetch")?;
        let mut incoming = Incoming {
            store,
            remote: remote.to_owned(),
            pin,
            own: HashSet::new(),
            heads: BTreeMap::new(),
            taken_events: HashSet::new(),
            deleted: HashSet::new(),
            makers: HashMap::new(),
            renamed: HashMap::new(),
            packs: BTreeMap::new(),
            next_pack: 0,
            entries: Vec::new(),
            new: HashSet::new(),
            taken: TakenIn::default(),
        };
        incoming.read_journal()?;
        incoming.find_taken(progress)?;
        Ok(incoming)
    }

    /// Notes what the journal has: which events, what was deleted, and what was taken in before.
    fn read_journal(&mut self) -> Result<()> {
        let (remote, mut heads) = (self.remote.clone(), BTreeMap::new());
        Journal::of(self.store.layout()).look_after(0, |raw| {
            // Of most events no more is needed than their ids.
            if raw.event().is_some_and(|head| head.kind != kind::CHECKPOINT_DELETED) {
                self.taken_events.extend(event_id(raw.body));
                return Ok(());
            }
            let entry = raw.decode()?.entry;
            if let Some((event, _)) = entry.any_event() {
                self.taken_events.insert(event.id);
            }
            if let Some((event, _)) = entry.told_event().filter(|(event, _)| event.kind == kind::CHECKPOINT_DELETED) {
                self.deleted.extend(event.subject.parse::<Ulid>());
            }
            match entry {
                Entry::Fetched { remote: of, heads: found, renamed } => {
                    self.renamed.extend(renamed);
                    if of == remote {
                        heads = found;
                    }
                }
                Entry::Commit { record, machine: Some(machine), .. } => {
                    self.makers.extend(Unreadable::told_id(&record).map(|id| (id, machine)));
                }
                _ => {}
            }
            Ok(())
        })?;
        self.heads = heads;
        Ok(())
    }

    /// Finds packs that an interrupted run has taken in.
    fn find_taken(&mut self, progress: &dyn Progress) -> Result<()> {
        let cache = self.store.layout().cache();
        for path in files::list(&cache).at("read folder", &cache)? {
            progress::check(progress)?;
            let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(TAKEN));
            let Some(pack) = name.and_then(PackId::from_hex) else { continue };
            match self.info(pack) {
                Ok(info) => _ = self.packs.insert(pack, info),
                Err(e) if e.is_damage() => files::remove(&path).at("remove", &path)?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn taken_path(&self, pack: PackId) -> PathBuf {
        self.store.layout().cache().join(format!("{pack}{TAKEN}"))
    }

    /// Looks through a pack in `cache/`: its directories and the checksums of all blocks.
    fn info(&self, pack: PackId) -> Result<PackInfo> {
        PackFile::at(self.store.layout(), pack, &self.taken_path(pack))?.checked()?.scan_blocks(true, |_, _| Ok(()))
    }

    /// Takes what a machine has recorded for this machine's own: it was this one before its store was lost.
    pub fn take_over(&mut self, machine: &str) {
        self.own.insert(machine.to_owned());
    }

    /// Of each machine, the number of the last segment that was taken in.
    pub fn heads(&self) -> &BTreeMap<String, u64> {
        &self.heads
    }

    /// True if the store has a checkpoint, or had it.
    pub fn has_checkpoint(&self, id: Ulid) -> Result<bool> {
        Ok(self.new.contains(&id) || self.deleted.contains(&id) || self.store.view().sequence(id)?.is_some())
    }

    /// True if the store has a pack of this length, under whatever name.
    pub fn has_pack(&self, pack: PackId, bytes: u64) -> Result<bool> {
        if let Some(info) = self.packs.get(&pack) {
            return Ok(info.bytes == bytes);
        }
        let name = self.name_of(pack);
        let has_file = || std::fs::symlink_metadata(self.store.layout().pack(name)).is_ok_and(|found| found.len() == bytes);
        Ok(self.store.view().lost(&[name].into())?.is_empty() && has_file())
    }

    /// The name that a pack has here, once it is taken in.
    pub fn name_of(&self, pack: PackId) -> PackId {
        self.renamed.get(&pack).copied().unwrap_or(pack)
    }

    /// Takes a pack in, durably, once all of it was looked through.
    pub fn take_pack(&mut self, pack: PackId, content: &[u8]) -> Result<()> {
        let (cache, path) = (self.store.layout().cache(), self.taken_path(pack));
        let part = format!("{pack}{TAKEN}.tmp");
        let folder = Folder::below(&cache).at("open folder", &cache)?;
        folder.write_synced(part.as_ref(), content, false).at("write pack", &path)?;
        files::rename(&cache.join(&part), &path).at("rename to", &path)?;
        let info = self.info(pack)?;
        self.packs.insert(pack, info);
        self.taken.packs += 1;
        self.taken.pack_bytes += content.len() as u64;
        Ok(())
    }

    /// Takes a checkpoint in, unless it is there. Its packs were taken in before.
    pub fn take_commit(&mut self, machine: &str, id: Ulid, sealed: String) -> Result<()> {
        if sealed.starts_with('@') || Unreadable::told_id(&sealed) != Some(id) {
            let (what, place) = (format!("the record of checkpoint {id}"), machine.into());
            return Err(Error::Corrupt { what, place, reason: "it is another one's".into() });
        }
        if self.has_checkpoint(id)? {
            return Ok(());
        }
        let (op, is_own) = (self.pin.op, self.own.contains(machine));
        let record = if is_own { sealed } else { record::of_machine(machine, &sealed) };
        self.makers.insert(id, machine.to_owned());
        self.entries.push(Entry::Commit { op, record, packs: Vec::new(), machine: Some(machine.to_owned()), is_own });
        self.new.insert(id);
        self.taken.checkpoints += 1;
        Ok(())
    }

    /// Takes an event in, unless it is there: the body of that machine's journal record.
    pub fn take_event(&mut self, machine: &str, body: &[u8]) -> Result<()> {
        let malformed = || Error::Corrupt { what: "an event".into(), place: machine.into(), reason: "it is not UTF-8".into() };
        let event = str::from_utf8(body).map_err(|_| malformed())?.to_owned();
        let read = read_event(body);
        if read.as_ref().is_some_and(|event| !self.taken_events.insert(event.id)) {
            return Ok(());
        }
        let (is_own, is_void) = (self.own.contains(machine), !read.is_some_and(|event| self.may_tell(machine, &event)));
        self.entries.push(Entry::RemoteEvent { machine: machine.to_owned(), event, is_own, is_void });
        self.taken.events += 1;
        Ok(())
    }

    /// Decodes everything in the packs, and checks it against its ids: what a pack has would be found in place of what the store has.
    fn verify_packs(&mut self, progress: &dyn Progress) -> Result<()> {
        let packs: Vec<(PackId, PathBuf)> = self.packs.keys().map(|pack| (*pack, self.taken_path(*pack))).collect();
        let bad = verify::first_bad(self.store, &packs, progress)?;
        let Some((pack, fault)) = bad else { return Ok(()) };
        let path = self.taken_path(pack);
        files::remove(&path).at("remove", &path)?;
        self.packs.remove(&pack);
        Err(fault)
    }

    /// True if an event is about what its machine has made itself. Nobody decides about, marks or deletes another machine's checkpoints here.
    fn may_tell(&self, machine: &str, event: &Event) -> bool {
        if !event.kind.starts_with("checkpoint.") {
            return true;
        }
        let Ok(id) = event.subject.parse::<Ulid>() else { return false };
        match self.makers.get(&id) {
            Some(maker) => maker == machine,
            // One that nobody here has heard of, and not one of this machine's own.
            None => self.store.view().sequence(id).is_ok_and(|known| known.is_none()) && !self.deleted.contains(&id),
        }
    }

    /// Makes everything that was taken in part of the store, and notes that all up to these heads is. Without anything new, nothing is recorded.
    pub fn finish(&mut self, heads: &BTreeMap<String, u64>, progress: &dyn Progress) -> Result<TakenIn> {
        let taken = std::mem::take(&mut self.taken);
        if self.entries.is_empty() && self.packs.is_empty() && *heads == self.heads {
            return Ok(taken);
        }
        let (store, remote) = (self.store, self.remote.clone());
        self.verify_packs(progress)?;
        let lock = store.lock(progress)?;
        let (view, _) = store.latest(&lock)?;
        if !self.pin.is_held() {
            // Somebody has deleted it, and gc may have taken what it protects.
            return Err(Error::Overtaken { tries: 1 });
        }
        let (infos, renamed) = self.place_packs()?;
        let mut entries = std::mem::take(&mut self.entries);
        // Packs are named by the first checkpoint: nothing before it needs them.
        let commit = entries.iter_mut().find_map(|entry| match entry {
            Entry::Commit { packs, .. } => Some(packs),
            _ => None,
        });
        match commit {
            _ if infos.is_empty() => {}
            Some(packs) => *packs = infos,
            None => {
                let (op, condemned, waits_for) = (self.pin.op, Vec::new(), Vec::new());
                entries.insert(0, Entry::Condemn { op, added: infos, condemned, waits_for });
            }
        }
        entries.push(Entry::Fetched { remote, heads: heads.clone(), renamed: renamed.clone() });
        let mut end = view.end().clone();
        for entries in entries.chunks(RECORDS_MAX) {
            end = store.append(&lock, entries)?;
        }
        drop(lock);
        self.heads.clone_from(heads);
        self.renamed.extend(renamed);
        store.catch_up("what was fetched is recorded", &end, &HashMap::new(), progress);
        store.refresh()?;
        Ok(taken)
    }

    /// Moves the packs to where the store's are, under names of this operation: its pin shows that nothing has committed them yet, and names that gc
    /// has used up do not come back.
    fn place_packs(&mut self) -> Result<(Vec<PackInfo>, BTreeMap<PackId, PackId>)> {
        let (mut infos, mut renamed) = (Vec::new(), BTreeMap::new());
        for (pack, mut info) in std::mem::take(&mut self.packs) {
            info.id = PackId::new(self.pin.op, self.next_pack);
            self.next_pack += 1;
            renamed.insert(pack, info.id);
            let path = self.taken_path(pack);
            files::rename(&path, &self.store.layout().pack(info.id)).at("rename", &path)?;
            infos.push(info);
        }
        if !infos.is_empty() {
            disk::sync_folder(&self.store.layout().packs())?;
        }
        Ok((infos, renamed))
    }
}

/// The id of an event in the body of a journal record.
fn event_id(body: &[u8]) -> Option<Ulid> {
    #[derive(serde::Deserialize)]
    struct IdField {
        id: Ulid,
    }
    serde_json::from_slice(body).ok().map(|IdField { id }| id)
}
