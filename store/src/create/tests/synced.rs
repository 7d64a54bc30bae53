//! Packs and their names are on the medium before the commit is.

use rustix::io::Errno;

use super::*;
use crate::disk::syncs;

const LOG: &str = "00000000000000000001.log";

#[test]
fn the_names_of_packs_are_synced_before_the_commit_and_packs_go_where_that_fails() {
    let f = fixture();
    f.write("a", b"first");
    let (_, synced) = syncs::of(|| f.create());
    let at = |name: &str| synced.iter().position(|seen| seen == name).unwrap();
    assert!(at("packs") < at(LOG), "{synced:?}");
    let packs = || {
        let files = fs::read_dir(f.store.layout().packs()).unwrap().map(|file| file.unwrap().path());
        files.collect::<std::collections::BTreeSet<_>>()
    };
    let before = packs();
    f.write("b", b"second");
    let (failed, synced) = syncs::failing(at("packs"), Errno::IO, || run(&f.store, &f.options(), &()));
    assert!(failed.is_err_and(|e| e.to_string().contains("sync folder")) && !synced.iter().any(|seen| seen == LOG), "{synced:?}");
    assert_eq!((packs(), f.store.checkpoints().unwrap().len()), (before, 1));
    let checkpoint = f.create().checkpoint;
    assert_eq!(f.tree(&checkpoint)[&b"b"[..]].1, b"second");
}
