//! A store on a disk that fills up: nothing that was saved is lost, whatever fails, and with room again everything works.

use std::{fs, path::Path};

use parhelia_tests::{filesystems::Disk, given_seed, long, noise};

use crate::pairs::{
    flips::Chance,
    oracle::spared,
    verbs::Verb,
    world::{Copy, World, copy_folder},
};

/// What may fail, fails without doing harm.
fn on_full_disk(one: &mut Copy, leave: u64, work: &Path) {
    fs::write(work.join("new"), noise(60_000, leave)).unwrap();
    let what = format!("{leave} bytes left");
    let before = one.readable(&what);
    let work = work.to_string_lossy().into_owned();
    let create = ["create", "t", "-w", &work, "--no-conversation", "--no-default-excludes"];
    for arguments in [&create[..], &["gc"], &["check"], &["list"], &["annotate", "t@latest", "a word"], &["gc"]] {
        let (code, lines, said) = one.json(arguments);
        assert!([0, 1, 3].contains(&code), "{what}: {arguments:?}: {said}");
        if arguments[0] == "create" && code != 1 {
            let id = lines.last().and_then(|line| line["id"].as_str()).unwrap_or_default().to_owned();
            one.saved.insert(id, parhelia_tests::files_in(Path::new(&work)));
        }
    }
    let after = one.readable(&what);
    assert!(after.is_superset(&before), "{what}: lost {:?}", before.difference(&after));
}

#[test]
fn a_full_disk_loses_nothing() {
    let world = World::new();
    let mut one = world.copy();
    let disk = Disk::mount(one.scratch.path("disk"), 24 << 10);
    let store = disk.0.join("store");
    copy_folder(&one.scratch.store(), &store);
    one.scratch.put_store(store);
    let work = one.scratch.path("work");
    let mut chance = Chance::new(given_seed().unwrap_or(1) << 32);
    let fixed = [0, 4096, 16_384, 65_536, 200_000, 500_000];
    let more = (0..long() * 20).map(|_| chance.below(2 << 20)).collect::<Vec<_>>();
    for leave in fixed.into_iter().chain(more) {
        disk.fill(leave);
        on_full_disk(&mut one, leave, &work);
        disk.unfill();
        one.step(Verb::Gc, &format!("{leave} bytes were left"));
    }
    spared(&mut one, "room again");
}
