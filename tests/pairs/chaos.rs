//! Verbs at once, some of them killed, while a vandal flips bits: what is read is right or refused, whatever happens, and a second copy of the
//! store brings everything back.

use std::{
    fs,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use parhelia_tests::{given_seed, long, repeated_by};

use crate::pairs::{
    damage::{flip, packs},
    flips::Chance,
    oracle::spared,
    world::{Copy, World},
};

/// Verbs that may run beside each other.
const VERBS: [&[&str]; 8] = [
    &["create", "t", "--no-conversation", "--no-default-excludes", "-w", "work"],
    &["gc"],
    &["check", "--read-data=20"],
    &["verify", "latest"],
    &["list"],
    &["restore", "t@latest", "--to", "restored"],
    &["check"],
    &["export", "t@latest", "-o", "archive"],
];

fn command(one: &Copy, verb: &[&str], thread: u64) -> Command {
    let path = |name: &str| one.scratch.path(&format!("{name}{thread}")).to_string_lossy().into_owned();
    let arguments = verb.iter().map(|word| match *word {
        "work" => one.scratch.path("work").to_string_lossy().into_owned(),
        "restored" => path("restored"),
        "archive" => path("archive.tar.zst"),
        word => word.to_owned(),
    });
    one.scratch.command(&arguments.collect::<Vec<_>>())
}

fn actor(one: &Copy, thread: u64, seed: u64, stop: &AtomicBool, panics: &AtomicU64) {
    let mut chance = Chance::new((seed << 32) + (thread << 16));
    while !stop.load(Ordering::Relaxed) {
        let verb = VERBS[chance.below(VERBS.len() as u64) as usize];
        let _ = fs::remove_dir_all(one.scratch.path(&format!("restored{thread}")));
        let _ = fs::remove_file(one.scratch.path(&format!("archive.tar.zst{thread}")));
        let spawned = command(one, verb, thread).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
        if chance.below(4) == 0 {
            let until = Instant::now() + Duration::from_millis(chance.below(60));
            while Instant::now() < until && child.try_wait().is_ok_and(|ended| ended.is_none()) {
                thread::yield_now();
            }
            let _ = child.kill();
        }
        let output = child.wait_with_output().unwrap_or_else(|e| panic!("{verb:?}: {e}"));
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("panicked") {
            panics.fetch_add(1, Ordering::Relaxed);
            println!("{verb:?}: {said}");
        }
    }
}

#[test]
fn verbs_at_once_beside_a_vandal() {
    let seed = given_seed().unwrap_or(1);
    let world = World::new();
    for round in 0..long().max(1) {
        let mut one = world.copy();
        let (stop, panics, flips) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|n| {
                    scope.spawn({
                        let (one, stop, panics) = (&one, &stop, &panics);
                        move || actor(one, n, seed + round, stop, panics)
                    })
                })
                .collect();
            let mut chance = Chance::new((seed + round) << 40);
            let until = Instant::now() + Duration::from_secs(if long() > 0 { 60 } else { 4 });
            while Instant::now() < until && !workers.iter().any(thread::ScopedJoinHandle::is_finished) {
                let packs = packs(&one.scratch.store());
                let path = &packs[chance.below(packs.len() as u64) as usize];
                // It may be gone by now.
                if let Some(bytes) = fs::metadata(path).ok().map(|meta| meta.len()).filter(|bytes| *bytes > 0)
                    && flips.load(Ordering::Relaxed) < 3
                {
                    flips.fetch_add(1, Ordering::Relaxed);
                    let at = chance.below(bytes);
                    let _ = std::panic::catch_unwind(|| flip(path, at));
                }
                let next = Instant::now() + Duration::from_millis(700);
                while Instant::now() < next {
                    thread::yield_now();
                    thread::park_timeout(Duration::from_millis(20));
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let what = format!("round {round} ({})", repeated_by(seed));
        assert_eq!(panics.into_inner(), 0, "{what}");
        spared(&mut one, &what);
    }
}
