//! The local store as what a bucket is taken into.

use std::collections::{BTreeMap, HashMap};

use parhelia_bucket::{
    Error, Result,
    chain::{CommitId, Record},
    layout::MachineId,
    pack::PackRef,
    transfer::Target,
};
use parhelia_store::{
    exchange::{Incoming, TakenIn},
    id::PackId,
    progress::Progress,
};
use ulid::Ulid;

use crate::{error::local, folder::RemoteFolder};

/// A store on the receiving end.
pub(crate) struct LocalTarget<'a> {
    pub(crate) incoming: Incoming<'a>,
    folder: &'a RemoteFolder,
    progress: &'a dyn Progress,
    /// This machine, in the bucket: what it has recorded itself is not taken in.
    own: Option<MachineId>,
    /// Packs that are taken in, by their names in the bucket.
    packs: HashMap<PackId, PackRef>,
    pub(crate) taken: TakenIn,
    /// True if a bucket is taken as it is, also where it had more before.
    pub(crate) accepts_older: bool,
}

fn pack_of(pack: &PackRef) -> Result<PackId> {
    let id = <[u8; 16]>::try_from(&*pack.label);
    id.map(PackId)
        .map_err(|_| Error::Invalid(format!("a pack of the bucket has a name of {} bytes, and not of 16", pack.label.len())))
}

fn checkpoint_of(id: &CommitId) -> Ulid {
    Ulid::from_bytes(id.0)
}

impl<'a> LocalTarget<'a> {
    pub(crate) fn new(
        incoming: Incoming<'a>,
        folder: &'a RemoteFolder,
        own: Option<MachineId>,
        progress: &'a dyn Progress,
    ) -> Self {
        LocalTarget { incoming, folder, progress, own, packs: HashMap::new(), taken: TakenIn::default(), accepts_older: false }
    }
}

impl Target for LocalTarget<'_> {
    fn heads(&self) -> Result<BTreeMap<MachineId, u64>> {
        // What is read once more is known by its ids.
        let heads = self.incoming.heads().iter().filter(|_| !self.accepts_older);
        Ok(heads.filter_map(|(machine, number)| Some((MachineId::parse(machine)?, *number))).collect())
    }

    fn needs_packs_of(&self, commit: &CommitId) -> Result<bool> {
        Ok(!self.incoming.has_checkpoint(checkpoint_of(commit)).map_err(local)?)
    }

    fn has_pack(&self, pack: &PackRef) -> Result<bool> {
        self.incoming.has_pack(pack_of(pack)?, pack.content_bytes).map_err(local)
    }

    fn take_pack(&mut self, pack: &PackRef, content: Vec<u8>) -> Result<()> {
        let name = pack_of(pack)?;
        self.incoming.take_pack(name, &content).map_err(local)?;
        self.packs.insert(name, pack.clone());
        self.progress.advance(1, content.len() as u64);
        Ok(())
    }

    fn take_record(&mut self, machine: MachineId, record: &Record) -> Result<()> {
        if self.own == Some(machine) {
            return Ok(());
        }
        let machine = machine.to_string();
        match record {
            Record::Commit(commit) => {
                let id = checkpoint_of(&commit.id);
                let sealed = String::from_utf8(commit.body.clone());
                let sealed = sealed.map_err(|_| Error::Invalid(format!("the record of checkpoint {id} is not UTF-8")))?;
                self.incoming.take_commit(&machine, id, sealed).map_err(local)
            }
            Record::Event(body) => self.incoming.take_event(&machine, body).map_err(local),
            // The event of a deletion is beside it.
            Record::Deletion { .. } | Record::Seen(_) | Record::Other { .. } => Ok(()),
        }
    }

    fn note(&mut self, heads: &[(MachineId, u64)]) -> Result<()> {
        let heads = heads.iter().map(|(machine, number)| (machine.to_string(), *number)).collect();
        self.taken = self.incoming.finish(&heads, self.progress).map_err(local)?;
        let packs = std::mem::take(&mut self.packs);
        let local_names = packs.iter().map(|(name, there)| (self.incoming.name_of(*name), there));
        // What is not noted is uploaded, should it ever be needed.
        if let Err(e) = self.folder.note_sent(local_names) {
            self.progress.notice(&e.to_string());
        }
        Ok(())
    }
}
