//! Packs that cannot be read, syncs that fail, and what must go together or not at all.

use std::{
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::*;
use crate::{
    check::{self, CheckOptions},
    id::ObjectId,
    pack::{Location, ObjectKind},
    recipe,
};

fn file(name: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    (name.to_owned(), bytes.to_vec())
}

/// A store whose packs go by themselves, and whose files have no recipes.
fn plain_store() -> TestStore {
    let test = TestStore::new();
    test.builds.set(false);
    test.cut.set(20_000);
    test
}

fn pack_of(test: &TestStore, id: ObjectId) -> PackId {
    test.store.refresh().unwrap().locate(id).unwrap().unwrap().pack
}

/// Collects notices.
#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl Progress for Said {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Flips all bits of a block's payload.
fn damage_block(test: &TestStore, at: Location) {
    let path = test.store.layout().pack(at.pack);
    let directory = PackFile::open(test.store.layout(), at.pack).unwrap().read_directory(at.offset).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let payload = at.offset as usize + directory.directory_end..at.offset as usize + at.block_bytes as usize;
    bytes[payload].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_pack_that_cannot_be_read_stays_and_gc_goes_on_where_it_can_tell_what_is_needed() {
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        Missing,
        EndCut,
        Unreadable,
    }
    for fault in [Fault::Missing, Fault::EndCut, Fault::Unreadable] {
        let test = plain_store();
        let (x, y) = (file("x", &content(1, 5)), file("y", &content(2, 5)));
        let first = test.checkpoint(&[x.clone()].into());
        let kept: Files = [x.clone(), y].into();
        let second = test.checkpoint(&kept);
        let dead = test.checkpoint(&[file("z", &content(3, 5))].into());
        [first, dead].into_iter().for_each(|id| test.delete(id));
        test.store.absorb().unwrap();
        // Of the first pack, content alone is needed.
        let pack = pack_of(&test, crate::testing::blob_id(&x.1).object());
        let path = test.store.layout().pack(pack);
        let whole = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        match fault {
            Fault::Missing => {}
            Fault::EndCut => std::fs::write(&path, &whole[..whole.len() - 3]).unwrap(),
            Fault::Unreadable => std::fs::create_dir(&path).unwrap(),
        }
        let said = Said::default();
        let report = run(&test.open(), &everything(), &said);
        let said = said.0.into_inner().unwrap().join("\n");
        match fault {
            // Its blocks may build on anything.
            Fault::Missing => {
                assert_eq!(report.unwrap().condemned_packs, 0);
                assert!(said.contains(&format!("pack {pack} is missing")) && said.contains("gc removes nothing"), "{said}");
            }
            Fault::EndCut => {
                assert!(report.unwrap().dropped_packs > 0);
                assert!(said.contains(&format!("pack {pack} is damaged")), "{said}");
            }
            // It may be whole.
            Fault::Unreadable => {
                assert!(!report.unwrap_err().is_damage());
                assert_eq!(pack_files(&test), 3);
                std::fs::remove_dir(&path).unwrap();
            }
        }
        std::fs::write(&path, whole).unwrap();
        all_read_back(&test.another(), &BTreeMap::from([(second, kept)]));
    }
}

#[test]
fn a_dead_recipe_that_cannot_be_read_goes_and_stops_nothing() {
    for is_root in [true, false] {
        let test = plain_store();
        test.cut.set(10);
        let long = file("long", &content(1, 5));
        // Too much of the pack for it to be copied because it is little.
        let kept: Files = (0..100).map(|i| file(&format!("small{i}"), format!("small{i}").as_bytes())).collect();
        let dead = test.checkpoint(&kept.clone().into_iter().chain([long.clone()]).collect());
        let id = test.checkpoint(&kept);
        let blob = crate::testing::blob_id(&long.1);
        let at = |id| test.store.view().locate(id).unwrap().unwrap();
        let read = |bytes: &[u8]| recipe::decode_root(&crate::testing::ids(), blob, bytes);
        let root = test.store.read_object(ObjectKind::RecipeRoot, crate::testing::ids().recipe_root(blob), read).unwrap();
        let recipe::Node::Nodes(nodes) = root else { panic!("the recipe has one node alone") };
        let node = at(nodes[0].0.object());
        assert_ne!(node, at(crate::testing::ids().recipe_root(blob)));
        test.delete(dead);
        damage_block(&test, if is_root { at(crate::testing::ids().recipe_root(blob)) } else { node });
        let test = test.another();
        let report = run(&test.store, &GcOptions::below(1), &()).unwrap();
        assert_eq!((report.dropped_packs, report.added_packs), (1, 1));
        all_read_back(&test, &BTreeMap::from([(id, kept)]));
        let checked = check::run(test.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(checked.is_clean(), "{:?}", checked.findings);
    }
}

#[test]
fn a_dead_block_and_what_it_builds_on_go_together_or_not_at_all() {
    for options in [GcOptions::no_repack(), GcOptions::below(1), everything()] {
        let dir = tempfile::tempdir().unwrap();
        let open = crate::OpenOptions { create: true, ..Default::default() };
        let store = Store::open(&dir.path().join("store"), &open).unwrap();
        let workspace = dir.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let create = || {
            let options = crate::create::Options { workspace: workspace.clone(), session: "s".into(), ..Default::default() };
            crate::create::run(&store, &options, &()).unwrap().checkpoint
        };
        let write = |name: &str, bytes: &[u8]| std::fs::write(workspace.join(name), bytes).unwrap();
        let (first, mut second) = (content(1, 5), content(1, 5));
        second[3000..3004].copy_from_slice(b"edit");
        write("f", &first);
        let dead = create().record.id;
        write("f", &second);
        write("g", &content(2, 5));
        let also_dead = create().record.id;
        let block = store.object_block(ObjectKind::Chunk, crate::testing::blob_id(&second).object()).unwrap();
        assert_eq!(block.depth, 1);
        std::fs::remove_file(workspace.join("f")).unwrap();
        create();
        crate::delete::delete_checkpoints(&store, &[dead, also_dead], None, &()).unwrap();
        run(&store, &options, &()).unwrap();
        // Whoever writes the dead version again may find it in the store.
        write("f", &second);
        let again = create();
        let found = content_of(&Store::open(store.path(), &Default::default()).unwrap(), &again).unwrap();
        assert_eq!(found, Files::from([file("f", &second), file("g", &content(2, 5))]));
        let checked = check::run(store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(checked.is_clean(), "{:?}", checked.findings);
    }
}

#[test]
fn a_pin_that_came_too_late_for_content_alone_does_not_stop_gc() {
    let test = plain_store();
    let (x, y) = (file("x", &content(1, 5)), file("y", &content(2, 5)));
    let first = test.checkpoint(&[x.clone()].into());
    let both = test.checkpoint(&[x, y.clone()].into());
    let kept = test.checkpoint(&[y.clone()].into());
    [first, both].into_iter().for_each(|id| test.delete(id));
    // The content of `x` goes; record and trees of the second checkpoint stay beside `y`.
    assert_eq!(run(&test.store, &GcOptions::no_repack(), &()).unwrap().dropped_packs, 1);
    let mut pin = Pin::take(&test.store.layout().pins(), false, "mount").unwrap();
    pin.add([both]).unwrap();
    let report = run(&test.store, &everything(), &()).unwrap();
    assert_eq!(report.plan.checkpoints, 1);
    all_read_back(&test, &BTreeMap::from([(kept, [y].into())]));
}

#[test]
fn what_checkpoints_share_is_looked_at_once() {
    struct Entries(AtomicU64);
    impl Progress for Entries {
        fn advance(&self, entries: u64, _: u64) {
            self.0.fetch_add(entries, Ordering::Relaxed);
        }
    }
    let looked_at = |checkpoints: usize| {
        let test = plain_store();
        (0..checkpoints).for_each(|_| _ = test.checkpoint(&files(1, 9)));
        let entries = Entries(AtomicU64::new(0));
        Survey::take(&test.store, &entries).unwrap();
        entries.0.into_inner()
    };
    assert_eq!((looked_at(1), looked_at(4)), (12, 12));
}

#[test]
fn of_a_run_that_could_not_sync_what_it_copied_nothing_is_left() {
    let test = TestStore::new();
    let (dead, kept) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    test.delete(dead);
    let packs = || -> Vec<PathBuf> {
        let mut found: Vec<_> =
            std::fs::read_dir(test.store.layout().packs()).unwrap().map(|pack| pack.unwrap().path()).collect();
        found.sort();
        found
    };
    let before = packs();
    for (number, what) in [(0, "sync pack"), (1, "sync folder")] {
        let (failed, _) = syncs::failing(number, Errno::IO, || run(&test.store, &everything(), &()));
        assert!(failed.is_err_and(|e| e.to_string().contains(what)), "{what}");
        assert_eq!(packs(), before);
    }
    all_read_back(&test.another(), &BTreeMap::from([(kept, files(2, 9))]));
}

#[test]
fn what_is_in_use_is_estimated_by_its_share_of_the_blocks() {
    let test = plain_store();
    test.checkpoint(&files(1, 12));
    let plan = plan(&test.store, &GcOptions::no_repack(), &()).unwrap();
    assert!(plan.live_bytes <= plan.total_bytes && plan.live_bytes > plan.total_bytes * 9 / 10, "{plan:?}");
}
