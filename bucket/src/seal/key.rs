//! Keys: the master keys of a bucket, and what is derived from them.

use std::{collections::BTreeMap, fmt};

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

use super::Sealing;
use crate::error::{Error, Result};

const OBJECT_CONTEXT: &str = "parhelia 2026-12 bucket object key v1";
const CHECK_CONTEXT: &str = "parhelia 2026-12 bucket key check v1";
const FINGERPRINT_CONTEXT: &str = "parhelia 2026-12 bucket key fingerprint v1";
const NAME_CONTEXT: &str = "parhelia 2026-12 bucket hidden name v1";
/// The key of a bucket without encryption, which is no secret: its tags find damage and nothing else.
const PLAIN_CONTEXT: &str = "parhelia 2026-12 bucket without encryption v1";

/// A cipher, by its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cipher {
    /// No encryption; BLAKE3 in place of tags.
    Plain = 0,
    /// AES-256-GCM: the fastest where the processor has instructions for AES.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305, for processors without.
    ChaCha20Poly1305 = 2,
}

impl Cipher {
    /// The cipher with a number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Cipher::Plain),
            1 => Some(Cipher::Aes256Gcm),
            2 => Some(Cipher::ChaCha20Poly1305),
            _ => None,
        }
    }
}

/// A master key, 32 bytes. It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; 32]);

impl Drop for MasterKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl MasterKey {
    /// A master key of its bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        MasterKey(bytes)
    }

    /// The bytes, for wrapping them in a slot.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key for one purpose, derived from this one.
    pub(crate) fn derive(&self, context: &str) -> [u8; 32] {
        blake3::derive_key(context, &self.0)
    }

    /// The fingerprint: 16 bytes that tell this key from others, and nothing of it.
    pub fn fingerprint(&self) -> [u8; 16] {
        first_16(&self.derive(FINGERPRINT_CONTEXT))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

/// The master keys of a bucket, by generation. Without any, the bucket is not encrypted.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    generations: BTreeMap<u32, MasterKey>,
}

impl Keyring {
    /// The keys of a bucket without encryption.
    pub fn plain() -> Self {
        Keyring::default()
    }

    /// A keyring with one more key; generations are counted from 1.
    pub fn with(mut self, generation: u32, key: MasterKey) -> Self {
        self.generations.insert(generation, key);
        self
    }

    /// The key of a generation.
    pub fn key(&self, generation: u32) -> Option<&MasterKey> {
        self.generations.get(&generation)
    }

    /// The newest generation; 0 without encryption.
    pub fn newest(&self) -> u32 {
        self.generations.keys().next_back().copied().unwrap_or(0)
    }

    /// How new objects are sealed: with the newest key, if there is one.
    pub fn sealing(&self, cipher: Cipher, piece_log2: u8) -> Sealing {
        let generation = self.newest();
        Sealing { cipher: if generation == 0 { Cipher::Plain } else { cipher }, generation, piece_log2 }
    }

    /// A key for one purpose. An unencrypted object in an encrypted bucket is refused: the bucket's owner could have put it there.
    fn derive(&self, location: &str, sealing: Sealing, context: &str) -> Result<[u8; 32]> {
        match (sealing.cipher, self.generations.is_empty()) {
            (Cipher::Plain, true) => Ok(blake3::derive_key(context, PLAIN_CONTEXT.as_bytes())),
            (Cipher::Plain, false) => Err(Error::damaged(location, "it is not encrypted, and the bucket is")),
            _ => {
                let missing = || Error::NoKey { object: location.into(), generation: sealing.generation };
                Ok(self.key(sealing.generation).ok_or_else(missing)?.derive(context))
            }
        }
    }

    /// The key of an object.
    pub(super) fn object_key(&self, location: &str, sealing: Sealing, name: &[u8; 32]) -> Result<ObjectKey> {
        let mut parent = self.derive(location, sealing, OBJECT_CONTEXT)?;
        // The cipher's number goes in, so that no two ciphers ever share a key.
        let mut hasher = blake3::Hasher::new_keyed(&parent);
        let mut key = *hasher.update(&[sealing.cipher as u8]).update(name).finalize().as_bytes();
        let unbound =
            |algorithm| UnboundKey::new(algorithm, &key).map(|key| Box::new(LessSafeKey::new(key))).map_err(|_| Error::Random);
        let made = match sealing.cipher {
            Cipher::Plain => Ok(ObjectKey::Plain(key)),
            Cipher::Aes256Gcm => unbound(&AES_256_GCM).map(ObjectKey::Aead),
            Cipher::ChaCha20Poly1305 => unbound(&CHACHA20_POLY1305).map(ObjectKey::Aead),
        };
        key.zeroize();
        parent.zeroize();
        made
    }

    /// A name for an object that stands for something with a name of its own, which does not show. It stays the same when keys are rotated.
    pub(crate) fn hidden_name(&self, name: &[u8]) -> [u8; 16] {
        let first = self.generations.values().next();
        let plain = || blake3::derive_key(NAME_CONTEXT, PLAIN_CONTEXT.as_bytes());
        let mut key = first.map_or_else(plain, |master| master.derive(NAME_CONTEXT));
        let hidden = first_16(blake3::keyed_hash(&key, name).as_bytes());
        key.zeroize();
        hidden
    }

    /// The key check value of an object.
    pub(super) fn check(&self, location: &str, sealing: Sealing, name: &[u8; 32]) -> Result<[u8; 16]> {
        let key = self.derive(location, sealing, CHECK_CONTEXT)?;
        Ok(first_16(blake3::keyed_hash(&key, name).as_bytes()))
    }
}

/// The key of one object.
pub(super) enum ObjectKey {
    Plain([u8; 32]),
    Aead(Box<LessSafeKey>),
}

impl ObjectKey {
    /// Seals a piece in place, and returns its tag. Absent only if the cipher refuses the length.
    pub fn seal(&self, index: u64, aad: &[u8], bytes: &mut [u8]) -> Option<[u8; 16]> {
        match self {
            ObjectKey::Plain(key) => Some(checksum(key, aad, bytes)),
            ObjectKey::Aead(key) => {
                let tag = key.seal_in_place_separate_tag(nonce(index), Aad::from(aad), bytes).ok()?;
                tag.as_ref().try_into().ok()
            }
        }
    }

    /// Opens a piece in place; false if it is not what was sealed.
    pub fn open(&self, index: u64, aad: &[u8], bytes: &mut [u8], tag: &[u8]) -> bool {
        let Ok(tag) = <[u8; 16]>::try_from(tag) else { return false };
        match self {
            ObjectKey::Plain(key) => checksum(key, aad, bytes) == tag,
            ObjectKey::Aead(key) => key.open_in_place_separate_tag(nonce(index), Aad::from(aad), tag.into(), bytes, 0..).is_ok(),
        }
    }
}

/// The nonce of a piece: its number. The key is the object's own.
fn nonce(index: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn checksum(key: &[u8; 32], aad: &[u8], bytes: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&(aad.len() as u64).to_le_bytes()).update(aad).update(bytes);
    first_16(hasher.finalize().as_bytes())
}

fn first_16(bytes: &[u8; 32]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&bytes[..16]);
    first
}
