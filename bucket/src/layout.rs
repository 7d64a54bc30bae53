//! Names of objects below the bucket's prefix. Nothing is ever renamed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    codec::{Decoder, Encoder, Malformed, as_hex, hex, unhex},
    error::Result,
    random::{self, Random},
};

/// Settings of the store, written once.
pub const STORE: &str = "store.json";
/// Folder of the machines' chains.
pub const JOURNAL: &str = "journal";
/// Folder of gc's chain.
pub const GC: &str = "gc";
/// Folder of the packs.
pub const PACKS: &str = "packs";
/// Folder of the documents of keys.
pub const KEYS: &str = "keys";
/// Folder of claims of sessions' epochs.
pub const CLAIMS: &str = "epochs";

/// Id of a machine in one bucket: 16 random bytes. A machine that finds its chain written to by another one takes a new id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachineId(#[serde(with = "as_hex")] pub [u8; 16]);

impl MachineId {
    /// A fresh id.
    pub fn fresh(random: &dyn Random) -> Result<Self> {
        random::array(random).map(MachineId)
    }

    /// The id in a folder's name, 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(MachineId)
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Identity of a pack: the machine that uploaded it, the number of the segment that was to name it, and its random name. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PackKey {
    /// The machine that uploaded it.
    pub machine: MachineId,
    /// Number of the segment that the machine was to write next.
    pub number: u64,
    /// The random name.
    #[serde(with = "as_hex")]
    pub name: [u8; 32],
}

impl PackKey {
    /// The pack's object.
    pub fn object(&self) -> String {
        format!("{PACKS}/{}/{:020}-{}", self.machine, self.number, hex(&self.name))
    }

    /// The pack whose object this is.
    pub(crate) fn parse(object: &str) -> Option<Self> {
        let (machine, file) = object.strip_prefix(PACKS)?.strip_prefix('/')?.split_once('/')?;
        let (digits, name) = file.split_once('-')?;
        let key = PackKey { machine: MachineId::parse(machine)?, number: number(digits)?, name: unhex(name)? };
        Some(key)
    }

    pub(crate) fn encode(&self, to: &mut Encoder) {
        to.raw(&self.machine.0).u64(self.number).raw(&self.name);
    }

    pub(crate) fn decode(from: &mut Decoder) -> Result<Self, Malformed> {
        Ok(PackKey { machine: MachineId(from.array()?), number: from.u64()?, name: from.array()? })
    }
}

impl fmt::Debug for PackKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object())
    }
}

/// Folder of a machine's chain.
pub fn chain(machine: MachineId) -> String {
    format!("{JOURNAL}/{machine}")
}

/// The object of a segment; numbers are counted from 1.
pub fn segment(machine: MachineId, number: u64) -> String {
    format!("{JOURNAL}/{machine}/{number:020}")
}

/// The object of a record of gc's chain; numbers are counted from 1.
pub fn gc_record(number: u64) -> String {
    format!("{GC}/{number:020}")
}

/// The object of a document of keys; numbers are counted from 1.
pub fn keys(number: u64) -> String {
    format!("{KEYS}/{number:020}")
}

/// The object of a claim of a session's epoch.
pub fn claim(hidden_name: &[u8; 16], epoch: u64) -> String {
    format!("{CLAIMS}/{}/{epoch:020}", hex(hidden_name))
}

/// The number at the end of an object's path: 20 digits.
pub(crate) fn number_of(object: &str) -> Option<u64> {
    object.rsplit_once('/').and_then(|(_, digits)| number(digits))
}

fn number(digits: &str) -> Option<u64> {
    let is_number = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        let key = PackKey { machine: MachineId([1; 16]), number: 7, name: [2; 32] };
        assert_eq!(PackKey::parse(&key.object()), Some(key));
        assert_eq!(PackKey::parse("packs/x"), None);
        assert_eq!(number_of(&segment(MachineId([1; 16]), 12)), Some(12));
        assert_eq!(number_of("gc/12"), None);
        assert_eq!(number_of("gc/99999999999999999999"), None);
    }
}
