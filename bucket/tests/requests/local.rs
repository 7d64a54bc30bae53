//! Stand-ins for a local store: a machine's memory, and packs.

use super::*;

#[derive(Default)]
pub struct Disk(pub Mutex<Option<MachineState>>);

impl MachineMemory for Disk {
    fn load(&self) -> Result<Option<MachineState>> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn save(&self, state: &MachineState) -> Result<()> {
        *self.0.lock().unwrap() = Some(state.clone());
        Ok(())
    }
}

pub struct Packs;

impl PackSource for Packs {
    fn open(&self, _: &[u8]) -> Result<Box<dyn Content + Send + Sync>> {
        Ok(Box::new(Bytes100k))
    }

    fn replace(&self, lost: &PackRef) -> Result<Vec<WantedPack>> {
        Ok(vec![WantedPack { label: lost.label.clone(), digest: lost.digest, content_bytes: lost.content_bytes, there: None }])
    }
}

pub fn commit(id: u8) -> Entry {
    let digest = *blake3::hash(&noise()).as_bytes();
    let packs = vec![WantedPack { label: vec![id], digest, content_bytes: 100_000, there: None }];
    Entry::Commit { id: CommitId([id; 16]), body: vec![id], packs }
}

/// A local store with one pack, which may change.
pub struct OnePack(pub Vec<u8>);

impl PackSource for OnePack {
    fn open(&self, _: &[u8]) -> Result<Box<dyn Content + Send + Sync>> {
        Ok(Box::new(Held(self.0.clone())))
    }

    fn replace(&self, _: &PackRef) -> Result<Vec<WantedPack>> {
        Ok(Vec::new())
    }
}

pub struct Held(pub Vec<u8>);

impl Content for Held {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0[..].read_at(offset, buffer)
    }
}
