//! The document of keys: all slots, and what vouches for each generation. A change is a new document under the next number.

use serde::{Deserialize, Serialize};

use super::slot::{Opened, PublicKey, Secret, Slot, SlotInfo, SlotKind, Wrap};
use crate::{
    codec::{as_hex, hex},
    error::{Error, Result},
    layout,
    random::{self, Random},
    seal::{Keyring, MasterKey},
};

const VERSION: u32 = 1;
const VOUCH_CONTEXT: &str = "parhelia 2026-12 bucket generation vouch v1";
const CONFIRM_CONTEXT: &str = "parhelia 2026-12 bucket generation confirm v1";
/// Most slots and generations of a document.
const ITEMS_MAX: usize = 1000;
/// Most slots of passphrases: each costs a wrong passphrase its stretching, and the bucket's owner says how many there are.
const PASSPHRASES_MAX: usize = 16;

/// The fingerprint of a generation, by which a machine knows it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The generation.
    pub generation: u32,
    /// The fingerprint of its key.
    #[serde(with = "as_hex")]
    pub key: [u8; 16],
}

/// A generation of the master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Generation {
    generation: u32,
    #[serde(with = "as_hex")]
    fingerprint: [u8; 16],
    /// MAC by the generation before, over this one; zeros of the first one.
    #[serde(with = "as_hex")]
    vouch: [u8; 32],
    /// MAC by this generation, over all before it: whoever knows this one knows that they are right as well.
    #[serde(with = "as_hex")]
    confirm: [u8; 32],
}

/// The keys of a bucket: slots and generations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    parhelia_keys: u32,
    number: u64,
    #[serde(with = "as_hex")]
    store: [u8; 16],
    generations: Vec<Generation>,
    slots: Vec<Slot>,
    /// Random, so that no two documents are equal.
    #[serde(with = "as_hex")]
    nonce: [u8; 16],
    checksum: String,
}

impl Document {
    /// The first document of a bucket, with one generation and one slot, and the bucket's keys.
    pub fn new(store: [u8; 16], secret: &Secret, label: &str, random: &dyn Random) -> Result<(Self, Keyring)> {
        let master = MasterKey::new(random::array(random)?);
        let keys = Keyring::plain().with(1, master.clone());
        let confirm = confirm_mac(&master, &store, &[], &master.fingerprint());
        let generations = vec![Generation { generation: 1, fingerprint: master.fingerprint(), vouch: [0; 32], confirm }];
        let nonce = random::array(random)?;
        let document =
            Document { parhelia_keys: VERSION, number: 1, store, generations, slots: Vec::new(), nonce, checksum: String::new() };
        let mut document = document.with_slot(secret, label, &keys, random)?;
        document.number = 1;
        Ok((document, keys))
    }

    /// Number of the document, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The fingerprint of the newest generation, to compare between machines, and to remember.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.generations.last().map(|last| Fingerprint { generation: last.generation, key: last.fingerprint })
    }

    /// The slots.
    pub fn slots(&self) -> Vec<SlotInfo> {
        self.slots.iter().map(Slot::info).collect()
    }

    /// A next document.
    fn next(&self, random: &dyn Random) -> Result<Self> {
        Ok(Document { number: self.number + 1, nonce: random::array(random)?, checksum: String::new(), ..self.clone() })
    }

    /// The next document, with one more slot.
    pub fn with_slot(&self, secret: &Secret, label: &str, keys: &Keyring, random: &dyn Random) -> Result<Self> {
        let slot = Slot::new(secret, label, random)?;
        let opened = slot.open(secret)?;
        self.with(slot, Some(opened), keys, random)
    }

    /// The next document, with a slot for somebody's public key.
    pub fn with_public_key(&self, key: PublicKey, label: &str, keys: &Keyring, random: &dyn Random) -> Result<Self> {
        self.with(Slot::of_public(key, label, random)?, None, keys, random)
    }

    fn with(&self, mut slot: Slot, opened: Option<Opened>, keys: &Keyring, random: &dyn Random) -> Result<Self> {
        if self.slots.iter().any(|other| other.label == slot.label) {
            return Err(Error::Invalid(format!("cannot add the slot {}: there is one of this name", slot.label)));
        }
        let mut next = self.next(random)?;
        for Generation { generation, fingerprint, .. } in &self.generations {
            let missing = || Error::NoKey { object: layout::keys(self.number), generation: *generation };
            slot.wrap(&self.store, *generation, keys.key(*generation).ok_or_else(missing)?, random)?;
            if let Some(opened) = &opened {
                slot.vouch_for(&self.store, *generation, fingerprint, opened);
            }
        }
        next.slots.push(slot);
        next.bounded()
    }

    /// The next document, without a slot. What its holder has seen stays known to him: rotate the key as well.
    pub fn without_slot(&self, label: &str, random: &dyn Random) -> Result<Self> {
        let mut next = self.next(random)?;
        next.slots.retain(|slot| slot.label != label);
        match (next.slots.len() == self.slots.len(), next.slots.is_empty()) {
            (true, _) => Err(Error::Invalid(format!("cannot remove the slot {label}: there is none of this name"))),
            (_, true) => Err(Error::Invalid(format!(
                "cannot remove the slot {label}: it is the last one, and nothing would open the bucket"
            ))),
            _ => Ok(next),
        }
    }

    /// The next document, with a new generation for what is written from now on, and the keys with it.
    pub fn rotated(&self, keys: &Keyring, random: &dyn Random) -> Result<(Self, Keyring)> {
        let mut next = self.next(random)?;
        let newest = keys.newest();
        let missing = || Error::NoKey { object: layout::keys(self.number), generation: newest };
        let before =
            keys.key(newest).filter(|_| self.fingerprint().is_some_and(|f| f.generation == newest)).ok_or_else(missing)?;
        let (generation, master) = (newest + 1, MasterKey::new(random::array(random)?));
        let fingerprint = master.fingerprint();
        let vouch = vouch_mac(before, &self.store, generation, &fingerprint);
        let confirm = confirm_mac(&master, &self.store, &self.generations, &fingerprint);
        next.generations.push(Generation { generation, fingerprint, vouch, confirm });
        for slot in &mut next.slots {
            slot.wrap(&self.store, generation, &master, random)?;
        }
        Ok((next.bounded()?, keys.clone().with(generation, master)))
    }

    fn bounded(self) -> Result<Self> {
        match self.fault() {
            Some(fault) => Err(Error::Invalid(format!("cannot write the keys: {fault}"))),
            None => Ok(self),
        }
    }

    /// A fault of the document as a whole, found before any secret is tried.
    fn fault(&self) -> Option<String> {
        if self.slots.len() > ITEMS_MAX || self.generations.len() > ITEMS_MAX {
            return Some(format!("there are more than {ITEMS_MAX} slots or generations"));
        }
        if self.slots.iter().filter(|slot| slot.kind == SlotKind::Passphrase).count() > PASSPHRASES_MAX {
            return Some(format!("there are more than {PASSPHRASES_MAX} slots of passphrases"));
        }
        // Generations without gaps, so that none is ever newer than the last one that is vouched for, and none older than the first.
        if self.generations.is_empty()
            || !self.generations.iter().map(|listed| listed.generation).eq((1..).take(self.generations.len()))
        {
            return Some("its generations are not counted from 1 in order".into());
        }
        None
    }

    /// The keys, opened with a secret. Fails if nothing vouches for them: not a generation that this machine knows, nor the slot.
    pub fn open(&self, secret: &Secret, known: Option<&Fingerprint>) -> Result<Keyring> {
        if let Some(fault) = self.fault() {
            return Err(Error::damaged(layout::keys(self.number), fault));
        }
        let mut fault = None;
        for slot in self.slots.iter().filter(|slot| slot.may_take(secret)) {
            match self.open_slot(slot, secret, known) {
                Ok(Some(keys)) => return Ok(keys),
                Ok(None) => {}
                // One bad slot must not keep the others shut: anybody who writes to the bucket can add one.
                Err(e) => fault = fault.or(Some(e)),
            }
        }
        Err(fault.unwrap_or_else(|| Error::Locked("no slot opens with what was given".into())))
    }

    /// The keys in one slot. Absent if the secret is not this slot's.
    fn open_slot(&self, slot: &Slot, secret: &Secret, known: Option<&Fingerprint>) -> Result<Option<Keyring>> {
        let newest = self.fingerprint().map_or(0, |last| last.generation);
        let opened = slot.open(secret)?;
        let unwrapped = |wrap: &Wrap| slot.unwrap(&self.store, wrap, &opened).map(|master| (wrap.generation, master));
        // Wraps of other generations than are listed are passed over: nothing vouches for what is in them.
        let listed = slot.wraps.iter().filter(|wrap| (1..=newest).contains(&wrap.generation));
        let masters: Vec<_> = listed.filter_map(unwrapped).collect();
        if masters.is_empty() {
            return Ok(None);
        }
        let keys = masters.into_iter().fold(Keyring::plain(), |keys, (generation, master)| keys.with(generation, master));
        self.verify(slot, &opened, &keys, known)?;
        Ok(Some(keys))
    }

    /// Every generation is vouched for by the one before, and the first one that is not known otherwise by the slot or by this machine.
    fn verify(&self, slot: &Slot, opened: &Opened, keys: &Keyring, known: Option<&Fingerprint>) -> Result<()> {
        let forged = |what: String| Error::damaged(layout::keys(self.number), what);
        let mut before: Option<&MasterKey> = None;
        let mut is_anchored = known.is_none() && slot.kind == SlotKind::Key;
        for (index, Generation { generation, fingerprint, vouch, confirm }) in self.generations.iter().enumerate() {
            let master = keys.key(*generation).filter(|master| master.fingerprint() == *fingerprint);
            let master =
                master.ok_or_else(|| forged(format!("the key of generation {generation} is not the one that it lists")))?;
            // The type compares in constant time.
            let fits = |mac, stored| blake3::Hash::from_bytes(mac) == blake3::Hash::from_bytes(stored);
            if before.is_some_and(|before| !fits(vouch_mac(before, &self.store, *generation, fingerprint), *vouch)) {
                return Err(forged(format!("nothing vouches for the key of generation {generation}")));
            }
            if !fits(confirm_mac(master, &self.store, &self.generations[..index], fingerprint), *confirm) {
                return Err(forged(format!("the key of generation {generation} follows others than are listed")));
            }
            is_anchored |= known.is_some_and(|known| known.generation == *generation && known.key == *fingerprint);
            is_anchored |= known.is_none() && slot.vouches_for(&self.store, *generation, fingerprint, opened);
            before = Some(master);
        }
        if !is_anchored || before.is_none() || known.is_some_and(|known| known.generation > keys.newest()) {
            return Err(forged("its keys are not those that this machine or the secret knows".into()));
        }
        Ok(())
    }

    /// The stored form.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let summed = Document { checksum: self.sum()?, ..self.clone() };
        json(&summed)
    }

    fn sum(&self) -> Result<String> {
        Ok(hex(&crc32c::crc32c(&json(&Document { checksum: String::new(), ..self.clone() })?).to_be_bytes()))
    }

    /// The document in an object.
    pub(super) fn decode(object: &str, number: u64, bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Lead {
            parhelia_keys: u32,
        }
        let damaged = |cause: String| Error::damaged(object, cause);
        let lead: Lead = serde_json::from_slice(bytes).map_err(|_| damaged("it is no document of keys".into()))?;
        if lead.parhelia_keys != VERSION {
            return Err(Error::Newer { object: object.into(), what: format!("its format has version {}", lead.parhelia_keys) });
        }
        let document: Document = serde_json::from_slice(bytes).map_err(|e| damaged(format!("it does not decode: {e}")))?;
        if document.sum()? != document.checksum || document.number != number {
            return Err(damaged("its checksum or its number is wrong".into()));
        }
        match document.fault() {
            Some(fault) => Err(damaged(fault)),
            None => Ok(document),
        }
    }
}

fn vouch_mac(before: &MasterKey, store: &[u8; 16], generation: u32, fingerprint: &[u8; 16]) -> [u8; 32] {
    let key = before.derive(VOUCH_CONTEXT);
    *blake3::keyed_hash(&key, &[&store[..], &generation.to_le_bytes(), fingerprint].concat()).as_bytes()
}

fn confirm_mac(master: &MasterKey, store: &[u8; 16], before: &[Generation], fingerprint: &[u8; 16]) -> [u8; 32] {
    let key = master.derive(CONFIRM_CONTEXT);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(store);
    for Generation { generation, fingerprint, .. } in before {
        hasher.update(&generation.to_le_bytes()).update(fingerprint);
    }
    *hasher.update(fingerprint).finalize().as_bytes()
}

fn json(document: &Document) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|e| Error::Invalid(format!("cannot encode the keys: {e}")))
}

#[cfg(test)]
impl Document {
    /// An attack by the bucket's owner: a key of his own, wrapped for all slots.
    pub(super) fn replace_first_generation(&mut self, own: &Document, own_keys: &Keyring, random: &dyn Random) {
        self.generations = own.generations.clone();
        for slot in &mut self.slots {
            slot.wraps.clear();
            slot.wrap(&self.store, 1, own_keys.key(1).unwrap(), random).unwrap();
        }
    }

    /// An attack by the bucket's owner: one more key, wrapped for all slots.
    pub(super) fn inject(&mut self, generation: u32, own: &MasterKey, random: &dyn Random) {
        for slot in &mut self.slots {
            slot.wrap(&self.store, generation, own, random).unwrap();
        }
    }

    /// Other numbers for the generations that are listed.
    pub(super) fn renumber(&mut self, numbers: &[u32]) {
        let listed = self.generations.clone();
        self.generations =
            numbers.iter().zip(listed.iter().cycle()).map(|(n, g)| Generation { generation: *n, ..g.clone() }).collect();
    }

    /// Another vouch for the newest generation.
    pub(super) fn break_vouch(&mut self) {
        self.generations.last_mut().unwrap().vouch[0] ^= 1;
    }

    /// An attack by the bucket's owner: a first generation of his own before the ones that machines know.
    pub(super) fn forge_first_of_two(&mut self, own: &MasterKey, random: &dyn Random) {
        let second = self.generations[1].clone();
        let (first, mac) = (&mut self.generations[0], vouch_mac(own, &self.store, 2, &second.fingerprint));
        (first.fingerprint, first.confirm) = (own.fingerprint(), confirm_mac(own, &self.store, &[], &own.fingerprint()));
        self.generations[1].vouch = mac;
        for slot in &mut self.slots {
            slot.wraps.retain(|wrap| wrap.generation != 1);
            slot.wrap(&self.store, 1, own, random).unwrap();
        }
    }
}
