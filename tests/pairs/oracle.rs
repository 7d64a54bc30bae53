//! What has to be true of a store, whatever was done to it.

use std::collections::BTreeSet;

use parhelia_store::OpenOptions;
use parhelia_tests::story::files_of;

use crate::pairs::world::{Copy, pack_bytes};

impl Copy {
    /// The checkpoints that can be read whole; none may read back other bytes.
    pub fn readable(&self, what: &str) -> BTreeSet<String> {
        let store =
            parhelia_ledger::open(&self.scratch.store(), &OpenOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut readable = BTreeSet::new();
        for checkpoint in store.checkpoints().unwrap_or_else(|e| panic!("{what}: {e}")) {
            let id = checkpoint.id();
            let expected = self.saved.get(&id).unwrap_or_else(|| panic!("{what}: there is a checkpoint {id} that should not be"));
            match files_of(&store, &checkpoint) {
                Ok(files) => {
                    assert!(files == *expected, "{what}: {id} reads back other bytes");
                    readable.insert(id);
                }
                Err(e) => assert!(e.is_damage(), "{what}: {id}: {e}"),
            }
        }
        readable
    }

    /// True if the checkpoint that was made last in this copy can be read.
    pub fn newest_is_readable(&self) -> bool {
        self.newest.as_ref().is_some_and(|newest| self.readable("the newest").contains(newest))
    }

    /// A repair with a second copy brings everything back, in one run, and takes no more room than there was.
    pub fn repair_all(&mut self, what: &str) {
        let before = pack_bytes(&self.scratch.store()).max(self.bytes);
        let whole = self.whole.to_string_lossy().into_owned();
        let (code, lines, said) = self.json(&["check", "--repair", "--read-data", "--from", &whole]);
        let lost = lines.iter().filter(|line| line["type"] == "lost").count();
        assert_eq!((code, lost), (0, 0), "{what}: the last repair: {said}");
        let after = pack_bytes(&self.scratch.store());
        assert!(after * 5 <= before * 6, "{what}: the last repair made {after} bytes of packs of {before}");
        let (readable, all) = (self.readable(what), self.saved.keys().cloned().collect());
        assert_eq!(readable, all, "{what}: after the last repair");
    }
}

/// After verbs that nobody watched: what was there at first can be read or refused, a checkpoint of now can be made and read, and with a second
/// copy everything comes back that this copy had.
pub fn spared(one: &mut Copy, what: &str) {
    let store = parhelia_ledger::open(&one.scratch.store(), &OpenOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    for checkpoint in store.checkpoints().unwrap_or_else(|e| panic!("{what}: {e}")) {
        match (files_of(&store, &checkpoint), one.saved.get(&checkpoint.id())) {
            (Ok(files), Some(expected)) => assert!(files == *expected, "{what}: {} reads back other bytes", checkpoint.id()),
            (Err(e), _) => assert!(e.is_damage(), "{what}: {}: {e}", checkpoint.id()),
            (Ok(_), None) => {}
        }
    }
    drop(store);
    one.json(&["check", "--read-data"]);
    let work = one.scratch.path("work");
    let arguments = ["create", "t", "-w", &work.to_string_lossy(), "--no-conversation", "--no-default-excludes"];
    let (code, lines, said) = one.json(&arguments);
    assert_eq!(code, 0, "{what}: {said}");
    let newest = lines.last().and_then(|line| line["id"].as_str()).unwrap_or_default().to_owned();
    let (whole, work) = (one.whole.to_string_lossy().into_owned(), work.to_string_lossy().into_owned());
    let (_, lines, said) = one.json(&["check", "--repair", "--from", &whole, "--from", &work]);
    let store = parhelia_ledger::open(&one.scratch.store(), &OpenOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    for checkpoint in store.checkpoints().unwrap_or_else(|e| panic!("{what}: {e}")) {
        let id = checkpoint.id();
        if one.saved.contains_key(&id) || id == newest {
            let read = files_of(&store, &checkpoint);
            assert!(read.is_ok(), "{what}: {id}: {:?}: {lines:?} {said}", read.err());
        }
    }
}
