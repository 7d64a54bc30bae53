//! Mounting again and again. The only test here, as it counts what its process holds.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{env, fs, process::Command};

use common::*;
use parhelia_fuse::What;

/// Open files, threads and KiB of memory of this process.
fn held() -> [usize; 3] {
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let memory = memory.trim().trim_end_matches(" kB").parse().unwrap();
    [count("/proc/self/fd"), count("/proc/self/task"), memory]
}

#[test]
fn a_thousand_mounts_take_no_more_than_a_few() {
    // As the program starts its mounts: in many heaps, one for each of so many threads, what is freed would leave holes.
    const ONE_HEAP: &str = "MALLOC_ARENA_MAX";
    if env::var_os(ONE_HEAP).is_none() {
        let again = Command::new(env::current_exe().unwrap()).args(env::args_os().skip(1)).env(ONE_HEAP, "1").status();
        assert!(again.unwrap().success());
        return;
    }
    let rounds: usize = match env::var("PARHELIA_LONG").ok().and_then(|text| text.parse::<usize>().ok()) {
        Some(hundreds) => hundreds * 100,
        None => 40,
    };
    let f = Fixture::new();
    for i in 0..200 {
        f.write(&format!("d{}/f{i}", i % 7), &text(20_000, i));
    }
    let checkpoint = f.create("s");
    let mut after_some = [0; 3];
    for round in 0..rounds {
        let what = if round % 2 == 0 { What::Store } else { tree(&checkpoint, "") };
        let mut mounted = f.mount(what);
        let sum = run(&f.mountpoint, "find . -type f ! -name manifest.json -exec cat {} + | wc -c");
        assert_eq!(sum.trim(), "4000000");
        mounted.unmount().unwrap();
        drop(mounted);
        if round == rounds / 4 {
            // Threads that only wait for each other are gone a moment later.
            eventually("its threads end", || held()[1] <= 4);
            after_some = held();
        }
    }
    eventually("its threads end", || held()[1] <= after_some[1]);
    let [files, threads, memory] = held();
    say(&format!("after {} rounds {after_some:?}, after {rounds} {:?}\n", rounds / 4, [files, threads, memory]));
    assert!(files <= after_some[0], "{files} open files, {} before", after_some[0]);
    assert!(memory <= after_some[2] + 8 * 1024, "{memory} KiB, {} before", after_some[2]);
}
