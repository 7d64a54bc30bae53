//! Parity gives back flipped bits, on read, in a repair and in a gc.

use std::fs;

use parhelia_tests::{Scratch, files_in, noise, write};

use crate::damage::world::{flip_where, zero};

#[test]
fn a_flipped_bit_is_healed_on_read_and_by_a_repair() {
    let s = Scratch::new();
    let bytes = noise(700_000, 12);
    write(&s.path("work/log"), &bytes).unwrap();
    for i in 0..3u64 {
        write(&s.path(&format!("work/f{i}")), format!("content of {i}\n").repeat(20).as_bytes()).unwrap();
        s.create("s", &s.path("work"));
    }
    let work = s.path("work").to_string_lossy().into_owned();
    let packs = files_in(&s.store().join("packs"));
    flip_where(&s, &bytes[499_900..499_999]);
    // A sector of 4 KiB, as a disk loses them.
    let largest = fs::read_dir(s.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    zero(&largest, 40 * 4096, 41 * 4096);
    let damaged = files_in(&s.store().join("packs"));
    assert_ne!(damaged, packs);

    s.expect(0, &["checkpoint", "verify", "s@latest", "--deep", "--quiet"]);
    s.restore("s@latest", &s.path("out"));
    assert_eq!(files_in(&s.path("out")), files_in(&s.path("work")));
    assert_eq!(files_in(&s.store().join("packs")), damaged, "a reader writes to a pack");
    let said = s.expect(0, &["status", "--workspace", &work]);
    assert!(said.contains("1 damaged pack") && said.contains("check --repair"), "{said}");
    let said = s.expect(12, &["check"]);
    assert!(
        said.contains(&*largest.file_name().unwrap().to_string_lossy()) && said.contains("Nothing of these packs is lost"),
        "{said}"
    );
    let planned = s.expect(12, &["check", "--repair", "--dry-run"]);
    assert!(planned.contains("Would write 1 damaged pack anew as it was"), "{planned}");
    assert_eq!(files_in(&s.store().join("packs")), damaged, "a dry run changes something");
    // A create takes it for what it is: readable.
    s.create("s", &s.path("work"));
    s.expect(0, &["check", "--repair"]);
    let after = files_in(&s.store().join("packs"));
    assert!(packs.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "a repair changes a pack's content");
    s.expect(0, &["check", "--read-data", "--quiet"]);
    assert!(!s.expect(0, &["status", "--workspace", &work]).contains("damaged"));
}

#[test]
fn gc_writes_what_was_healed_into_packs_with_parity() {
    let s = Scratch::new();
    write(&s.path("work/large"), &noise(3_000_000, 1)).unwrap();
    write(&s.path("work/small"), &noise(300_000, 2)).unwrap();
    let first = s.create("s", &s.path("work"));
    fs::remove_file(s.path("work/large")).unwrap();
    write(&s.path("work/other"), b"more").unwrap();
    let second = s.create("s", &s.path("work"));
    flip_where(&s, &noise(300_000, 2)[1000..1099]);
    s.expect(0, &["checkpoint", "delete", &first, "--quiet"]);
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    // Both ends of each new pack are those of one with parity.
    for (name, pack) in files_in(&s.store().join("packs")) {
        assert!(pack.starts_with(b"PARHPACK\x02") && pack[pack.len() - 84..].starts_with(b"PARHPEN2"), "{name:?}");
    }
    flip_where(&s, &noise(300_000, 2)[2000..2099]);
    s.restore(&second, &s.path("out"));
    assert_eq!(files_in(&s.path("out")), files_in(&s.path("work")));
}
