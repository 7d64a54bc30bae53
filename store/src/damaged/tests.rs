//! Tests of the list.

use super::*;
use crate::testing::TestStore;

fn block(offset: u64) -> Location {
    Location { pack: PackId::new(OpId([1; 12]), 3), offset, block_bytes: 1 << 20 }
}

#[test]
fn what_was_noted_is_known_until_it_is_over() {
    let test = TestStore::new();
    let (store, layout) = (&test.store, test.store.layout());
    assert!(DamageSet::read(layout).is_empty());
    assert!(note(store, [block(1), block(900)], None));
    assert!(note(store, [block(7)], None) && !note(store, [block(7)], None));
    assert_eq!(DamageSet::read(layout).blocks.into_iter().collect::<Vec<_>>(), [block(1), block(7), block(900)]);
    // A stat cache goes with what is new, and with nothing else.
    let cache = layout.cache().join("a.stat");
    fs::write(&cache, "").unwrap();
    note(store, [block(7)], Some(&|block: Location| block.offset == 1));
    assert!(cache.exists() && !DamageSet::read(layout).has_block(block(1)));
    note(store, [block(8)], None);
    assert!(!cache.exists() && DamageSet::read(layout).has_block(block(8)));
    // A pack as a whole has all its blocks.
    note(store, [whole(block(1).pack)], None);
    assert!(DamageSet::read(layout).has_block(block(77)) && !DamageSet::read(layout).has_block(whole(PackId([9; 16]))));
    // A damaged list is none.
    let sound = fs::read(path(layout)).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        fs::write(path(layout), &bytes).unwrap();
        assert!(DamageSet::read(layout).is_empty());
        fs::write(path(layout), &sound[..at]).unwrap();
        assert!(DamageSet::read(layout).is_empty());
    }
    fs::write(path(layout), &sound).unwrap();
    note(store, [], Some(&|_| true));
    assert!(!path(layout).exists());
}

#[test]
fn an_object_is_known_wherever_it_lies_until_it_is_stored_again() {
    let id = crate::testing::blob_id(b"object").object();
    let known = DamageSet { blocks: [block(1)].into(), objects: [id.key()].into() };
    assert_eq!(DamageSet::decode(known.encode().split_last_chunk::<4>().unwrap().0), Ok(known.clone()));
    assert!(known.has(id, block(500)) && !known.has(crate::testing::blob_id(b"other").object(), block(500)));
    let test = TestStore::new();
    known.write(test.store.layout()).unwrap();
    heal(test.store.layout(), [[7; 20]].into_iter());
    assert_eq!(DamageSet::read(test.store.layout()), known);
    heal(test.store.layout(), [id.key()].into_iter());
    assert!(
        !DamageSet::read(test.store.layout()).has(id, block(500)) && DamageSet::read(test.store.layout()).has_block(block(1))
    );
    // The first form is read as well.
    let mut first = DAMAGED_MAGIC_1.to_vec();
    put_uint(&mut first, 0);
    assert_eq!(DamageSet::decode(&first), Ok(DamageSet::default()));
}
