//! A machine of the simulation: a local store in a few lines, pushed by the real code.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use parhelia_bucket::{
    Bucket, Error, Result,
    chain::{CommitId, Entry, Machine, MachineMemory, MachineState},
    pack::{PackRef, PackSource, WantedPack},
    seal::Content,
    view::View,
};

use super::chance::Chance;

/// A record of the local journal. Packs go by labels: the content of a label is the same on all machines.
#[derive(Clone)]
pub enum Local {
    Commit { id: CommitId, labels: Vec<u8> },
    Event(u64),
    Deletion { commit: CommitId, at_ms: u64 },
}

/// The content of a label.
pub fn content(label: u8) -> Vec<u8> {
    let length = 300 + usize::from(label) * usize::from(label) * 13;
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[label]).finalize_xof().fill(&mut bytes);
    bytes
}

fn wanted(label: u8, there: Option<PackRef>) -> WantedPack {
    let content = content(label);
    WantedPack { label: vec![label], digest: *blake3::hash(&content).as_bytes(), content_bytes: content.len() as u64, there }
}

/// The machine's disk.
pub struct Disk {
    pub state: Mutex<Option<MachineState>>,
    pub chance: Chance,
    pub is_faulty: Arc<std::sync::atomic::AtomicBool>,
}

impl MachineMemory for Disk {
    fn load(&self) -> Result<Option<MachineState>> {
        // As JSON, which is what a real one keeps.
        let state = self.state.lock().unwrap().clone();
        let text = serde_json::to_string(&state).map_err(|e| Error::State(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| Error::State(e.to_string()))
    }

    fn save(&self, state: &MachineState) -> Result<()> {
        if self.is_faulty.load(std::sync::atomic::Ordering::Relaxed) && self.chance.permille(4) {
            return Err(Error::State("no space left on device".into()));
        }
        *self.state.lock().unwrap() = Some(state.clone());
        Ok(())
    }
}

struct Packs;

struct Held(Vec<u8>);

impl Content for Held {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0[..].read_at(offset, buffer)
    }
}

impl PackSource for Packs {
    fn open(&self, label: &[u8]) -> Result<Box<dyn Content + Send + Sync>> {
        Ok(Box::new(Held(content(label[0]))))
    }

    fn replace(&self, lost: &PackRef) -> Result<Vec<WantedPack>> {
        Ok(vec![wanted(lost.label[0], None)])
    }
}

/// A machine's local store.
pub struct LocalStore {
    pub journal: Mutex<Vec<Local>>,
    pub disk: Disk,
    /// Packs of the bucket, as of the last look: it may be days old.
    pub there: Mutex<BTreeMap<u8, PackRef>>,
    /// True if events may be pushed twice: the machine was set back to an older state, or is a copy in the middle of a push.
    pub was_set_back: std::sync::atomic::AtomicBool,
}

/// What a process of a push has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    pub cursor: u64,
    pub again: u64,
    pub segments: u64,
    pub packs: u64,
}

impl LocalStore {
    /// Pushes everything, as one process: `report` is told how far after each push.
    pub async fn push(&self, bucket: &Bucket, chance: &Chance, report: &(dyn Fn(u64) + Sync)) -> Result<Process> {
        let mut machine = Machine::open(bucket, &self.disk).await?;
        let mut done = Process { again: machine.state().again.len() as u64, ..Process::default() };
        machine.push(&[], 0, &Packs).await?;
        if chance.permille(400) {
            self.look(bucket).await?;
        }
        loop {
            let cursor = machine.state().cursor;
            assert!(machine.is_settled());
            report(cursor);
            done.cursor = cursor;
            let batch: Vec<Entry> = {
                let journal = self.journal.lock().unwrap();
                let behind = journal.iter().skip(usize::try_from(cursor).unwrap());
                behind.take(1 + usize::try_from(chance.below(4)).unwrap()).map(|local| self.entry(local)).collect()
            };
            if batch.is_empty() {
                return Ok(done);
            }
            let pushed = machine.push(&batch, cursor + batch.len() as u64, &Packs).await?;
            done.segments += pushed.segments;
            done.packs += pushed.packs;
            done.again += pushed.segments.saturating_sub(1);
        }
    }

    fn entry(&self, local: &Local) -> Entry {
        let there = self.there.lock().unwrap();
        match local {
            Local::Commit { id, labels } => {
                let packs = labels.iter().map(|label| wanted(*label, there.get(label).cloned())).collect();
                Entry::Commit { id: *id, body: labels.clone(), packs }
            }
            Local::Event(event) => Entry::Event(event.to_le_bytes().to_vec()),
            Local::Deletion { commit, at_ms } => Entry::Deletion { commit: *commit, at_ms: *at_ms },
        }
    }

    /// Looks at what the bucket has.
    async fn look(&self, bucket: &Bucket) -> Result<()> {
        let mut view = View::default();
        view.refresh(bucket, &mut |_| {}).await?;
        let packs = view.checkpoints().into_values().flat_map(|placed| placed.commit.packs.clone());
        *self.there.lock().unwrap() = packs.map(|pack| (pack.label[0], pack)).collect();
        Ok(())
    }
}
