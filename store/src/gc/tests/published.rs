//! Commits between the survey and the publication.

use super::*;
use crate::{pack::ObjectKind, recipe, view::tests::with_cached_lengths};

/// Collects garbage up to the publication, with something done behind the survey. Returns how many packs were condemned.
fn publish_behind(test: &TestStore, options: &GcOptions, meanwhile: impl FnOnce()) -> u64 {
    let pin = Pin::take(&test.store.layout().pins(), true, "gc").unwrap();
    let mut survey = Survey::take(&test.store, &()).unwrap();
    let mut choice = survey.choose(options);
    let mut number = 0;
    let mut added = NewPacks::new(&test.store, pin.op, &mut number);
    repack::copy(&test.store, &mut survey, &mut choice, &mut added, &()).unwrap();
    meanwhile();
    let condemned: BTreeSet<PackId> = choice.delete.union(&choice.repack).copied().collect();
    assert!(!condemned.is_empty());
    let mut room = Room::new(test.store.layout());
    publish::publish(&test.store, pin.op, &mut survey, condemned, added, &mut room, &()).unwrap().condemned
}

#[test]
fn a_commit_of_another_process_is_seen_though_no_file_seems_to_have_grown() {
    let test = TestStore::new();
    let other = test.another();
    let a = test.checkpoint(&files(1, 12));
    let b = test.checkpoint(&files(2, 12));
    test.delete(a);
    test.store.refresh().unwrap();
    other.store.refresh().unwrap();
    let mut back = None;
    with_cached_lengths(|| {
        publish_behind(&test, &everything(), || back = Some(other.commit(other.draft("test", &files(1, 12))).unwrap()));
    });
    all_read_back(&test, &[(b, files(2, 12)), (back.unwrap(), files(1, 12))].into());
}

#[test]
fn a_new_recipe_keeps_its_chunks_though_its_file_was_known_whole() {
    let test = TestStore::new();
    let long = content(7, 5);
    let one: Files = [("a".to_owned(), long.clone())].into();
    test.cut.set(long.len());
    test.checkpoint(&one);
    let pieces: Files = long.chunks(2000).enumerate().map(|(i, piece)| (format!("piece{i}"), piece.to_vec())).collect();
    let dead = test.checkpoint(&pieces);
    test.delete(dead);
    // The same tree, which is not walked again; but its file is cut now, into pieces that nothing else needs.
    test.cut.set(2000);
    let condemned = publish_behind(&test, &GcOptions::no_repack(), || {
        test.commit(test.draft("test", &one)).unwrap();
    });
    assert_eq!(condemned, 0);
    let (blob, store) = (crate::testing::blob_id(&long), test.open());
    let read = |bytes: &[u8]| recipe::decode_root(&crate::testing::ids(), blob, bytes);
    let recipe::Node::Chunks(runs) =
        store.read_object(ObjectKind::RecipeRoot, crate::testing::ids().recipe_root(blob), read).unwrap()
    else {
        panic!("the recipe has more than one node")
    };
    assert_eq!(runs.len(), pieces.len());
    assert!(runs.iter().all(|run| store.view().locate(run.id.object()).unwrap().is_some()));
}
