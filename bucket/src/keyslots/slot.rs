//! A slot: one secret that opens the bucket.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use x25519_dalek::StaticSecret;
use zeroize::{Zeroize, Zeroizing};

use super::phrase::RecoveryPhrase;
use crate::{
    codec::as_hex,
    error::{Error, Result},
    random::{self, Random},
    seal::MasterKey,
};

const WRAP_CONTEXT: &str = "parhelia 2026-12 bucket slot wrap v1";
const SECRET_CONTEXT: &str = "parhelia 2026-12 bucket slot secret v1";
const VOUCH_CONTEXT: &str = "parhelia 2026-12 bucket slot vouch v1";
/// Cost of a passphrase in new slots: 64 MiB three times, a quarter of a second.
const NEW_COST: Cost = Cost { memory_kib: 64 << 10, passes: 3, lanes: 1 };
/// The highest cost that is paid: a slot comes from the bucket, and must take neither all memory nor minutes.
const COST_MAX: Cost = Cost { memory_kib: 256 << 10, passes: 8, lanes: 8 };

/// What opens a slot. It is wiped when it is dropped, and never shown.
#[derive(Clone)]
pub enum Secret {
    /// A passphrase.
    Passphrase(Zeroizing<String>),
    /// An X25519 key.
    Key(PrivateKey),
    /// A recovery phrase.
    Recovery(RecoveryPhrase),
}

impl Secret {
    fn kind(&self) -> SlotKind {
        match self {
            Secret::Passphrase(_) => SlotKind::Passphrase,
            Secret::Key(_) => SlotKind::Key,
            Secret::Recovery(_) => SlotKind::Recovery,
        }
    }
}

/// An X25519 private key, 32 bytes.
#[derive(Clone)]
pub struct PrivateKey(StaticSecret);

/// An X25519 public key, 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKey(#[serde(with = "as_hex")] pub [u8; 32]);

impl PrivateKey {
    /// A fresh key.
    pub fn fresh(random: &dyn Random) -> Result<Self> {
        random::array(random).map(Self::new)
    }

    /// The key of 32 bytes.
    pub fn new(mut bytes: [u8; 32]) -> Self {
        let key = StaticSecret::from(bytes);
        bytes.zeroize();
        PrivateKey(key)
    }

    /// Its 32 bytes, for whoever keeps it.
    pub fn bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(*x25519_dalek::PublicKey::from(&self.0).as_bytes())
    }
}

/// A kind of slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotKind {
    /// A passphrase.
    Passphrase,
    /// An X25519 key.
    Key,
    /// A recovery phrase.
    Recovery,
}

impl fmt::Display for SlotKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlotKind::Passphrase => "passphrase",
            SlotKind::Key => "key",
            SlotKind::Recovery => "recovery phrase",
        })
    }
}

/// A slot as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its id.
    pub id: [u8; 8],
    /// Its kind.
    pub kind: SlotKind,
    /// Its name.
    pub label: String,
    /// Its public key.
    pub public: PublicKey,
}

/// Cost of a guess: parameters of Argon2id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// A slot in the document of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slot {
    #[serde(with = "as_hex")]
    pub id: [u8; 8],
    pub kind: SlotKind,
    pub label: String,
    pub public: PublicKey,
    /// Salt of a passphrase or a recovery phrase; zeros of a key.
    #[serde(with = "as_hex")]
    salt: [u8; 16],
    /// Cost of a passphrase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    cost: Option<Cost>,
    /// What a passphrase or a recovery phrase vouches for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    vouch: Option<Vouch>,
    pub wraps: Vec<Wrap>,
}

/// A MAC by a slot's own secret over a generation's fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Vouch {
    generation: u32,
    #[serde(with = "as_hex")]
    mac: [u8; 32],
}

/// A master key, wrapped for a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wrap {
    pub generation: u32,
    /// Public half of a key that was made for this wrap alone.
    #[serde(with = "as_hex")]
    ephemeral: [u8; 32],
    /// The master key under ChaCha20-Poly1305.
    #[serde(with = "as_hex")]
    sealed: [u8; 48],
}

/// What a secret gives in a slot: an X25519 key, and a key to vouch with.
pub(super) struct Opened {
    key: PrivateKey,
    vouch: Option<Zeroizing<[u8; 32]>>,
}

impl Slot {
    /// A slot of a secret, without any key yet.
    pub fn new(secret: &Secret, label: &str, random: &dyn Random) -> Result<Self> {
        let kind = secret.kind();
        let salt = if kind == SlotKind::Key { [0; 16] } else { random::array(random)? };
        let cost = (kind == SlotKind::Passphrase).then_some(NEW_COST);
        let mut slot = Slot::of(random::array(random)?, kind, label, PublicKey([0; 32]), salt);
        slot.cost = cost;
        slot.public = slot.open(secret)?.key.public();
        Ok(slot)
    }

    /// A slot of somebody's public key.
    pub fn of_public(public: PublicKey, label: &str, random: &dyn Random) -> Result<Self> {
        Ok(Slot::of(random::array(random)?, SlotKind::Key, label, public, [0; 16]))
    }

    fn of(id: [u8; 8], kind: SlotKind, label: &str, public: PublicKey, salt: [u8; 16]) -> Self {
        Slot { id, kind, label: label.into(), public, salt, cost: None, vouch: None, wraps: Vec::new() }
    }

    /// The keys that a secret gives here. Takes the time that the slot's cost says.
    pub fn open(&self, secret: &Secret) -> Result<Opened> {
        let mut derived = Zeroizing::new([0; 32]);
        match secret {
            Secret::Key(key) => return Ok(Opened { key: key.clone(), vouch: None }),
            Secret::Passphrase(passphrase) => {
                stretch(passphrase.as_bytes(), &self.label, &self.salt, self.cost.unwrap_or(NEW_COST), &mut derived)?
            }
            Secret::Recovery(phrase) => {
                // A phrase has 160 random bits: nobody guesses it, and it needs no stretching.
                let mut hasher = blake3::Hasher::new_derive_key(SECRET_CONTEXT);
                *derived = *hasher.update(phrase.bytes()).update(&self.salt).finalize().as_bytes();
            }
        }
        let vouch = Some(Zeroizing::new(blake3::derive_key(VOUCH_CONTEXT, &*derived)));
        Ok(Opened { key: PrivateKey::new(blake3::derive_key(WRAP_CONTEXT, &*derived)), vouch })
    }

    /// Wraps a master key for this slot.
    pub fn wrap(&mut self, store: &[u8; 16], generation: u32, master: &MasterKey, random: &dyn Random) -> Result<()> {
        let ephemeral = PrivateKey::fresh(random)?;
        let key = self.wrap_key(&ephemeral, &self.public, &ephemeral.public().0)?;
        let mut sealed = [0; 48];
        let (body, tag_at) = sealed.split_at_mut(32);
        body.copy_from_slice(master.bytes());
        let tag = key
            .seal_in_place_separate_tag(zero_nonce(), Aad::from(self.aad(store, generation)), body)
            .map_err(|_| Error::Random)?;
        tag_at.copy_from_slice(tag.as_ref());
        self.wraps.push(Wrap { generation, ephemeral: ephemeral.public().0, sealed });
        Ok(())
    }

    /// The master key in a wrap. Absent if the secret is not this slot's.
    pub fn unwrap(&self, store: &[u8; 16], wrap: &Wrap, opened: &Opened) -> Option<MasterKey> {
        let key = self.wrap_key(&opened.key, &PublicKey(wrap.ephemeral), &wrap.ephemeral).ok()?;
        let mut sealed = Zeroizing::new(wrap.sealed);
        let (body, tag) = sealed.split_at_mut(32);
        let tag = <[u8; 16]>::try_from(&*tag).ok()?;
        key.open_in_place_separate_tag(zero_nonce(), Aad::from(self.aad(store, wrap.generation)), tag.into(), body, 0..).ok()?;
        <[u8; 32]>::try_from(&*body).ok().map(MasterKey::new)
    }

    /// The key that a wrap is sealed with: of the shared secret and both public keys.
    fn wrap_key(&self, own: &PrivateKey, other: &PublicKey, ephemeral: &[u8; 32]) -> Result<LessSafeKey> {
        let shared = own.0.diffie_hellman(&x25519_dalek::PublicKey::from(other.0));
        if !shared.was_contributory() {
            return Err(Error::Invalid(format!("cannot use the key of slot {}: it is no X25519 key", self.label)));
        }
        let mut hasher = blake3::Hasher::new_derive_key(WRAP_CONTEXT);
        let mut key = *hasher.update(shared.as_bytes()).update(ephemeral).update(&self.public.0).finalize().as_bytes();
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, &key).map_err(|_| Error::Random);
        key.zeroize();
        unbound.map(LessSafeKey::new)
    }

    fn aad(&self, store: &[u8; 16], generation: u32) -> Vec<u8> {
        [&store[..], &self.id, &generation.to_le_bytes()].concat()
    }

    /// Vouches for a generation, with the secret that the slot was made with.
    pub fn vouch_for(&mut self, store: &[u8; 16], generation: u32, fingerprint: &[u8; 16], opened: &Opened) {
        let mac = |key: &[u8; 32]| vouch_mac(key, store, generation, fingerprint);
        self.vouch = opened.vouch.as_ref().map(|key| Vouch { generation, mac: mac(key) });
    }

    /// The generation that the slot vouches for, if it is this one.
    pub fn vouches_for(&self, store: &[u8; 16], generation: u32, fingerprint: &[u8; 16], opened: &Opened) -> bool {
        let (Some(vouch), Some(key)) = (&self.vouch, &opened.vouch) else { return false };
        let mac = vouch_mac(key, store, generation, fingerprint);
        // The type compares in constant time.
        vouch.generation == generation && blake3::Hash::from_bytes(mac) == blake3::Hash::from_bytes(vouch.mac)
    }

    /// True if a secret could be this slot's.
    pub fn may_take(&self, secret: &Secret) -> bool {
        let is_key = |key: &PrivateKey| key.public() == self.public;
        self.kind == secret.kind() && if let Secret::Key(key) = secret { is_key(key) } else { true }
    }

    /// What is listed of the slot.
    pub fn info(&self) -> SlotInfo {
        SlotInfo { id: self.id, kind: self.kind, label: self.label.clone(), public: self.public }
    }
}

fn vouch_mac(key: &[u8; 32], store: &[u8; 16], generation: u32, fingerprint: &[u8; 16]) -> [u8; 32] {
    *blake3::keyed_hash(key, &[&store[..], &generation.to_le_bytes(), fingerprint].concat()).as_bytes()
}

/// The nonce of a wrap: zeros, because its key is used once.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn stretch(passphrase: &[u8], label: &str, salt: &[u8; 16], cost: Cost, to: &mut [u8; 32]) -> Result<()> {
    let Cost { memory_kib, passes, lanes } = cost;
    if memory_kib > COST_MAX.memory_kib || passes > COST_MAX.passes || lanes > COST_MAX.lanes {
        return Err(Error::damaged("keys", format!("the cost of the passphrase of slot {label} is out of bounds")));
    }
    let unfit = |e| Error::damaged("keys", format!("the cost of the passphrase of slot {label} does not fit: {e}"));
    let params = Params::new(memory_kib, passes, lanes, Some(32)).map_err(unfit)?;
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(passphrase, salt, to).map_err(|e| Error::Invalid(format!("cannot use the passphrase: {e}")))
}
