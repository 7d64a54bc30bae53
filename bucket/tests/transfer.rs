//! Local stores that are pushed to a bucket in a folder, and made again from it.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_bucket::{
    Bucket, Error, Result,
    blocking::Runtime,
    chain::{CommitId, Cursor, Entry, MachineMemory, MachineState, Record},
    gc,
    layout::MachineId,
    pack::{PackRef, PackSource, WantedPack},
    random::OsRandom,
    remote::{Client, ConnectOptions, Effort, RemoteUrl},
    seal::{Content, Keyring, MasterKey},
    transfer::{self, Batch, Extent, Observer, Source, Target},
    view::View,
};

/// A local store: packs by their names, a journal, and what came from the bucket.
#[derive(Default)]
struct Local {
    packs: BTreeMap<Vec<u8>, Vec<u8>>,
    journal: Vec<Entry>,
    commits: BTreeMap<CommitId, Vec<u8>>,
    events: BTreeSet<Vec<u8>>,
    heads: BTreeMap<MachineId, u64>,
    state: Mutex<Option<MachineState>>,
    /// Packs that it takes in before its disk is full.
    room: Option<usize>,
}

struct Held(Vec<u8>);

impl Content for Held {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0[..].read_at(offset, buffer)
    }
}

impl Local {
    fn wanted(&self, label: &[u8]) -> WantedPack {
        let content = &self.packs[label];
        let digest = *blake3::hash(content).as_bytes();
        WantedPack { label: label.to_vec(), digest, content_bytes: content.len() as u64, there: None }
    }

    /// A checkpoint with a pack of its own and all packs before it.
    fn checkpoint(&mut self, id: u8) {
        self.packs.insert(vec![id], vec![id; 1000 * usize::from(id)]);
        let packs = self.packs.keys().map(|label| self.wanted(label)).collect();
        self.journal.push(Entry::Commit { id: CommitId([id; 16]), body: vec![id], packs });
        self.commits.insert(CommitId([id; 16]), vec![id]);
    }

    fn event(&mut self, bytes: usize, id: u8) {
        let body = vec![id; bytes];
        self.events.insert(body.clone());
        self.journal.push(Entry::Event(body));
    }
}

impl PackSource for Local {
    fn open(&self, label: &[u8]) -> Result<Box<dyn Content + Send + Sync>> {
        Ok(Box::new(Held(self.packs[label].clone())))
    }

    fn replace(&self, lost: &PackRef) -> Result<Vec<WantedPack>> {
        Ok(vec![self.wanted(&lost.label)])
    }
}

impl Source for Local {
    fn behind(&self, cursor: Cursor, bytes_max: usize) -> Result<Batch> {
        let mut batch = Batch { entries: Vec::new(), cursor };
        let mut bytes = 0;
        for entry in &self.journal[usize::try_from(cursor).unwrap()..] {
            bytes += match entry {
                Entry::Commit { body, packs, .. } => body.len() + 256 * packs.len(),
                Entry::Event(body) => body.len(),
                Entry::Deletion { .. } => 24,
                Entry::Seen(heads) => 24 * heads.len(),
            };
            if bytes > bytes_max && !batch.entries.is_empty() {
                break;
            }
            batch.entries.push(entry.clone());
            batch.cursor += 1;
        }
        Ok(batch)
    }
}

impl MachineMemory for Local {
    fn load(&self) -> Result<Option<MachineState>> {
        Ok(self.state.lock().unwrap().clone())
    }

    fn save(&self, state: &MachineState) -> Result<()> {
        *self.state.lock().unwrap() = Some(state.clone());
        Ok(())
    }
}

impl Target for Local {
    fn heads(&self) -> Result<BTreeMap<MachineId, u64>> {
        Ok(self.heads.clone())
    }

    fn has_pack(&self, pack: &PackRef) -> Result<bool> {
        Ok(self.packs.contains_key(&pack.label))
    }

    fn take_pack(&mut self, pack: &PackRef, content: Vec<u8>) -> Result<()> {
        match &mut self.room {
            Some(0) => return Err(Error::State("no space left on device".into())),
            Some(room) => *room -= 1,
            None => {}
        }
        assert!(self.packs.insert(pack.label.clone(), content).is_none(), "a pack is fetched once");
        Ok(())
    }

    fn take_record(&mut self, _: MachineId, record: &Record) -> Result<()> {
        match record {
            Record::Commit(commit) => drop(self.commits.insert(commit.id, commit.body.clone())),
            Record::Event(body) => drop(self.events.insert(body.clone())),
            Record::Deletion { commit, .. } => drop(self.commits.remove(commit)),
            Record::Seen(_) | Record::Other { .. } => {}
        }
        Ok(())
    }

    fn note(&mut self, heads: &[(MachineId, u64)]) -> Result<()> {
        self.heads = heads.iter().copied().collect();
        Ok(())
    }
}

#[derive(Default)]
struct Counter(Mutex<(u64, u64)>);

impl Observer for Counter {
    fn pushed(&self, _: &parhelia_bucket::chain::Pushed) {
        self.0.lock().unwrap().0 += 1;
    }

    fn fetched(&self, _: &PackRef) {
        self.0.lock().unwrap().1 += 1;
    }
}

async fn bucket(folder: &Path) -> Bucket {
    let url = RemoteUrl::parse(&format!("file://{}", folder.display())).unwrap();
    let client = Client::connect(&url, &ConnectOptions::default()).unwrap();
    let keys = Keyring::plain().with(1, MasterKey::new([4; 32]));
    Bucket::open_or_make(client, keys, Arc::new(OsRandom::new()), Effort::PROBE).await.unwrap()
}

fn same(a: &Local, b: &Local) -> bool {
    (&a.packs, &a.commits, &a.events) == (&b.packs, &b.commits, &b.events)
}

#[test]
fn a_store_is_made_again_from_its_bucket() {
    let folder = tempfile::tempdir().unwrap();
    Runtime::new().unwrap().wait(async {
        let bucket = bucket(folder.path()).await;
        let mut first = Local::default();
        (1..12).for_each(|id| first.checkpoint(id));
        // Large events take segments of their own.
        (0..3).for_each(|id| first.event(1_500_000, id));
        let counter = Counter::default();
        let report = transfer::push(&bucket, &first, &first, &counter).await.unwrap();
        assert_eq!((report.cursor, report.packs, report.segments), (14, 11, 3));
        assert_eq!(transfer::push(&bucket, &first, &first, &()).await.unwrap().segments, 0, "nothing is pushed twice");

        // A disk that is full in the middle: the next run goes on.
        let mut second = Local { room: Some(4), ..Local::default() };
        assert!(matches!(transfer::fetch(&bucket, &mut second, Extent::Full, &counter).await, Err(Error::State(_))));
        assert!(second.commits.is_empty(), "no record comes before its packs");
        second.room = None;
        let report = transfer::fetch(&bucket, &mut second, Extent::Full, &counter).await.unwrap();
        assert_eq!((report.commits, report.events, report.packs), (11, 3, 7));
        assert!(same(&first, &second));
        assert_eq!(*counter.0.lock().unwrap(), (4, 11));
        let again = transfer::fetch(&bucket, &mut second, Extent::Full, &()).await.unwrap();
        assert_eq!((again.commits, again.events, again.packs), (0, 0, 0));

        // The second machine works on, and a third one lists without packs.
        second.journal.push(Entry::Deletion { commit: CommitId([11; 16]), at_ms: 0 });
        second.event(10, 9);
        transfer::push(&bucket, &second, &second, &()).await.unwrap();
        let policy = gc::GcPolicy { orphan_patience: SignedDuration::ZERO, deletion_grace: SignedDuration::ZERO };
        let later = Timestamp::from_second(10_000_000_000).unwrap();
        let freed = gc::round(&bucket, &mut View::default(), &policy, later).await.unwrap();
        assert_eq!(freed.deleted, 1);
        let mut third = Local::default();
        transfer::fetch(&bucket, &mut third, Extent::Records, &()).await.unwrap();
        assert_eq!((third.commits.len(), third.events.len(), third.packs.len()), (10, 4, 0));
        let report = transfer::fetch(&bucket, &mut third, Extent::Full, &()).await.unwrap();
        assert_eq!((report.commits, report.packs), (0, 10));

        // A bucket whose owner shows an older state, of which gc has not seen the newer one.
        first.event(10, 8);
        transfer::push(&bucket, &first, &first, &()).await.unwrap();
        transfer::fetch(&bucket, &mut third, Extent::Records, &()).await.unwrap();
        let machine = first.load().unwrap().unwrap().machine;
        let head = third.heads[&machine];
        bucket.client.delete(&parhelia_bucket::layout::segment(machine, head), &Effort::PROBE).await.unwrap();
        let older = transfer::fetch(&bucket, &mut third, Extent::Records, &()).await;
        assert!(matches!(older, Err(Error::Foreign(what)) if what.contains("older copy")));
    });
}
