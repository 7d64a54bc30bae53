use std::fs;

use super::*;

#[test]
fn a_change_is_seen_in_each_repetition_of_a_chunk_that_is_looked_at() {
    let file = tempfile::tempfile().unwrap();
    let chunks = [[1; 4096], [1; 4096], [1; 4096], [2; 4096]];
    file.write_all_at(&chunks.concat(), 0).unwrap();
    let run = |of: &[u8], repeat| ChunkRun { id: crate::testing::blob_id(of), bytes: 4096, repeat };
    let runs = vec![run(&chunks[0], 3), run(&chunks[3], 1)];
    let grown = AppendCache { inode: 1, bytes: 4 * 4096, settled: None, groups: Groups::default(), runs };
    let is_there = || grown.is_still_there(&crate::testing::ids(), &file, &grown.starts(), 1).unwrap();
    assert!(is_there());
    for chunk in 0..4 {
        file.write_all_at(&[3], chunk * 4096 + 7).unwrap();
        assert!(!is_there(), "{chunk}");
        file.write_all_at(&chunks[chunk as usize][..1], chunk * 4096 + 7).unwrap();
    }
    // Of a file that has become shorter, not everything is.
    file.set_len(4 * 4096 - 1).unwrap();
    assert!(!is_there());
}

#[test]
fn a_file_is_taken_for_unchanged_only_by_times_that_tell() {
    let file = tempfile::tempfile().unwrap();
    let stat = crate::sys::stat_fd(&file).unwrap();
    let here = crate::filesystem::of(file.as_fd());
    let grown = AppendCache { inode: stat.ino, bytes: 0, settled: None, groups: Groups::default(), runs: Vec::new() };
    let at = |secs: i64| Clock { time: Time { secs: stat.ctime.secs + secs, nanos: 0 }, ..Clock::now() };
    let is_unchanged = |grown: &AppendCache, stat: &Stat| grown.is_unchanged(&here, stat, &at(3));
    assert!(!is_unchanged(&grown, &stat));
    assert!(!is_unchanged(&grown.clone().settled(&here, &stat, at(0)), &stat), "in the same tick");
    assert!(!is_unchanged(&grown.clone().settled(&here, &stat, at(-5)), &stat), "before it, by a clock that went back");
    let settled = grown.settled(&here, &stat, at(3));
    assert!(is_unchanged(&settled, &stat));
    assert!(!settled.is_unchanged(&here, &stat, &at(-10)), "the clock was set back since");
    assert!(!settled.is_unchanged(&Filesystem::default(), &stat, &at(3)), "on another filesystem");
    let changed = Time { nanos: stat.ctime.nanos ^ 1, ..stat.ctime };
    let others = [Stat { ctime: changed, ..stat }, Stat { size: 1, ..stat }, Stat { ino: stat.ino + 1, ..stat }];
    assert!(others.iter().all(|other| !is_unchanged(&settled, other)));
    // What is kept says the same.
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir_all(layout.cache()).unwrap();
    settled.write(&layout, Path::new("/f"), Ulid::from_bytes([7; 16])).unwrap();
    assert_eq!(AppendCache::read(&layout, Path::new("/f")).unwrap(), (Ulid::from_bytes([7; 16]), settled));
}

#[test]
fn what_is_kept_and_does_not_fit_together_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir_all(layout.cache()).unwrap();
    let group = crate::create::running::GROUP_BYTES;
    let is_read = |bytes: u64, run_bytes: &[u32], count: u64| {
        let nodes = vec![[1; 32]; count.count_ones() as usize];
        let runs =
            run_bytes.iter().map(|bytes| ChunkRun { id: crate::testing::blob_id(b"x"), bytes: *bytes, repeat: 2 }).collect();
        let grown = AppendCache { inode: 1, bytes, settled: None, groups: Groups { count, nodes }, runs };
        grown.write(&layout, Path::new("/f"), Ulid::from_bytes([7; 16])).unwrap();
        AppendCache::read(&layout, Path::new("/f")).is_some_and(|(_, read)| read == grown)
    };
    let half = (group / 2) as u32;
    assert!(is_read(0, &[], 0) && is_read(2 * group, &[half, half], 1) && is_read(4 * group, &[half; 4], 3));
    assert!(!is_read(group, &[half, half], 0) && !is_read(3 * group, &[half, half], 1), "the chunks have another length");
    assert!(!is_read(group, &[half], 1) && !is_read(group, &[half], 2), "what is hashed for good is all of it, or more");
    assert!(!is_read(0, &[], 1) && !is_read(0, &[], 1 << 44));
}
