//! The book of a capture: what it is shown is not scanned again, and what it is not shown is scanned all the same.

use std::{fs, path::PathBuf};

use parhelia_store::{
    OpenOptions, Store,
    create::{self, Options, Outcome},
};

use super::*;
use crate::scan::known::{self, ContentClass, key};
use parhelia_host::config::{OnFinding, Secrets as Settings};

struct Fixture {
    _dir: tempfile::TempDir,
    store: Store,
    work: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store =
            parhelia_ledger::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
        let work = dir.path().join("work");
        fs::create_dir(&work).unwrap();
        Fixture { store, work, _dir: dir }
    }

    /// A checkpoint of a session, and the scan of what is new in it. It is shown to a book while it is captured, or not.
    fn create(&self, session: &str, is_shown: bool) -> (Outcome, Scan) {
        let book = Book::new(&self.store, &Settings { scan: true, ..Settings::default() }).unwrap().unwrap();
        let judge = is_shown.then(|| book.judge(false));
        let options = Options { workspace: self.work.clone(), session: session.into(), judge, ..Options::default() };
        let made = create::run(&self.store, &options, &()).unwrap();
        let scanned = of_new(&self.store, &made.checkpoint, &book, OnFinding::Report, &()).unwrap();
        (made, scanned.unwrap().scan)
    }
}

fn secret(letter: char) -> String {
    format!("token = '{}{}{letter}'\n", "ghp_", word(35))
}

#[test]
fn what_is_shown_while_it_is_captured_is_found_as_what_is_read_from_the_store() {
    let mut found = Vec::new();
    for is_shown in [true, false] {
        let f = Fixture::new();
        for (i, bytes) in [10usize, 70_000, 300_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1].into_iter().enumerate() {
            let text = format!("{}{}", secret('a'), "0123456 ".repeat(bytes / 8 + 1));
            fs::write(f.work.join(format!("{i}.py")), &text[..bytes.max(60)]).unwrap();
        }
        // A hole in front, and one behind.
        for (name, at) in [("front", 600_000u64), ("behind", 0)] {
            use std::os::unix::fs::FileExt;
            let file = fs::File::create(f.work.join(name)).unwrap();
            file.set_len(900_000).unwrap();
            file.write_all_at(secret('b').as_bytes(), at).unwrap();
        }
        fs::write(f.work.join("late zeros"), format!("{}{}\0", secret('c'), "x = 1;\n".repeat(2000))).unwrap();
        let mut scan = f.create("s", is_shown).1;
        scan.findings.iter_mut().for_each(|finding| finding.fingerprint.clear());
        found.push((scan.found, scan.files, scan.unscanned, scan.findings));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!((found[0].0, found[0].2.too_large), (6, 1), "{found:?}");
}

#[test]
fn content_that_is_known_is_not_scanned_again_and_only_by_these_rules() {
    let f = Fixture::new();
    for i in 0..100 {
        fs::write(f.work.join(format!("{i:03}.py")), format!("value = {i}\n")).unwrap();
    }
    fs::write(f.work.join("zz.py"), secret('x')).unwrap();
    assert_eq!(f.create("first", true).1.found, 1);
    let path = known::path(&f.store);
    let known = known::read(&path);
    let ids = f.store.ids();
    assert_eq!(known.len(), 100);
    assert!(known.contains(&key(ids.blob(b"value = 7\n"), ContentClass::Text)));
    assert!(!known.contains(&key(ids.blob(secret('x').as_bytes()), ContentClass::Text)));
    // Somebody has found the secret to be none: whoever goes by that does not look at it again.
    known::add(&path, &[key(ids.blob(secret('x').as_bytes()), ContentClass::Text)]).unwrap();
    assert_eq!(f.create("second", false).1.found, 0);
    // In a settings file other rules hold.
    fs::rename(f.work.join("zz.py"), f.work.join("zz.env")).unwrap();
    assert_eq!(f.create("third", false).1.found, 1);
    fs::remove_file(&path).unwrap();
    fs::rename(f.work.join("zz.env"), f.work.join("zz.py")).unwrap();
    assert_eq!(f.create("fourth", false).1.found, 1);
}
