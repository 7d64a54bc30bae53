//! Repairs of stores in which most blocks build on others.

use super::*;
use crate::damaged::DamageSet;
use crate::testing::Notices;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The versions of a folder of files, of which most edits build on the first version, packed together by gc, and a copy of the store as it was
/// with the first version alone.
fn versions(f: &Fixture) -> (Vec<(Checkpoint, Vec<u8>)>, PathBuf) {
    let early = f._dir.path().join("early");
    let mut versions = Vec::new();
    for version in 0..12 {
        for file in 0..20 {
            let mut source = text(120, file);
            (1..=version).for_each(|number| edit(&mut source, number));
            f.write(&format!("f{file}.rs"), &source);
        }
        let made = f.create().checkpoint;
        versions.push((made, fs::read(f.workspace.join("f7.rs")).unwrap()));
        if version == 0 {
            copy_store(f, &early);
        }
    }
    f.write("lonely", &noise(200_000, 9));
    f.create();
    (versions, early)
}

fn copy_store(f: &Fixture, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-a").arg(f.store.path()).arg(to).status().unwrap().success());
}

/// The store as another process opens it.
fn reopened(f: &Fixture) -> Store {
    Store::open(f.store.path(), &OpenOptions::default()).unwrap()
}

/// Repairs the store from another one, after which everything is there.
fn assert_brings_back_all(f: &Fixture, source: PathBuf, versions: &[(Checkpoint, Vec<u8>)]) {
    let plan = check::plan_repair(f.store.layout(), &[source], &()).unwrap();
    assert!(plan.lost.is_empty(), "{:?}", plan.lost);
    check::repair(f.store.layout(), &plan, PATIENCE, &()).unwrap();
    assert_eq!(readable(f, versions), versions.len());
    assert_sound(f.store.path());
}

/// The newest version's content is read from a checkpoint.
fn assert_has_newest(f: &Fixture, made: &Checkpoint, versions: &[(Checkpoint, Vec<u8>)]) {
    assert!(content_of(&reopened(f), made).unwrap()["f7.rs"] == versions[11].1);
}

/// Flips a bit of the first version's content.
fn damage(f: &Fixture, versions: &[(Checkpoint, Vec<u8>)]) {
    let (pack, payload, _) = content_place(f, "f7.rs", &versions[0].0);
    let mut bytes = fs::read(&pack).unwrap();
    bytes[payload as usize] ^= 1;
    fs::write(&pack, &bytes).unwrap();
}

fn readable(f: &Fixture, versions: &[(Checkpoint, Vec<u8>)]) -> usize {
    let store = reopened(f);
    let read = |(checkpoint, content): &&(Checkpoint, Vec<u8>)| match content_of(&store, checkpoint) {
        Ok(files) => {
            assert!(files["f7.rs"] == *content);
            true
        }
        Err(_) => false,
    };
    versions.iter().filter(read).count()
}

fn assert_no_longer(f: &Fixture, before: u64) {
    let after = packs_bytes(&f.store);
    assert!(after * 5 <= before * 6, "{after} bytes after the repair, {before} before");
}

#[test]
fn a_repair_keeps_what_builds_on_others_as_it_is_stored_and_recovers_all_in_one_run() {
    let f = fixture();
    let (versions, early) = versions(&f);
    damage(&f, &versions);
    let before = packs_bytes(&f.store);
    assert_eq!(readable(&f, &versions), 0);
    // The copy has the first version alone: all others wait for it.
    assert_brings_back_all(&f, early, &versions);
    assert_no_longer(&f, before);
}

#[test]
fn a_lost_pack_of_later_versions_is_recovered_as_later_versions() {
    let f = fixture();
    let (versions, _) = versions(&f);
    let whole = f._dir.path().join("whole");
    copy_store(&f, &whole);
    let before = packs_bytes(&f.store);
    for version in [3, 5, 6, 7, 9, 10] {
        fs::remove_file(content_place(&f, "f7.rs", &versions[version].0).0).unwrap();
    }
    assert_brings_back_all(&f, whole, &versions);
    assert_no_longer(&f, before);
}

#[test]
fn what_waits_for_a_lost_base_is_kept_until_it_is_found() {
    let f = fixture();
    let (versions, early) = versions(&f);
    damage(&f, &versions);
    let before = packs_bytes(&f.store);
    for _ in 0..2 {
        let plan = check::plan_repair(f.store.layout(), &[], &()).unwrap();
        assert!(!plan.lost.is_empty());
        check::repair(f.store.layout(), &plan, PATIENCE, &()).unwrap();
        assert_no_longer(&f, before);
        assert_eq!(readable(&f, &versions), 0);
    }
    // Nothing of it is reused, also by an index that is made of the packs alone, and without the list.
    fs::remove_dir_all(f.store.path().join("view")).unwrap();
    fs::remove_file(f.store.layout().cache().join("damaged")).unwrap();
    let store = reopened(&f);
    let made = run(&store, &f.options(), &()).unwrap().checkpoint;
    assert_has_newest(&f, &made, &versions);
    assert_brings_back_all(&f, early, &versions);
    assert!(DamageSet::read(f.store.layout()).is_empty());
}

#[test]
fn gc_does_not_make_anybody_forget_what_was_found_damaged() {
    let f = fixture();
    let (versions, _) = versions(&f);
    let current = || check::run(f.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    damage(&f, &versions);
    assert!(!current().is_clean());
    // Enough small packs to be copied together, and garbage.
    let gone: Vec<_> = versions[2..5].iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
    delete_checkpoints(&f.store, &gone, None, &()).unwrap();
    let store = reopened(&f);
    gc::run(&store, &GcOptions { consolidate: true, ..GcOptions::below(100) }, &()).unwrap();
    let made = run(&store, &f.options(), &()).unwrap().checkpoint;
    assert_has_newest(&f, &made, &versions);
}

#[test]
fn whoever_reads_damage_leaves_word_of_it() {
    let f = fixture();
    let (versions, _) = versions(&f);
    damage(&f, &versions);
    assert!(DamageSet::read(f.store.layout()).is_empty());
    assert_eq!(readable(&f, &versions), 0);
    assert!(!DamageSet::read(f.store.layout()).is_empty());
    let made = f.create().checkpoint;
    assert_has_newest(&f, &made, &versions);
}

#[test]
fn a_pack_that_is_gone_is_noticed_before_it_is_reused() {
    for cuts in [false, true] {
        let f = fixture();
        let (versions, _) = versions(&f);
        let_stamps_age();
        f.create();
        let pack = content_place(&f, "f7.rs", &versions[0].0).0;
        match cuts {
            true => File::options().write(true).open(&pack).unwrap().set_len(5000).unwrap(),
            false => fs::remove_file(&pack).unwrap(),
        }
        let notices = Notices::default();
        let store = reopened(&f);
        let made = run(&store, &f.options(), &notices).unwrap().checkpoint;
        let said = notices.0.into_inner().unwrap();
        assert!(said.iter().any(|text| text.contains("missing or cut off")), "{said:?}");
        assert_has_newest(&f, &made, &versions);
        assert!(check::verify(&reopened(&f), &made, true, &()).unwrap().is_ok());
    }
}
