//! Disks with bad sectors: what they cannot read now may be read later, and what they can is not lost with it.

use std::{fs, path::PathBuf};

use parhelia_tests::{
    Scratch, files_in, make_store, noise,
    recorder::{Cut, Recorder},
    write,
};

/// A store on a recorder.
struct Lab {
    scratch: Scratch,
    recorder: Recorder,
}

impl Lab {
    fn new() -> Self {
        let (mut scratch, recorder) = (Scratch::without_store(), Recorder::mount());
        recorder.stop_logging();
        let store = recorder.path().join("store");
        make_store(&store);
        scratch.put_store(store);
        Lab { scratch, recorder }
    }

    /// Makes a checkpoint of files in a folder of their own, which are packed by themselves.
    fn keep(&self, seed: u64) -> String {
        for i in 0..20 {
            write(&self.scratch.path(&format!("work/{seed}/f{i}")), &noise(150_000, seed * 100 + i)).unwrap();
        }
        self.scratch.create("s", &self.scratch.path("work"))
    }

    /// The largest file in a folder of the store, from the recorder's root, and its length.
    fn largest(&self, folder: &str) -> (String, u64) {
        let files = fs::read_dir(self.scratch.store().join(folder)).unwrap().map(|entry| entry.unwrap());
        let files = files.map(|entry| (entry.metadata().unwrap().len(), entry.file_name()));
        let (length, name) = files.max().unwrap();
        (format!("store/{folder}/{}", name.to_string_lossy()), length)
    }

    fn assert_whole(&self, id: &str) {
        let out = self.scratch.path(&format!("out-{id}"));
        self.scratch.restore(id, &out);
        assert_eq!(files_in(&out), files_in(&self.scratch.path("work")));
    }
}

#[test]
fn a_repair_keeps_a_pack_that_the_disk_could_not_read() {
    let lab = Lab::new();
    let s = &lab.scratch;
    lab.keep(1);
    let id = lab.keep(2);
    let (pack, length) = lab.largest("packs");
    lab.recorder.spoil(&pack, length / 4..length * 3 / 4);
    let said = String::from_utf8_lossy(&s.run(&["check", "--repair"]).stdout).into_owned();
    assert!(said.contains(".pack.unreadable") && said.contains("cannot read all of pack"), "{said}");
    lab.recorder.mend();
    assert_ne!(s.run(&["checkpoint", "verify", &id, "--deep"]).status.code(), Some(0));
    let packs: PathBuf = s.store().join("packs");
    let kept = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "unreadable")).unwrap();
    assert_eq!(fs::metadata(&kept).unwrap().len(), length);
    s.run(&["gc"]);
    assert!(kept.exists());
    fs::rename(&kept, kept.with_extension("")).unwrap();
    s.expect(0, &["check", "--repair"]);
    s.expect(0, &["check", "--read-data"]);
    lab.assert_whole(&id);
}

/// True if some file among the packs has these bytes, under whatever name.
fn is_kept(lab: &Lab, good: &[u8]) -> bool {
    let files = fs::read_dir(lab.scratch.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().any(|path| fs::read(path).is_ok_and(|bytes| bytes == good))
}

#[test]
fn a_repair_keeps_a_pack_that_could_not_be_read_for_a_while() {
    let lab = Lab::new();
    let s = &lab.scratch;
    let id = lab.keep(1);
    let (pack, length) = lab.largest("packs");
    let path = lab.recorder.path().join(&pack);
    let whole = fs::read(&path).unwrap();
    for is_damaged in [false, true] {
        for failing in [1, 40, 300, 450, 600, 800, 1500] {
            let mut bytes = whole.clone();
            if is_damaged {
                bytes[length as usize / 30..][..300].fill(0);
            }
            fs::write(&path, &bytes).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(200));
            lab.recorder.copy("store", "kept");
            lab.recorder.spoil_reads(&pack, length / 4..length * 3 / 4, 0..failing);
            s.run(&["check", "--repair"]);
            lab.recorder.mend();
            let is_whole = s.run(&["checkpoint", "verify", &id, "--deep"]).status.code() == Some(0);
            assert!(is_whole || is_kept(&lab, &bytes), "{failing} reads fail, damaged {is_damaged}");
            lab.recorder.forget("store");
            lab.recorder.copy("kept", "store");
            lab.recorder.forget("kept");
        }
    }
    // It cannot even be opened.
    lab.recorder.spoil_opens(&pack, 0..u64::MAX);
    let said = String::from_utf8_lossy(&s.run(&["check", "--repair"]).stdout).into_owned();
    lab.recorder.mend();
    assert!(is_kept(&lab, &fs::read(path.with_extension("pack.unreadable")).unwrap()), "{said}");
}

#[test]
fn what_could_be_read_before_a_repair_can_be_read_after() {
    let lab = Lab::new();
    let s = &lab.scratch;
    for i in 0..40 {
        // Text that compresses, so that many files share a block.
        let text: String = noise(75_000, i).iter().map(|byte| char::from(b'a' + byte % 16)).collect();
        write(&s.path(&format!("work/f{i}")), text.as_bytes()).unwrap();
    }
    let id = s.create("s", &s.path("work"));
    let (pack, length) = lab.largest("packs");
    let bytes = fs::read(lab.recorder.path().join(&pack)).unwrap();
    let magic = parhelia_store::format::BLOCK_MAGIC;
    let blocks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&magic)).collect();
    assert!(blocks.len() > 3, "{blocks:?}");
    let readable =
        || (0..40).filter(|i| s.run(&["checkpoint", "cat", &format!("{id}:f{i}")]).status.success()).collect::<Vec<_>>();
    for from in [blocks[1] as u64 - 50_000, blocks[2] as u64 - 50_000, blocks[2] as u64 + 10_000] {
        lab.recorder.copy("store", "kept");
        lab.recorder.spoil(&pack, from..(from + 130_000).min(length));
        let before = readable();
        s.run(&["check", "--repair"]);
        let after = readable();
        assert!(before.len() < 40 && before.iter().all(|i| after.contains(i)), "{from}: {before:?}, {after:?}");
        lab.recorder.mend();
        lab.recorder.forget("store");
        lab.recorder.copy("kept", "store");
        lab.recorder.forget("kept");
    }
}

#[test]
fn a_store_that_was_repaired_on_a_bad_disk_is_copied_without_what_was_set_aside() {
    let (lab, last, segment, _) = tagged(false);
    let s = &lab.scratch;
    let (pack, length) = lab.largest("packs");
    lab.recorder.spoil(&segment, 0..4096);
    lab.recorder.spoil(&pack, length / 4..length * 3 / 4);
    s.run(&["check", "--repair"]);
    let copy = s.path("copy");
    // Packs are lost, and it says so; what could not be read is no reason to.
    let said = s.run(&["copy-store", copy.to_str().unwrap(), "--init"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!text.contains("os error 5"), "{text}");
    assert!(s.run(&["--store", copy.to_str().unwrap(), "list", "--json"]).status.success(), "{text}");
    let names =
        |folder: &str| fs::read_dir(copy.join(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        !names("packs").chain(names("journal")).any(|name| name.contains("unreadable") || name.contains("damaged")),
        "{last}"
    );
}

#[test]
fn what_can_be_read_of_a_pack_is_copied() {
    let lab = Lab::new();
    let s = &lab.scratch;
    let id = lab.keep(1);
    let (pack, length) = lab.largest("packs");
    lab.recorder.spoil(&pack, length / 2..length * 3 / 4);
    let copy = s.path("copy");
    let copy = copy.to_str().unwrap();
    let said = s.run(&["copy-store", copy, "--init"]);
    assert_ne!(said.status.code(), Some(0), "{said:?}");
    let there = fs::read_dir(s.path("copy/packs")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(there.max(), Some(length));
    let read = |i| s.run(&["--store", copy, "checkpoint", "cat", &format!("{id}:1/f{i}")]);
    let failed: Vec<_> = (0..20).map(read).filter(|output| !output.status.success()).collect();
    assert!((1..20).contains(&failed.len()), "{} fail: {said:?}, {:?}", failed.len(), failed.first());
}

#[test]
fn a_file_beside_the_packs_that_cannot_be_read_is_missed_in_the_copy() {
    let lab = Lab::new();
    let s = &lab.scratch;
    lab.keep(1);
    s.expect(0, &["memory", "save", "gotchas", "the tests need root", "--workspace", s.path("work").to_str().unwrap()]);
    let (memory, length) = lab.largest("memory");
    lab.recorder.spoil(&memory, 0..length);
    let copy = s.path("copy");
    let copy = copy.to_str().unwrap();
    let said = s.run(&["copy-store", copy, "--init", "--json"]);
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("\"left_out_files\":1"), "{said:?}");
    lab.recorder.mend();
    s.expect(0, &["copy-store", copy]);
    assert!(s.path("copy").join(memory.strip_prefix("store/").unwrap()).exists());
}

/// A store with two checkpoints and sixty tags between them, in an index or in the journal alone; the last checkpoint, and the journal's segment.
fn tagged(has_index: bool) -> (Lab, String, String, u64) {
    let lab = Lab::new();
    let s = &lab.scratch;
    let id = lab.keep(1);
    for i in 0..60 {
        s.expect(0, &["tag", &id, &format!("t{i}"), "--quiet"]);
    }
    let last = lab.keep(2);
    let (segment, length) = lab.largest("journal");
    assert!(length > 5 * 4096, "{length}");
    match has_index {
        true => _ = s.expect(0, &["check", "--rebuild-index"]),
        false => fs::remove_dir_all(s.store().join("view")).unwrap(),
    }
    (lab, last, segment, length)
}

/// Files of the journal with this ending.
fn journal_files(lab: &Lab, ending: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(lab.scratch.store().join("journal")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[test]
fn records_around_a_bad_sector_of_the_journal_are_read_and_kept() {
    for has_index in [false, true] {
        let (lab, last, segment, _) = tagged(has_index);
        let s = &lab.scratch;
        lab.recorder.spoil(&segment, 2 * 4096..3 * 4096);
        let listed = s.expect(0, &["list"]);
        assert!(listed.contains(&last[..8]), "{listed}");
        if !has_index {
            let refused = s.run(&["create", "s", "--workspace", s.path("work").to_str().unwrap(), "--message", "x"]);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains("check --repair"), "{said}");
        }
        s.run(&["check", "--repair"]);
        lab.recorder.mend();
        s.expect(0, &["check", "--read-data"]);
        let tags = s.expect(0, &["list", "--json"]);
        assert!(tags.contains("\"t0\"") && tags.contains("\"t59\""), "{tags}");
        lab.assert_whole(&last);
    }
}

#[test]
fn no_bad_sector_of_the_journal_stops_who_reads() {
    for has_index in [false, true] {
        let (lab, last, segment, length) = tagged(has_index);
        let s = &lab.scratch;
        for at in (0..length).step_by(4096) {
            lab.recorder.spoil(&segment, at..at + 4096);
            let listed = s.expect(0, &["list"]);
            // The last record may be what cannot be read.
            let may_lack_it = !has_index && at + 2 * 4096 > length;
            assert!(may_lack_it || listed.contains(&last[..8]), "{at} {has_index}: {listed}");
            s.run(&["checkpoint", "cat", &format!("{last}:1/f1")]);
        }
        lab.recorder.mend();
        lab.assert_whole(&last);
    }
}

#[test]
fn a_segment_that_the_disk_cannot_read_keeps_its_file_through_every_repair() {
    for sector in [0, 2] {
        let (lab, last, segment, _) = tagged(false);
        let s = &lab.scratch;
        let path = lab.recorder.path().join(&segment);
        let good = fs::read(&path).unwrap();
        // From an earlier repair.
        fs::write(path.with_extension("unreadable"), "earlier").unwrap();
        fs::write(path.with_extension("damaged"), "earlier").unwrap();
        lab.recorder.spoil(&segment, sector * 4096..(sector + 1) * 4096);
        s.run(&["check", "--repair"]);
        s.run(&["check", "--repair"]);
        lab.recorder.mend();
        for ending in ["unreadable", "damaged"] {
            assert_eq!(fs::read(path.with_extension(ending)).unwrap(), b"earlier");
        }
        assert_eq!(fs::read(path.with_extension("unreadable.1")).unwrap(), good, "{sector}");
        s.expect(0, &["check", "--read-data"]);
        lab.assert_whole(&last);
    }
}

#[test]
fn a_journal_that_cannot_be_read_for_a_while_is_not_mended() {
    let (lab, last, segment, length) = tagged(false);
    let s = &lab.scratch;
    let good = fs::read(lab.recorder.path().join(&segment)).unwrap();
    // All of it; and for a moment alone.
    for failing in [0..u64::MAX, 0..3, 2..9] {
        lab.recorder.spoil_reads(&segment, 0..length, failing.clone());
        let said = s.run(&["check", "--repair"]);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(failing.end < u64::MAX || text.contains("it may be whole, so nothing was mended"), "{text}");
        lab.recorder.mend();
        assert_eq!(fs::read(lab.recorder.path().join(&segment)).unwrap()[..good.len()], good, "{failing:?}");
        assert!(journal_files(&lab, "unreadable").is_empty() && journal_files(&lab, "damaged").is_empty(), "{failing:?}");
        let listed = s.expect(0, &["list", "--json"]);
        assert!(listed.contains("\"t0\"") && listed.contains("\"t59\"") && listed.contains(&last), "{listed}");
    }
}

#[test]
fn a_power_cut_during_a_repair_keeps_a_segment_that_the_disk_cannot_read() {
    let (mut scratch, recorder) = (Scratch::without_store(), Recorder::mount());
    let store = recorder.path().join("store");
    make_store(&store);
    scratch.put_store(store.clone());
    write(&scratch.path("work/f"), b"some words").unwrap();
    let id = scratch.create("s", &scratch.path("work"));
    for i in 0..40 {
        scratch.expect(0, &["tag", &id, &format!("t{i}"), "--quiet"]);
    }
    fs::remove_dir_all(store.join("view")).unwrap();
    let segment = "journal/00000000000000000001.log";
    let good = fs::read(store.join(segment)).unwrap();
    recorder.spoil(&format!("store/{segment}"), 2 * 4096..3 * 4096);
    let start = recorder.mark();
    scratch.run(&["check", "--repair"]);
    let history = recorder.history();
    for n in start..=history.entries.len() {
        if !history.entries[n - 1].path.to_string_lossy().contains("journal") {
            continue;
        }
        for cut in [Cut::Lost, Cut::Kept].into_iter().chain((0..8).map(Cut::Some)) {
            let left = tempfile::tempdir().unwrap();
            history.image(n, cut).write_out(std::path::Path::new("store/journal"), &left.path().join("journal")).unwrap();
            let files = fs::read_dir(left.path().join("journal")).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
            assert!(
                files.into_iter().any(|bytes| bytes == good),
                "{n} of {start}..{}, {cut:?}: {:?}",
                history.entries.len(),
                history.entries[n - 1]
            );
        }
    }
}
