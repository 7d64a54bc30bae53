//! Every decoder is fed damaged and hostile bytes: none may panic, none may ask for memory without bound.
//!
//! Inputs are made by [`mutate`] from real encodings and from what lies in `tests/corpus/<decoder>/`: inputs that once found a fault,
//! and a cover of the code that libFuzzer has found. Checksums are mended after a change, so that what they protect is reached.
//! `PARHELIA_LONG=N` takes N million inputs for each decoder; `PARHELIA_SEED=N` repeats a run.

mod decoders;
mod mutate;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::Instant,
};

use decoders::{Decoder, all};
use mutate::Mutator;
use parhelia_tests::{Scratch, allocation::largest_since, long};

/// No input of a few KiB may make a decoder ask for more than this at once, in bytes.
const ALLOCATION_MAX: usize = 80 << 20;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new("corpus").join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Archives that lead out of their place, lie about lengths, or expand without end.
#[test]
fn hostile_archives_are_refused_by_name_and_leave_nothing() {
    let corpora = fs::canonicalize("corpus").unwrap();
    let entries = ["archive", "bombs"].into_iter().flat_map(|name| fs::read_dir(corpora.join(name)).unwrap());
    let mut tried = 0;
    for path in entries.map(|entry| entry.unwrap().path()) {
        let s = Scratch::new();
        let name = path.to_string_lossy().into_owned();
        let said = s.expect(12, &["import", &name]);
        assert!(said.contains(&name), "{said}");
        let listed = s.expect(0, &["checkpoint", "list", "--json"]);
        assert!(!listed.contains("\"type\":\"checkpoint\""), "{name}: {listed}");
        s.expect(0, &["gc", "--quiet"]);
        assert_eq!(fs::read_dir(s.store().join("packs")).unwrap().count(), 0, "{name}");
        assert!(!s.path("outside").exists() && !s.store().join("outside").exists(), "{name}");
        tried += 1;
    }
    assert!(tried > 8);
}

fn feed(decoder: &Decoder, input: &[u8], seed: u64) {
    largest_since();
    let outcome = catch_unwind(AssertUnwindSafe(|| (decoder.decode)(input)));
    let largest = largest_since();
    let keep = || {
        let path = std::env::temp_dir().join(format!("{}-{}", decoder.name, &blake3::hash(input).to_hex()[..16]));
        fs::write(&path, input).unwrap();
        format!("{} (PARHELIA_SEED={seed}); the input is in {}", decoder.name, path.display())
    };
    assert!(outcome.is_ok(), "panicked: {}", keep());
    assert!(largest <= ALLOCATION_MAX, "asked for {largest} bytes: {}", keep());
}

fn fuzz(decoder: &Decoder) {
    let seed = std::env::var("PARHELIA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let seeds: Vec<Vec<u8>> = (decoder.seeds)().into_iter().chain(corpus(decoder.name)).collect();
    assert!(!seeds.is_empty(), "{} has no seeds", decoder.name);
    seeds.iter().for_each(|input| feed(decoder, input, seed));
    let inputs = if long() > 0 { long() * 1_000_000 / decoder.cost } else { 20_000 / decoder.cost };
    let began = Instant::now();
    let mut mutator = Mutator::new(seed, &seeds);
    for _ in 0..inputs {
        let mut input = mutator.next();
        (decoder.mend)(&mut input);
        feed(decoder, &input, seed);
    }
    println!("{}: {inputs} inputs from {} seeds in {:.1} s", decoder.name, seeds.len(), began.elapsed().as_secs_f64());
}

#[test]
fn no_decoder_panics_or_asks_for_too_much() {
    for decoder in all() {
        fuzz(&decoder);
    }
}
