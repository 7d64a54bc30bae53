//! Recipes that nothing reads any more, in packs that stay. Whoever writes such a file again finds its recipe, and takes it as it is.

use super::*;
use crate::{
    check::{self, CheckOptions},
    id::ObjectId,
    pack::ObjectKind,
    recipe::{self, ChunkRun},
};

const OFTEN: GcOptions = GcOptions::below(70);

/// A store in which no object builds on another.
fn store_with_cut(bytes: usize) -> TestStore {
    let test = TestStore::new();
    test.builds.set(false);
    test.cut.set(bytes);
    test
}

/// A file for each piece, whose content is one chunk.
fn pieces(bytes: &[u8], cut: usize) -> Files {
    bytes.chunks(cut).enumerate().map(|(i, piece)| (format!("piece{i}"), piece.to_vec())).collect()
}

fn one(name: &str, bytes: &[u8]) -> Files {
    [(name.to_owned(), bytes.to_vec())].into()
}

fn pack_of(test: &TestStore, id: ObjectId) -> PackId {
    test.store.refresh().unwrap().locate(id).unwrap().unwrap().pack
}

fn assert_clean(test: &TestStore) {
    let checked = check::run(test.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
}

#[test]
fn what_a_dead_recipe_is_made_of_goes_with_it_or_not_at_all() {
    // One node alone, and several.
    for (cut, is_long) in [(2000, false), (10, true)] {
        for options in [GcOptions::no_repack(), OFTEN, everything()] {
            let test = store_with_cut(cut);
            let start = content(1, 5);
            let whole = [start.clone(), content(2, 3)].concat();
            let kept = one("kept", &content(3, 0)[..cut.min(100)]);
            // Chunks, a part of the recipe, and the recipe are in three packs; only the last one holds something that lives.
            let mut dead = vec![test.checkpoint(&pieces(&start, cut)), test.checkpoint(&one("start", &start))];
            let both: Files = kept.clone().into_iter().chain(one("whole", &whole)).collect();
            dead.push(test.checkpoint(&both));
            let id = test.checkpoint(&kept);
            let blob = crate::testing::blob_id(&whole);
            let root = test
                .store
                .read_object(ObjectKind::RecipeRoot, crate::testing::ids().recipe_root(blob), |b| {
                    recipe::decode_root(&crate::testing::ids(), blob, b)
                })
                .unwrap();
            match root {
                recipe::Node::Nodes(nodes) if is_long => {
                    let shared = nodes.iter().filter(|(node, _)| {
                        pack_of(&test, node.object()) != pack_of(&test, crate::testing::ids().recipe_root(blob))
                    });
                    assert!(shared.count() > 0);
                }
                recipe::Node::Chunks(_) if !is_long => {}
                other => panic!("{other:?}"),
            }
            dead.into_iter().for_each(|id| test.delete(id));
            run(&test.store, &options, &()).unwrap();
            assert_clean(&test);
            let other = test.another();
            let again = other.checkpoint(&both);
            all_read_back(&other, &[(id, kept), (again, both)].into());
        }
    }
}

#[test]
fn a_dead_recipe_holds_on_to_nothing_that_lives_anyway() {
    let test = store_with_cut(2000);
    let (whole, large) = (content(1, 5), content(2, 1));
    let mut mixed = pieces(&whole, 2000);
    let living = mixed.clone();
    mixed.extend((10..30).map(|i| (format!("dead{i}"), content(i, 1)[..1600].to_vec())));
    let dead = test.checkpoint(&mixed);
    // The recipe's own pack is in use for the most part.
    let kept: Files = (40..60).map(|i| (format!("kept{i}"), [large.clone(), content(i, 0)].concat())).collect();
    let dead = [dead, test.checkpoint(&kept.clone().into_iter().chain(one("whole", &whole)).collect())];
    let all: Files = kept.into_iter().chain(living).collect();
    let id = test.checkpoint(&all);
    let chunks = pack_of(&test, crate::testing::blob_id(&whole[..2000]).object());
    dead.into_iter().for_each(|id| test.delete(id));
    let planned = plan(&test.store, &OFTEN, &()).unwrap();
    assert_eq!((planned.delete.len(), planned.repack), (0, vec![chunks]));
    run(&test.store, &OFTEN, &()).unwrap();
    assert_clean(&test);
    all_read_back(&test.another(), &[(id, all)].into());
}

#[test]
fn a_dead_recipe_of_which_a_part_is_missing_goes() {
    for options in [OFTEN, GcOptions::below(1)] {
        let test = store_with_cut(2000);
        let whole = content(1, 5);
        let blob = crate::testing::blob_id(&whole);
        let kept = test.forge(|sink| {
            let chunk = |bytes: &[u8]| ChunkRun { id: crate::testing::blob_id(bytes), bytes: bytes.len() as u32, repeat: 1 };
            let runs: Vec<ChunkRun> = whole.chunks(2000).map(chunk).collect();
            recipe::encode(&crate::testing::ids(), blob, &runs).into_iter().for_each(|encoded| sink.put(encoded).unwrap());
            let content = content(2, 5);
            let kind = crate::tree::Kind::File { size: content.len() as u64, blob: sink.chunk(&content), holes: Vec::new() };
            sink.nodes(&[crate::tree::Node { name: b"f".to_vec(), meta: crate::testing::meta(), links: 1, kind }])
        });
        let report = run(&test.store, &options, &()).unwrap();
        assert_eq!((report.added_packs, report.dropped_packs), (1, 1));
        assert!(test.store.refresh().unwrap().locate(crate::testing::ids().recipe_root(blob)).unwrap().is_none());
        // Written again, it is made anew.
        let again = test.checkpoint(&one("whole", &whole));
        assert_eq!(test.content(&test.get(again)).unwrap(), one("whole", &whole));
        assert_eq!(test.content(&kept).unwrap(), one("f", &content(2, 5)));
    }
}
