//! The bucket under deterministic simulation: the real code of the crate, over an object store that fails in every way that servers do, with a
//! simulated clock, machines that die and sleep anywhere, copies of machines, and several gcs.
//!
//! `PARHELIA_SEED` replays one seed; `PARHELIA_LONG=1` runs thousands.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

mod chance;
mod faulty;
mod machine;
mod sleepy;
mod world;

use std::time::{Duration, Instant};

use world::{World, WorldReport};

/// Seeds of a short run and of a long one.
const SEEDS: (u64, u64) = (300, 10_000);

/// Runs a world on a clock of its own.
fn run(seed: u64) -> Result<WorldReport, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { World::new(seed).run().await })
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("PARHELIA_SEED").map(|seed| seed.parse::<u64>().expect("PARHELIA_SEED is a number")) {
        Ok(seed) => seed..seed + 1,
        Err(_) if std::env::var_os("PARHELIA_LONG").is_some() => 0..SEEDS.1,
        Err(_) => 0..SEEDS.0,
    }
}

#[test]
fn nothing_reported_is_lost_and_nothing_is_left_behind() {
    let (start, mut all) = (Instant::now(), WorldReport::default());
    for seed in seeds() {
        match run(seed) {
            Ok(report) => all.add(&report),
            Err(fault) => panic!("seed {seed}: {fault}\nreplay it with PARHELIA_SEED={seed}"),
        }
    }
    println!("{} seeds in {:.1} s: {all:?}", seeds().count(), start.elapsed().as_secs_f64());
    if seeds().count() > 100 {
        // A run in which nothing goes wrong shows nothing.
        assert!(all.commits > 1000 && all.crashes > 100 && all.not_known > 50 && all.faults > 10_000, "{all:?}");
        assert!(all.again > 10 && all.clones > 20 && all.deleted_packs > 300 && all.renamed > 10, "{all:?}");
    }
}

#[test]
fn two_hundred_machines_share_a_bucket() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let report = runtime.block_on(async { World::new(1).run_many(200, 4).await }).unwrap();
    println!("{report:?}");
    assert!(report.commits > 400 && report.reported == report.commits, "{report:?}");
}

#[test]
fn a_seed_replays() {
    let reports: Vec<_> = (0..2).map(|_| run(7).unwrap()).collect();
    assert_eq!(reports[0], reports[1]);
    assert!(reports[0].simulated > Duration::from_secs(3600));
}
