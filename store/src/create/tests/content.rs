//! Reading one file: while it changes, with its holes, and what of it is put back.

use std::os::{
    fd::OwnedFd,
    unix::fs::{FileExt, PermissionsExt},
};

use super::*;
use crate::{
    create::content::{Earlier, Failure, FileContent as Read, Reader},
    format::SINGLE_CHUNK_BYTES,
    recipe::ChunkRun,
    tree::Hole,
};

/// Changes a file when its reader begins to read it, at most so often, and counts what is reported.
struct Meddling<F> {
    change: F,
    times: u64,
    asked: AtomicU64,
    reported: AtomicU64,
}

impl<F: Fn() + Sync> Progress for Meddling<F> {
    fn is_cancelled(&self) -> bool {
        if self.asked.fetch_add(1, Ordering::Relaxed) < self.times {
            (self.change)();
        }
        false
    }

    fn advance(&self, _: u64, bytes: u64) {
        self.reported.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Changes a file until its time shows it.
fn changed(file: &File, change: impl Fn(&File)) {
    let ctime = || sys::stat_fd(file).unwrap().ctime;
    let before = ctime();
    while ctime() == before {
        change(file);
    }
}

fn open(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

fn read_with(store: &Store, fd: &OwnedFd, progress: &dyn Progress) -> Read {
    let sink = Sink::Look(store, Mutex::default());
    let mut batch = Batch::new(&sink).unwrap();
    let mut reader = Reader::new(store, progress);
    match reader.read(fd, b"name", &Earlier::new(store, None), &mut batch, None) {
        Ok(content) => content,
        Err(Failure::Unreadable(errno)) => panic!("{errno}"),
        Err(Failure::Store(error)) => panic!("{error}"),
    }
}

type Edit = (&'static str, fn(&File));

#[test]
fn a_file_that_changes_is_read_until_it_is_still_and_no_more_than_four_times() {
    let f = fixture();
    let edits: [Edit; 4] = [
        ("longer", |file| file.write_all_at(b"more", file.metadata().unwrap().len()).unwrap()),
        ("shorter", |file| file.set_len(file.metadata().unwrap().len() - 1).unwrap()),
        ("as long", |file| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, 150_000).unwrap();
            file.write_all_at(&[byte[0].wrapping_add(1)], 150_000).unwrap();
        }),
        ("mode", |file| {
            let mode = file.metadata().unwrap().permissions().mode();
            file.set_permissions(PermissionsExt::from_mode(mode ^ 0o100)).unwrap();
        }),
    ];
    let path = f.workspace.join("file");
    for (what, edit) in edits {
        for (times, attempts) in [(0, 1), (1, 2), (3, 4), (4, 4)] {
            let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
            file.write_all_at(&noise(200_000, 1), 0).unwrap();
            // The first part is a hole, which the change leaves.
            rustix::fs::fallocate(
                &file,
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
                0,
                65_536,
            )
            .unwrap();
            let change = || changed(&file, edit);
            let meddling = Meddling { change, times, asked: AtomicU64::new(0), reported: AtomicU64::new(0) };
            let content = read_with(&f.store, &open(&path), &meddling);
            let bytes = fs::read(&path).unwrap();
            assert_eq!(meddling.asked.into_inner(), attempts, "{what} {times}");
            assert_eq!((content.changing, content.blob), (times == 4, crate::testing::blob_id(&bytes)), "{what} {times}");
            let stat = sys::stat_fd(&file).unwrap();
            assert_eq!((content.stat.size, content.stat.ctime), (stat.size, stat.ctime), "{what} {times}");
            // Where its length was another one behind the last try, the holes may be others, too.
            let is_as_long = times < 4 || !["longer", "shorter"].contains(&what);
            let holes = if is_as_long { vec![Hole { start: 0, bytes: 65_536 }] } else { Vec::new() };
            assert_eq!(content.holes, holes, "{what} {times}");
            assert_eq!(meddling.reported.into_inner(), stat.size, "{what} {times}");
        }
    }
}

#[test]
fn of_a_file_that_tells_another_length_everything_to_its_end_is_read() {
    let f = fixture();
    // The kernel's own files say of themselves that they are empty, or a page long.
    for path in ["/proc/version", "/proc/kallsyms", "/sys/kernel/uevent_seqnum"] {
        let Ok(expected) = fs::read(path) else { continue };
        let content = read_with(&f.store, &open(Path::new(path)), &());
        assert_eq!(content.blob, crate::testing::blob_id(&expected), "{path}");
        assert_eq!((content.changing, content.stat.size), (false, expected.len() as u64), "{path}");
        assert_eq!(content.holes, vec![], "{path}");
    }
    // One that reads differently each time is named.
    let content = read_with(&f.store, &open(Path::new("/proc/sys/kernel/random/uuid")), &());
    assert_eq!((content.changing, content.stat.size), (true, 37));
}

#[test]
fn every_hole_of_a_file_is_found_however_short_the_file_is() {
    let f = fixture();
    let path = f.workspace.join("sparse");
    for bytes in [1, 500, 4096, 5000, 65_536, 65_537, 3 << 20] {
        File::create(&path).unwrap().set_len(bytes).unwrap();
        let content = read_with(&f.store, &open(&path), &());
        assert_eq!(content.holes, [Hole { start: 0, bytes }]);
        assert_eq!((content.blob, content.stat.size), (crate::testing::blob_id(&vec![0; bytes as usize]), bytes));
        fs::write(&path, noise(bytes as usize, bytes)).unwrap();
        let content = read_with(&f.store, &open(&path), &());
        assert_eq!((content.holes, content.blob), (vec![], crate::testing::blob_id(&noise(bytes as usize, bytes))));
    }
}

#[test]
fn holes_that_begin_and_end_anywhere_are_the_zeros_that_they_are() {
    let f = fixture();
    let path = f.workspace.join("sparse");
    const PIECE: usize = 1 << 20;
    // What is at hand ends before, at and behind the beginning of a hole.
    for before in [100_000, PIECE - 70_000, PIECE - 1, PIECE, PIECE + 1, PIECE + 300_000, 2 * PIECE] {
        for hole in [300_000, PIECE, 3 * PIECE] {
            for behind in [0, 1, 200_000] {
                let bytes = [noise(before, 1), vec![0; hole], noise(behind, 2)].concat();
                let file = File::create(&path).unwrap();
                file.set_len(bytes.len() as u64).unwrap();
                file.write_all_at(&bytes[..before], 0).unwrap();
                file.write_all_at(&bytes[before + hole..], (before + hole) as u64).unwrap();
                let content = read_with(&f.store, &open(&path), &());
                assert!(content.blob == crate::testing::blob_id(&bytes), "{before} {hole} {behind}");
            }
        }
    }
}

#[test]
fn a_file_is_read_to_its_end_whatever_length_it_had_when_it_was_looked_at() {
    let f = fixture();
    let sink = Sink::Look(&f.store, Mutex::default());
    let mut batch = Batch::new(&sink).unwrap();
    let mut reader = Reader::new(&f.store, &());
    for held in [0, 10, SINGLE_CHUNK_BYTES - 1, SINGLE_CHUNK_BYTES, SINGLE_CHUNK_BYTES + 10] {
        let bytes = noise(held, 1);
        f.write("file", &bytes);
        for told in [0, 5, 10, SINGLE_CHUNK_BYTES - 1, SINGLE_CHUNK_BYTES, SINGLE_CHUNK_BYTES + 1, 1 << 20] {
            let fd = open(&f.workspace.join("file"));
            let read = reader.read_once(fd.as_fd(), b"file", told as u64, &[], &Earlier::new(&f.store, None), &mut batch);
            assert!(read.is_ok_and(|read| read == (crate::testing::blob_id(&bytes), held as u64)), "{held} {told}");
        }
    }
}

#[test]
fn what_a_file_held_is_its_earlier_version_unless_that_was_nothing() {
    let f = fixture();
    let blob = crate::testing::blob_id(b"x");
    let of = |size| {
        let earlier = Earlier::new(&f.store, Some((blob, size)));
        (earlier.blob(), earlier.small())
    };
    let limit = SINGLE_CHUNK_BYTES as u64;
    assert_eq!([of(0), of(1)], [(None, None), (Some(blob), Some(blob))]);
    assert_eq!([of(limit), of(limit + 1)], [(Some(blob), Some(blob)), (Some(blob), None)]);
    assert_eq!(Earlier::new(&f.store, None).blob(), None);
}

#[test]
fn chunks_are_put_back_from_a_file_that_has_them_still_and_from_no_other() {
    let f = fixture();
    let bytes = noise(300_000, 1);
    f.write("file", &bytes);
    let run = |start: usize, end: usize| {
        let bytes = &bytes[start..end];
        (start as u64, ChunkRun { id: crate::testing::blob_id(bytes), bytes: bytes.len() as u32, repeat: 1 })
    };
    let lost = [run(200_000, 300_000), run(1000, 21_000), run(21_000, 21_001)];
    let put_back = |lost: &[(u64, ChunkRun)]| {
        let packs = PackSink::new(&f.store, f.store.view(), crate::id::OpId::generate(), Default::default());
        let sink = Sink::Store(Box::new(packs));
        let mut batch = Batch::new(&sink).unwrap();
        let fd = open(&f.workspace.join("file"));
        let mut reader = Reader::new(&f.store, &());
        let Ok(is_whole) = reader.put_back(fd.as_fd(), lost, &mut batch) else { panic!("not read") };
        batch.finish().unwrap();
        let Sink::Store(packs) = sink else { panic!() };
        let stored: Vec<_> = packs.finish().unwrap().objects().map(|(key, _)| key).collect();
        (is_whole, stored)
    };
    let mut keys: Vec<_> = lost.iter().map(|(_, run)| run.id.object().key()).collect();
    keys.sort_unstable();
    assert_eq!(put_back(&lost), (true, keys));
    assert_eq!(put_back(&[]), (true, vec![]));
    // It holds something else there.
    let (at, moved) = (lost[1].0 + 1, lost[1].1);
    assert_eq!(put_back(&[(at, moved)]), (false, vec![]));
    // It has become shorter; that what was read before ends alike does not make it whole.
    let zeros = vec![0; 50_000];
    f.write("file", &[&zeros[..], &zeros[..20_000]].concat());
    let run = ChunkRun { id: crate::testing::blob_id(&zeros), bytes: 50_000, repeat: 1 };
    assert_eq!(put_back(&[(0, run), (50_000, run)]), (false, vec![run.id.object().key()]));
    assert!(put_back(&[(0, run), (20_000, run)]).0);
    // No chunk is as long as that.
    let run = |bytes: usize| ChunkRun { id: crate::testing::blob_id(&vec![0; bytes]), bytes: bytes as u32, repeat: 1 };
    f.write("file", &vec![0; BLOCK_BYTES_MAX + 1]);
    assert_eq!(put_back(&[(0, run(BLOCK_BYTES_MAX + 1))]), (false, vec![]));
    assert!(put_back(&[(0, run(BLOCK_BYTES_MAX))]).0);
}
