//! Randomness: names, nonces and keys.

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{Error, Result};

/// A source of random bytes. Simulations give one that replays.
pub trait Random: Send + Sync {
    /// Fills a buffer.
    fn fill(&self, buffer: &mut [u8]) -> Result<()>;
}

/// The system's random bytes.
#[derive(Debug)]
pub struct OsRandom(SystemRandom);

impl OsRandom {
    /// The system's source.
    pub fn new() -> Self {
        OsRandom(SystemRandom::new())
    }
}

impl Default for OsRandom {
    fn default() -> Self {
        OsRandom::new()
    }
}

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<()> {
        self.0.fill(buffer).map_err(|_| Error::Random)
    }
}

/// As many random bytes as an array has.
pub(crate) fn array<const N: usize>(random: &dyn Random) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    random.fill(&mut bytes)?;
    Ok(bytes)
}

/// A fresh name of an object, 32 bytes.
///
/// The content's digest goes into it, because the object's key is derived from the name and its nonces are counted: two virtual machines that
/// wake with the same random state get two names for two contents.
pub(crate) fn name(random: &dyn Random, digest: &[u8; 32]) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new_derive_key("parhelia 2026-12 bucket object name v1");
    hasher.update(&array::<32>(random)?).update(digest);
    Ok(*hasher.finalize().as_bytes())
}
