//! Feeds one decoder, which `PARHELIA_DECODER` names, with what libFuzzer finds to reach new code. Checksums are mended after each change,
//! so that what they protect is reached. `PARHELIA_FUZZ_SEEDS` names a folder into which real inputs are written first.

#![no_main]

#[path = "../../tests/trust/fuzz/decoders.rs"]
mod decoders;

use std::{env, fs, path::PathBuf, sync::LazyLock};

use decoders::{Decoder, all};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

static DECODER: LazyLock<Decoder> = LazyLock::new(|| {
    let wanted = env::var("PARHELIA_DECODER").unwrap_or_default();
    let names: Vec<_> = all().iter().map(|decoder| decoder.name).collect();
    let found = all().into_iter().find(|decoder| decoder.name == wanted);
    found.unwrap_or_else(|| panic!("PARHELIA_DECODER must be one of {}", names.join(", ")))
});

fn write_seeds() {
    let Some(folder) = env::var_os("PARHELIA_FUZZ_SEEDS").map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).unwrap();
    for (number, seed) in (DECODER.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
    }
}

fuzz_target!(init: write_seeds(), |bytes: &[u8]| (DECODER.decode)(bytes));

fuzz_mutator!(|bytes: &mut [u8], length: usize, length_max: usize, _seed: u32| {
    let length = fuzzer_mutate(bytes, length, length_max);
    (DECODER.mend)(&mut bytes[..length]);
    length
});
