//! Probes, puts, packs and machines over a store whose answers are chosen one by one.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

mod local;
mod server;

use std::{
    ops::Range,
    sync::{Arc, Mutex, atomic::Ordering},
};

use bytes::Bytes;
use local::{Disk, OnePack, Packs, commit};
use parhelia_bucket::{
    Bucket, Error, Result,
    chain::{Body, CommitAgain, CommitId, Entry, Machine, MachineMemory, MachineState, Record, Segment},
    gc,
    layout::{self, MachineId, PackKey},
    pack::{PackRef, PackSource, WantedPack, fetch_range, fetch_whole, upload},
    random::OsRandom,
    remote::{self, Client, Effort, PutOutcome},
    seal::{Content, Keyring, MasterKey},
    view::View,
};
use server::{Quirk, Server};

const QUICK: Effort = Effort {
    answer_within: std::time::Duration::from_secs(5),
    tries_max: 3,
    pause: std::time::Duration::from_millis(1),
    pause_max: std::time::Duration::from_millis(2),
};

fn client(server: &Arc<Server>) -> Client {
    Client::with_parts(Arc::clone(server), "p")
}

async fn bucket(server: &Arc<Server>) -> Bucket {
    let keys = Keyring::plain().with(1, MasterKey::new([1; 32]));
    let mut bucket = Bucket::open_or_make(client(server), keys, Arc::new(OsRandom::new()), QUICK).await.unwrap();
    bucket.part_bytes = 16 << 10;
    bucket
}

#[tokio::test]
async fn servers_that_lack_something_are_refused_by_its_name() {
    for (quirk, said) in [
        (Quirk::Overwrites, "it ignores If-None-Match"),
        (Quirk::Racy, "If-None-Match is not atomic"),
        (Quirk::Whole, "it has no reads of ranges"),
    ] {
        let fault = remote::probe(&client(&Server::new(quirk)), &OsRandom::new()).await.unwrap_err();
        assert!(matches!(&fault, Error::Refused(what) if what.contains(said)), "{quirk:?}: {fault}");
        assert!(fault.step().is_some());
    }
    let fault = remote::probe(&client(&Server::new(Quirk::Denies)), &OsRandom::new()).await.unwrap_err();
    assert!(matches!(&fault, Error::Request { cause, .. } if cause.contains("403")), "{fault}");
}

#[tokio::test]
async fn servers_that_are_merely_rough_pass() {
    for (quirk, can_delete) in [(Quirk::None, true), (Quirk::Hides, true), (Quirk::Conflicts, true), (Quirk::Keeps, false)] {
        let server = Server::new(quirk);
        let report = remote::probe(&client(&server), &OsRandom::new()).await.unwrap();
        assert_eq!((report.writers, report.can_delete), (16, can_delete), "{quirk:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let url = remote::RemoteUrl::parse(&format!("file://{}", folder.path().display())).unwrap();
    let client = Client::connect(&url, &remote::ConnectOptions::default()).unwrap();
    assert!(remote::probe(&client, &OsRandom::new()).await.unwrap().can_delete, "a folder");
}

#[tokio::test]
async fn a_put_is_settled_whatever_the_answers() {
    for quirk in [Quirk::None, Quirk::Hides, Quirk::Conflicts] {
        let client = client(&Server::new(quirk));
        let put = |text: &'static str| {
            let client = client.clone();
            async move { client.put_absent("gc/1", &Bytes::from(text), 1000, &|_| false, &QUICK).await }
        };
        assert_eq!(put("mine").await.unwrap(), PutOutcome::Ours, "{quirk:?}");
        assert_eq!(put("mine").await.unwrap(), PutOutcome::Ours, "{quirk:?}, again");
        assert_eq!(put("other").await.unwrap(), PutOutcome::Theirs("mine".into()), "{quirk:?}");
    }
    let denied = client(&Server::new(Quirk::Denies)).put_absent("gc/1", &"x".into(), 1000, &|_| false, &QUICK).await;
    assert!(matches!(denied, Err(Error::NotKnown { .. })), "a give-up is never a no");
}

#[tokio::test]
async fn an_object_that_is_too_long_is_not_read() {
    let client = client(&Server::new(Quirk::None));
    client.put("a", vec![0; 1001].into(), &QUICK).await.unwrap();
    assert!(matches!(client.get("a", 1000, &QUICK).await, Err(Error::Damaged { .. })));
    assert_eq!(client.get("a", 1001, &QUICK).await.unwrap().len(), 1001);
}

#[tokio::test]
async fn a_list_without_order_that_breaks_off_begins_anew() {
    let server = Server::new(Quirk::Unordered);
    let client = Client::of(Arc::clone(&server) as _, None, "p");
    for object in ["packs/a", "packs/b", "packs/c"] {
        client.put(object, "x".into(), &QUICK).await.unwrap();
    }
    let listed = client.list("packs", None, &QUICK).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|listed| listed.object.as_str()).collect();
    assert_eq!(names, ["packs/a", "packs/b", "packs/c"]);
}

struct Bytes100k;

impl Content for Bytes100k {
    fn bytes(&self) -> u64 {
        100_000
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        noise()[..].read_at(offset, buffer)
    }
}

pub(crate) fn noise() -> Vec<u8> {
    let mut bytes = vec![0; 100_000];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn pack(bucket: &Bucket) -> PackRef {
    let key = PackKey { machine: MachineId([3; 16]), number: 1, name: [7; 32] };
    let digest = *blake3::hash(&noise()).as_bytes();
    PackRef { key, sealing: bucket.sealing(), content_bytes: 100_000, digest, label: vec![1] }
}

#[tokio::test]
async fn packs_go_up_in_parts_and_come_back_by_ranges() {
    for quirk in [Quirk::None, Quirk::TornParts] {
        let server = Server::new(quirk);
        let bucket = bucket(&server).await;
        let pack = pack(&bucket);
        let mut state = None;
        upload(&bucket, &pack, &Bytes100k, &mut state, &mut |_| Ok(())).await.unwrap();
        assert_eq!(state, None);
        let Bucket { client, keys, .. } = &bucket;
        assert!(fetch_whole(client, keys, &pack, &QUICK).await.unwrap() == noise(), "{quirk:?}");
        for range in [0..1, 65_535..65_537, 99_999..100_000, 0..100_000, 5..5] {
            let Range { start, end } = range.clone();
            let got = fetch_range(client, keys, &pack, range, &QUICK).await.unwrap();
            assert!(got == noise()[start as usize..end as usize], "{start}..{end}");
        }
        assert!(matches!(fetch_range(client, keys, &pack, 0..100_001, &QUICK).await, Err(Error::Invalid(_))));
        let other = Keyring::plain().with(1, MasterKey::new([2; 32]));
        assert!(matches!(fetch_range(client, &other, &pack, 0..10, &QUICK).await, Err(Error::WrongKey { .. })));
        let missing = PackRef { key: PackKey { number: 2, ..pack.key }, ..pack.clone() };
        assert!(matches!(fetch_range(client, keys, &missing, 0..10, &QUICK).await, Err(Error::NotFound { .. })));
        // A pack in another one's place.
        let bytes = client.get(&pack.key.object(), 1 << 20, &QUICK).await.unwrap();
        client.put(&missing.key.object(), bytes.clone(), &QUICK).await.unwrap();
        assert!(matches!(fetch_range(client, keys, &missing, 0..10, &QUICK).await, Err(Error::Damaged { .. })));
        // A pack that was cut.
        client.put(&pack.key.object(), bytes.slice(..bytes.len() - 1), &QUICK).await.unwrap();
        assert!(matches!(fetch_range(client, keys, &pack, 0..10, &QUICK).await, Err(Error::Damaged { .. })));
        assert!(matches!(fetch_whole(client, keys, &pack, &QUICK).await, Err(Error::Damaged { .. })));
    }
}

#[tokio::test]
async fn an_upload_goes_on_in_another_process() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let pack = pack(&bucket);
    let mut kept = None;
    let mut calls = 0;
    let mut dies = |state: &Option<parhelia_bucket::pack::Upload>| {
        kept.clone_from(state);
        calls += 1;
        if calls == 4 { Err(Error::State("killed".into())) } else { Ok(()) }
    };
    assert!(upload(&bucket, &pack, &Bytes100k, &mut None, &mut dies).await.is_err());
    let before = server.parts.load(Ordering::Relaxed);
    let mut state: Option<parhelia_bucket::pack::Upload> = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
    assert_eq!((before, state.as_ref().unwrap().parts.len()), (3, 3));
    upload(&bucket, &pack, &Bytes100k, &mut state, &mut |_| Ok(())).await.unwrap();
    assert_eq!(server.parts.load(Ordering::Relaxed), 7, "no part went up twice");
    assert!(fetch_whole(&bucket.client, &bucket.keys, &pack, &QUICK).await.unwrap() == noise());
}

/// A disk that fails when an upload has two parts.
struct Full<'a>(&'a Disk);

impl MachineMemory for Full<'_> {
    fn load(&self) -> Result<Option<MachineState>> {
        self.0.load()
    }

    fn save(&self, state: &MachineState) -> Result<()> {
        let mut parts = state.uploads.values().filter_map(|begun| begun.upload.as_ref()).map(|upload| upload.parts.len());
        self.0.save(state)?;
        if parts.any(|parts| parts == 2) { Err(Error::State("killed".into())) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_pack_that_has_changed_never_goes_up_under_its_old_name() {
    for part_bytes in [16 << 10, 16 << 20] {
        let server = Server::new(Quirk::None);
        let mut bucket = bucket(&server).await;
        let disk = Disk::default();
        let died = Machine::open(&bucket, &Full(&disk)).await.unwrap().push(&[commit(1)], 1, &Packs).await;
        assert!(matches!(died, Err(Error::State(_))));
        // What a process finds that died before its request.
        bucket.part_bytes = part_bytes;
        if part_bytes > 100_000 {
            disk.0.lock().unwrap().as_mut().unwrap().uploads.get_mut("01").unwrap().upload = None;
        }
        let old = disk.0.lock().unwrap().as_ref().unwrap().uploads["01"].pack.key;
        let (mut changed, parts) = (noise(), server.parts.load(Ordering::Relaxed));
        changed[99_999] ^= 1;
        let mut machine = Machine::open(&bucket, &disk).await.unwrap();
        for content in [changed, noise()[1..].to_vec()] {
            let fault = machine.push(&[commit(1)], 1, &OnePack(content)).await.unwrap_err();
            assert!(fault.to_string().contains("the local pack 01") && fault.step().is_some(), "{fault}");
            assert_eq!(server.parts.load(Ordering::Relaxed), parts, "no part of another content");
            assert!(machine.state().uploads.is_empty(), "the name is given up");
        }
        machine.push(&[commit(1)], 1, &OnePack(noise())).await.unwrap();
        let mut view = View::default();
        view.refresh(&bucket, &mut |_| {}).await.unwrap();
        let pack = view.checkpoints()[&CommitId([1; 16])].commit.packs[0].clone();
        assert_ne!(pack.key.name, old.name);
        assert!(fetch_whole(&bucket.client, &bucket.keys, &pack, &QUICK).await.unwrap() == noise());
        assert_eq!(bucket.client.size(&old.object(), &QUICK).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_small_push_costs_three_requests() {
    let server = Server::new(Quirk::None);
    let mut bucket = bucket(&server).await;
    bucket.part_bytes = 16 << 20;
    let disk = Disk::default();
    let mut machine = Machine::open(&bucket, &disk).await.unwrap();
    let before = server.requests.load(Ordering::Relaxed);
    machine.push(&[commit(1), Entry::Event(vec![1])], 2, &Packs).await.unwrap();
    // The pack, the segment, and the read of gc's chain.
    assert_eq!(server.requests.load(Ordering::Relaxed) - before, 3);
}

#[tokio::test]
async fn a_copied_machine_takes_a_new_id_and_nothing_is_lost() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let (first, second) = (Disk::default(), Disk::default());
    Machine::open(&bucket, &first).await.unwrap().push(&[commit(1)], 1, &Packs).await.unwrap();
    second.0.lock().unwrap().clone_from(&first.0.lock().unwrap());
    Machine::open(&bucket, &first).await.unwrap().push(&[commit(2)], 2, &Packs).await.unwrap();
    let mut copy = Machine::open(&bucket, &second).await.unwrap();
    copy.push(&[commit(3)], 2, &Packs).await.unwrap();
    assert_ne!(copy.state().machine, first.0.lock().unwrap().as_ref().unwrap().machine);
    let mut view = View::default();
    view.refresh(&bucket, &mut |_| {}).await.unwrap();
    assert_eq!(view.checkpoints().keys().map(|id| id.0[0]).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(view.heads().iter().map(|(_, head)| *head).sum::<u64>(), 3);
}

#[tokio::test]
async fn a_segment_that_was_emptied_is_known_as_ones_own() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let (first, copy) = (Disk::default(), Disk::default());
    let mut machine = Machine::open(&bucket, &first).await.unwrap();
    machine.push(&[Entry::Event(vec![1])], 1, &Packs).await.unwrap();
    // A copy of the machine wakes with the segment on its way; meanwhile it landed, another followed, and it was emptied.
    let stored = bucket.client.get(&layout::segment(machine.state().machine, 1), 1 << 20, &QUICK).await.unwrap();
    let hex: String = stored.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut state = machine.state().clone();
    (state.next, state.hash, state.cursor) = (1, [0; 32], 0);
    state.pending = Some(parhelia_bucket::chain::Pending { stored: hex, cursor: 1 });
    copy.save(&state).unwrap();
    machine.push(&[Entry::Event(vec![2])], 2, &Packs).await.unwrap();
    let mut view = View::default();
    view.refresh(&bucket, &mut |_| {}).await.unwrap();
    let id = machine.state().machine;
    assert!(gc::empty(&bucket, &view, id, 1..3).await.is_err(), "the last one stays");
    assert_eq!(gc::empty(&bucket, &view, id, 1..2).await.unwrap(), 1);
    assert_eq!(gc::empty(&bucket, &view, id, 1..2).await.unwrap(), 0);
    let mut woken = Machine::open(&bucket, &copy).await.unwrap();
    let pushed = woken.push(&[], 0, &Packs).await.unwrap();
    assert_eq!((woken.state().machine, pushed.cursor), (id, 1));
    let mut events = Vec::new();
    let mut see = |seen: parhelia_bucket::view::Seen| {
        if let Record::Event(event) = seen.record {
            events.push(event.clone());
        }
    };
    View::default().refresh(&bucket, &mut see).await.unwrap();
    assert_eq!(events, [[2]]);
}

/// A machine whose first commit is to be written again, with the segment that it is in.
async fn to_be_written_again(bucket: &Bucket, disk: &Disk) -> (MachineId, Segment) {
    let mut machine = Machine::open(bucket, disk).await.unwrap();
    machine.push(&[commit(1)], 1, &Packs).await.unwrap();
    machine.push(&[Entry::Event(vec![1])], 2, &Packs).await.unwrap();
    let id = machine.state().machine;
    let again = CommitAgain { id: CommitId([1; 16]), machine: id, number: 1 };
    disk.0.lock().unwrap().as_mut().unwrap().again.push(again);
    let stored = bucket.client.get(&layout::segment(id, 1), 1 << 20, &QUICK).await.unwrap();
    let (_, name, hash) = Segment::open(id, 1, &stored, &bucket.keys).unwrap();
    (id, Segment { machine: id, number: 1, body: Body::Emptied { name, hash } })
}

#[tokio::test]
async fn a_commit_that_was_deleted_and_emptied_is_not_written_again() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let (disk, other) = (Disk::default(), Disk::default());
    let (id, _) = to_be_written_again(&bucket, &disk).await;
    let deletion = Entry::Deletion { commit: CommitId([1; 16]), at_ms: 0 };
    Machine::open(&bucket, &other).await.unwrap().push(&[deletion], 1, &Packs).await.unwrap();
    let mut view = View::default();
    view.refresh(&bucket, &mut |_| {}).await.unwrap();
    assert_eq!(gc::empty(&bucket, &view, id, 1..2).await.unwrap(), 1);
    let mut machine = Machine::open(&bucket, &disk).await.unwrap();
    let pushed = machine.push(&[], 0, &Packs).await.unwrap();
    assert!(machine.is_settled());
    assert_eq!((pushed.segments, disk.0.lock().unwrap().as_ref().unwrap().again.len()), (0, 0));
}

#[tokio::test]
async fn a_commit_that_was_emptied_too_early_must_be_given_again() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let disk = Disk::default();
    let (id, emptied) = to_be_written_again(&bucket, &disk).await;
    let sealed = emptied.seal(bucket.sealing(), &bucket.keys, &OsRandom::new()).unwrap();
    bucket.client.put(&layout::segment(id, 1), sealed.bytes, &QUICK).await.unwrap();
    let mut machine = Machine::open(&bucket, &disk).await.unwrap();
    for entries in [&[][..], &[Entry::Event(vec![2])]] {
        let fault = machine.push(entries, 3, &Packs).await.unwrap_err();
        let said = format!("commit {} must be given again", "01".repeat(16));
        assert!(matches!(&fault, Error::Invalid(what) if what.contains(&said)), "{fault}");
        assert!(!machine.is_settled());
    }
    machine.push(&[commit(1)], 3, &Packs).await.unwrap();
    assert!(machine.is_settled());
    let mut view = View::default();
    view.refresh(&bucket, &mut |_| {}).await.unwrap();
    assert_eq!(view.checkpoints()[&CommitId([1; 16])].number, 3);
}

#[tokio::test]
async fn a_bucket_that_was_set_back_is_told() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let disk = Disk::default();
    let mut machine = Machine::open(&bucket, &disk).await.unwrap();
    let id = machine.state().machine;
    for event in 1..4 {
        machine.push(&[Entry::Event(vec![event])], event.into(), &Packs).await.unwrap();
    }
    bucket.client.delete(&layout::segment(id, 3), &QUICK).await.unwrap();
    let fault = Machine::open(&bucket, &disk).await.err().unwrap();
    assert!(matches!(&fault, Error::Foreign(what) if what.contains("older copy")), "{fault}");
    // A hole in a chain, and segments in each other's place.
    bucket.client.delete(&layout::segment(id, 1), &QUICK).await.unwrap();
    let fault = View::default().refresh(&bucket, &mut |_| {}).await.unwrap_err();
    assert!(matches!(&fault, Error::Damaged { cause, .. } if cause.contains("missing")), "{fault}");
    let second = bucket.client.get(&layout::segment(id, 2), 1 << 20, &QUICK).await.unwrap();
    bucket.client.put(&layout::segment(id, 1), second, &QUICK).await.unwrap();
    assert!(matches!(View::default().refresh(&bucket, &mut |_| {}).await, Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn a_look_beside_gc_tells_of_no_damage() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let (first, second) = (Disk::default(), Arc::new(Disk::default()));
    Machine::open(&bucket, &first).await.unwrap().push(&[commit(1)], 1, &Packs).await.unwrap();
    Machine::open(&bucket, &*second).await.unwrap().push(&[Entry::Event(vec![1])], 1, &Packs).await.unwrap();
    // Behind what a reader has read, the checkpoint is deleted, and gc frees its pack.
    let beside = Server::over(Arc::clone(&server.store), Quirk::None);
    let work = async move {
        let bucket = self::bucket(&beside).await;
        let deletion = Entry::Deletion { commit: CommitId([1; 16]), at_ms: 0 };
        Machine::open(&bucket, &*second).await.unwrap().push(&[deletion], 2, &Packs).await.unwrap();
        let policy = gc::GcPolicy { orphan_patience: jiff::SignedDuration::ZERO, deletion_grace: jiff::SignedDuration::ZERO };
        let later = jiff::Timestamp::from_second(10_000_000_000).unwrap();
        assert_eq!(gc::round(&bucket, &mut View::default(), &policy, later).await.unwrap().deleted, 1);
    };
    *server.meanwhile.lock().unwrap() = Some((1, Box::pin(work)));
    let mut view = View::default();
    view.refresh(&bucket, &mut |_| {}).await.unwrap();
    assert!(server.meanwhile.lock().unwrap().is_none(), "gc was at work");
    assert_eq!((view.checkpoints().len(), view.broken().len()), (0, 0));
}

#[tokio::test]
async fn gc_frees_nothing_in_a_bucket_that_was_cut() {
    let server = Server::new(Quirk::None);
    let bucket = bucket(&server).await;
    let disk = Disk::default();
    let policy = gc::GcPolicy { orphan_patience: jiff::SignedDuration::ZERO, deletion_grace: jiff::SignedDuration::ZERO };
    let later = jiff::Timestamp::from_second(10_000_000_000).unwrap();
    let mut machine = Machine::open(&bucket, &disk).await.unwrap();
    let deletion = Entry::Deletion { commit: CommitId([1; 16]), at_ms: 0 };
    machine.push(&[commit(1), deletion], 2, &Packs).await.unwrap();
    machine.push(&[commit(2)], 3, &Packs).await.unwrap();
    assert_eq!(gc::round(&bucket, &mut View::default(), &policy, later).await.unwrap().deleted, 1);
    // Somebody deletes the last segment, and with it the only trace of a checkpoint.
    bucket.client.delete(&layout::segment(machine.state().machine, 2), &QUICK).await.unwrap();
    let cut = gc::round(&bucket, &mut View::default(), &policy, later).await;
    assert!(matches!(cut, Err(Error::Damaged { cause, .. }) if cause.contains("gc has seen segment 2")));
    assert_eq!(bucket.client.list(layout::PACKS, None, &QUICK).await.unwrap().len(), 1);
}

#[tokio::test]
async fn another_store_at_the_prefix_is_told() {
    let (server, other) = (Server::new(Quirk::None), Server::new(Quirk::None));
    let (bucket, other) = (bucket(&server).await, bucket(&other).await);
    let disk = Disk::default();
    Machine::open(&bucket, &disk).await.unwrap().push(&[Entry::Event(vec![1])], 1, &Packs).await.unwrap();
    assert!(matches!(Machine::open(&other, &disk).await, Err(Error::Foreign(_))));
    let random = Arc::new(OsRandom::new());
    let plain = Bucket::open(client(&server), Keyring::plain(), random.clone(), QUICK).await;
    assert!(matches!(plain, Err(Error::Locked(_))));
    let empty = Bucket::open(client(&Server::new(Quirk::None)), Keyring::plain(), random, QUICK).await;
    assert!(matches!(empty, Err(Error::Foreign(_))));
}

/// A remote that is given by `PARHELIA_TEST_REMOTE`, with credentials in the environment: everything once, over the real client.
#[tokio::test]
async fn a_real_server_serves() {
    let Ok(url) = std::env::var("PARHELIA_TEST_REMOTE") else { return };
    let random = Arc::new(OsRandom::new());
    let url = remote::RemoteUrl::parse(&url).unwrap();
    let client = Client::connect(&url, &remote::ConnectOptions::default()).unwrap();
    println!("{:?}", remote::probe(&client, &*random).await.unwrap());
    let keys = Keyring::plain().with(1, MasterKey::new([1; 32]));
    let mut bucket = Bucket::open_or_make(client, keys, random, QUICK).await.unwrap();
    bucket.part_bytes = 5 << 20;
    let disk = Disk::default();
    let mut machine = Machine::open(&bucket, &disk).await.unwrap();
    machine.push(&[commit(1), commit(2)], 2, &Packs).await.unwrap();
    machine.push(&[Entry::Deletion { commit: CommitId([1; 16]), at_ms: 0 }, Entry::Event(vec![7])], 4, &Packs).await.unwrap();
    // A pack in parts.
    let large = Large(11 << 20);
    let digest = *blake3::hash(&vec![5; 11 << 20]).as_bytes();
    let pack = PackRef { content_bytes: 11 << 20, digest, ..pack(&bucket) };
    upload(&bucket, &pack, &large, &mut None, &mut |_| Ok(())).await.unwrap();
    assert!(fetch_whole(&bucket.client, &bucket.keys, &pack, &QUICK).await.unwrap() == vec![5; 11 << 20]);
    let policy = gc::GcPolicy { orphan_patience: jiff::SignedDuration::ZERO, deletion_grace: jiff::SignedDuration::ZERO };
    let mut view = View::default();
    let later = jiff::Timestamp::from_second(10_000_000_000).unwrap();
    let report = gc::round(&bucket, &mut view, &policy, later).await.unwrap();
    assert_eq!((report.condemned, report.deleted), (2, 2), "the first commit's pack, and the one that no commit names");
    let placed = view.checkpoints().into_values().next().unwrap().clone();
    assert!(fetch_whole(&bucket.client, &bucket.keys, &placed.commit.packs[0], &QUICK).await.unwrap() == noise());
}

struct Large(u64);

impl Content for Large {
    fn bytes(&self) -> u64 {
        self.0
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(5);
        Ok(())
    }
}
