//! The local store as what is pushed.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use parhelia_bucket::{
    Error, Result,
    chain::{CommitId, Cursor, Entry},
    layout::MachineId,
    pack::{PackRef, PackSource, WantedPack},
    seal::Content,
    transfer::{Batch, Observer, Source},
};
use parhelia_store::{
    Store,
    exchange::{Outgoing, OutgoingRecord},
    files::{self, How},
    id::PackId,
    journal::Position,
    progress::Progress,
};
use ulid::Ulid;

use crate::{error::local, folder::RemoteFolder};

/// Bytes that are hashed at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A store on its way to a bucket.
pub(crate) struct LocalSource<'a> {
    store: &'a Store,
    folder: &'a RemoteFolder,
    progress: &'a dyn Progress,
    outgoing: Mutex<Outgoing<'a>>,
    /// Where the bucket has packs already.
    sent: Mutex<HashMap<PackId, PackRef>>,
    damaged: Mutex<Vec<Ulid>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pack_of(label: &[u8]) -> Result<PackId> {
    let id = label.try_into().map_err(|_| Error::Invalid(format!("a pack has a name of {} bytes, and not of 16", label.len())));
    id.map(PackId)
}

impl<'a> LocalSource<'a> {
    pub(crate) fn open(
        store: &'a Store,
        folder: &'a RemoteFolder,
        remote: &str,
        progress: &'a dyn Progress,
    ) -> crate::Result<Self> {
        let (outgoing, sent) = (Mutex::new(Outgoing::open(store, remote)?), Mutex::new(folder.sent()?));
        Ok(LocalSource { store, folder, progress, outgoing, sent, damaged: Mutex::default() })
    }

    /// The place in the journal behind a record.
    pub(crate) fn place(&self, sequence: u64) -> crate::Result<Position> {
        Ok(lock(&self.outgoing).place(sequence)?)
    }

    /// True if the journal goes on from a place.
    pub(crate) fn goes_on_from(&self, place: &Position) -> crate::Result<bool> {
        Ok(lock(&self.outgoing).goes_on_from(place)?)
    }

    /// True if the journal has a record of this sequence.
    pub(crate) fn reaches(&self, sequence: u64) -> crate::Result<bool> {
        Ok(self.store.refresh()?.end().sequence >= sequence)
    }

    /// Checkpoints that were pushed without damaged parts of theirs.
    pub(crate) fn damaged(&self) -> Vec<Ulid> {
        lock(&self.damaged).clone()
    }

    fn wanted(&self, pack: PackId, content_bytes: u64) -> Result<WantedPack> {
        if let Some(there) = lock(&self.sent).get(&pack) {
            let (label, digest, content_bytes) = (there.label.clone(), there.digest, there.content_bytes);
            return Ok(WantedPack { label, digest, content_bytes, there: Some(there.clone()) });
        }
        Ok(WantedPack { label: pack.0.to_vec(), digest: self.digest(pack)?, content_bytes, there: None })
    }

    fn opened(&self, pack: PackId) -> Result<PackContent> {
        let path = self.store.layout().pack(pack);
        let open = files::open(&path, How::Read).and_then(|file| Ok(PackContent { bytes: file.metadata()?.len(), file }));
        open.map_err(|source| local(parhelia_store::Error::Io { action: "read pack", path, source }))
    }

    fn digest(&self, pack: PackId) -> Result<[u8; 32]> {
        let content = self.opened(pack)?;
        let (mut hasher, mut piece, mut at) = (blake3::Hasher::new(), vec![0; PIECE_BYTES], 0);
        while at < content.bytes {
            let wanted = usize::try_from(content.bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            content.read_at(at, &mut piece[..wanted])?;
            hasher.update(&piece[..wanted]);
            at += wanted as u64;
        }
        Ok(*hasher.finalize().as_bytes())
    }

    fn entry(&self, record: OutgoingRecord) -> Result<Entry> {
        Ok(match record {
            OutgoingRecord::Commit { id, sealed, packs } => {
                let packs = packs.into_iter().map(|(pack, bytes)| self.wanted(pack, bytes)).collect::<Result<_>>()?;
                Entry::Commit { id: CommitId(id.to_bytes()), body: sealed.into_bytes(), packs }
            }
            OutgoingRecord::Event(body) => Entry::Event(body),
            OutgoingRecord::Deletion { checkpoint, at } => {
                let at_ms = u64::try_from(at.as_millisecond()).unwrap_or(0);
                Entry::Deletion { commit: CommitId(checkpoint.to_bytes()), at_ms }
            }
            OutgoingRecord::Fetched(heads) => {
                let heads = heads.into_iter().filter_map(|(machine, number)| Some((MachineId::parse(&machine)?, number)));
                Entry::Seen(heads.collect())
            }
        })
    }
}

/// A pack's file.
struct PackContent {
    file: File,
    bytes: u64,
}

impl Content for PackContent {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|e| Error::Local(Box::new(io::Error::new(e.kind(), format!("cannot read pack: {e}")))))
    }
}

impl PackSource for LocalSource<'_> {
    fn open(&self, label: &[u8]) -> Result<Box<dyn Content + Send + Sync>> {
        Ok(Box::new(self.opened(pack_of(label)?)?))
    }

    /// The pack itself, where the store still has it. Else gc has moved what was in it, and every pack of the store is given: what a checkpoint needs
    /// is among them.
    fn replace(&self, lost: &PackRef) -> Result<Vec<WantedPack>> {
        let outgoing = lock(&self.outgoing);
        let pack = pack_of(&lost.label)?;
        lock(&self.sent).retain(|_, there| there.key != lost.key);
        let packs = match outgoing.has_pack(pack).map_err(local)? {
            true => vec![(pack, lost.content_bytes)],
            false => outgoing.all_packs().map_err(local)?,
        };
        packs.into_iter().map(|(pack, bytes)| self.wanted(pack, bytes)).collect()
    }
}

impl Source for LocalSource<'_> {
    fn behind(&self, cursor: Cursor, bytes_max: usize) -> Result<Batch> {
        let mut at = cursor;
        loop {
            let batch = lock(&self.outgoing).behind(at, bytes_max, self.progress).map_err(local)?;
            let is_over = batch.sequence == at;
            at = batch.sequence;
            lock(&self.damaged).extend(batch.damaged);
            // Upkeep alone is passed over.
            if is_over || !batch.records.is_empty() {
                let entries = batch.records.into_iter().map(|record| self.entry(record)).collect::<Result<_>>()?;
                return Ok(Batch { entries, cursor: at });
            }
        }
    }
}

impl Observer for LocalSource<'_> {
    /// Notes where packs are now. That it cannot be noted costs an upload.
    fn pushed(&self, pushed: &parhelia_bucket::chain::Pushed) {
        let mut sent = lock(&self.sent);
        let new =
            |there: &&PackRef| pack_of(&there.label).is_ok_and(|pack| sent.get(&pack).is_none_or(|known| known.key != there.key));
        let named: Vec<(PackId, &PackRef)> =
            pushed.named.iter().filter(new).filter_map(|there| Some((pack_of(&there.label).ok()?, there))).collect();
        let bytes = named.iter().map(|(_, there)| there.content_bytes).sum();
        if let Err(e) = self.folder.note_sent(named.iter().copied()) {
            self.progress.notice(&e.to_string());
        }
        sent.extend(named.into_iter().map(|(pack, there)| (pack, there.clone())));
        self.progress.advance(pushed.packs, bytes);
    }
}
