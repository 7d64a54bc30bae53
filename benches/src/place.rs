//! The folder of benchmark data.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// The environment variable that chooses the folder for everything the benchmarks keep.
pub const DIR_VARIABLE: &str = "PARHELIA_BENCH_DIR";

/// `$PARHELIA_BENCH_DIR`, or `parhelia/bench` in the user's cache folder.
pub fn bench_dir() -> Result<PathBuf> {
    if let Some(dir) = non_empty(DIR_VARIABLE) {
        return Ok(dir);
    }
    let cache = non_empty("XDG_CACHE_HOME").or_else(|| Some(non_empty("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("parhelia/bench")).ok_or_else(|| Error::new(format!("neither {DIR_VARIABLE} nor HOME is set")))
}

fn non_empty(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
