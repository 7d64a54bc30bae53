//! The checkpoint that a stat cache speaks of: which one is gone on from, and when its cache is believed.

use super::{super::base::pin_base, *};
use crate::{
    damaged,
    delete::delete_checkpoints,
    id::{OpId, PackId},
    pack::Location,
    statcache::StatCache,
};

impl Fixture {
    fn cache(&self) -> Option<StatCache> {
        StatCache::open(self.store.layout(), &self.workspace.canonicalize().unwrap())
    }
}

#[test]
fn another_checkpoint_with_the_same_content_takes_the_place_of_one_that_is_gone() {
    let f = fixture();
    f.write("file", b"1");
    let (first, second) = (f.create().checkpoint, f.create().checkpoint);
    assert_eq!(first.record.root, second.record.root);
    let cache = f.cache().unwrap();
    // The second one finds nothing to write anew, unless so much time went by that the file has settled.
    let (first, second) = if cache.trailer.base == first.record.id { (first, second) } else { (second, first) };
    f.write("file", b"other");
    f.create();
    let base = || pin_base(&f.store, None, Some(&cache)).unwrap().map(|base| base.record.id);
    let excluder = Excluder::new(Rules::default(), None).unwrap();
    let follows = |base: &Checkpoint| continues(Some(base), Some(&cache), &excluder, &f.options());
    assert_eq!((base(), follows(&first)), (Some(first.record.id), true));
    delete_checkpoints(&f.store, &[first.record.id], None, &()).unwrap();
    // What that one left out, this one may have.
    assert_eq!((base(), follows(&second)), (Some(second.record.id), false));
    delete_checkpoints(&f.store, &[second.record.id], None, &()).unwrap();
    assert_eq!(base(), None);
    assert_eq!(pin_base(&f.store, None, None).unwrap().map(|base| base.record.id), None);
}

#[test]
fn what_follows_other_rules_is_looked_at_whole() {
    let f = fixture();
    f.write("file", b"1");
    let base = f.create().checkpoint;
    let (cache, options) = (f.cache().unwrap(), f.options());
    let rules = |patterns: &[&str]| {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Excluder::new(Rules { patterns, ..Rules::default() }, None).unwrap()
    };
    assert!(continues(Some(&base), Some(&cache), &rules(&[]), &options));
    assert!(!continues(Some(&base), Some(&cache), &rules(&["*.o"]), &options));
    let listed = Options { listed: Some(vec![b"file".to_vec()]), ..f.options() };
    assert!(!continues(Some(&base), Some(&cache), &rules(&[]), &listed));
    assert!(!continues(None, Some(&cache), &rules(&[]), &options) && !continues(Some(&base), None, &rules(&[]), &options));
    // That only some paths were captured is in the record.
    let rules_of = |options: &Options| run(&f.store, options, &()).unwrap().checkpoint.record.rules.listed_only;
    assert_eq!([rules_of(&options), rules_of(&listed)], [false, true]);
}

/// Has a block found damaged when a checkpoint is about to be committed.
struct Finding<'a>(&'a Store);

impl Progress for Finding<'_> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == Phase::Commit {
            let block = Location { pack: PackId::new(OpId([1; 12]), 1), offset: 1, block_bytes: 1 };
            damaged::note(self.0, [block], None);
        }
    }
}

#[test]
fn no_cache_is_left_that_vouches_for_what_was_found_damaged_meanwhile() {
    let f = fixture();
    f.write("old", b"1");
    f.create();
    f.write("new", b"2");
    run(&f.store, &f.options(), &Finding(&f.store)).unwrap();
    assert!(f.cache().is_none());
    assert_eq!(f.create().files_read, 2);
}

/// Counts how often whoever reads asks whether to stop.
#[derive(Default)]
struct Asked(AtomicU64);

impl Progress for Asked {
    fn is_cancelled(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }
}

#[test]
fn a_thorough_look_reads_what_the_cache_vouches_for() {
    let f = fixture();
    f.write("large", &noise(8 << 20, 1));
    let_stamps_age();
    f.create();
    let asked = |thorough: bool| {
        let asked = Asked::default();
        look(&f.store, &Options { thorough, ..f.options() }, &asked).unwrap();
        asked.0.into_inner()
    };
    assert!(asked(true) >= asked(false) + 4, "{} {}", asked(true), asked(false));
}
