//! Records of gc's chain: one in an object.

use crate::{
    codec::{Decoder, Encoder, Malformed},
    error::{Error, Result},
    layout::{self, MachineId, PackKey},
    random::{self, Random},
    seal::{Keyring, Seal, Sealing, open_whole},
};

const MAGIC: &[u8; 8] = b"PARHGCCH";
const VERSION: u16 = 1;
const CONDEMN: u8 = 1;
const RESOLVE: u8 = 2;

/// A record of gc's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcRecord {
    /// No new commit may rely on these packs until the condemnation is resolved.
    Condemn {
        /// The number of condemnations so far, this one included.
        epoch: u64,
        /// The packs, in order.
        packs: Vec<PackKey>,
    },
    /// A condemnation is over.
    Resolve(Resolution),
}

/// The end of a condemnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Epoch of the condemnation.
    pub epoch: u64,
    /// Number of the last segment that was read of each machine's chain, after the condemnation was written. A machine that is not listed has 0.
    pub heads: Vec<(MachineId, u64)>,
    /// Packs whose bytes go.
    pub deleted: Vec<PackKey>,
    /// Packs that commits refer to.
    pub kept: Vec<PackKey>,
}

impl GcRecord {
    fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.raw(MAGIC).u16(VERSION);
        let packs = |to: &mut Encoder, packs: &[PackKey]| {
            to.count(packs.len());
            packs.iter().for_each(|pack| pack.encode(to));
        };
        match self {
            GcRecord::Condemn { epoch, packs: condemned } => {
                to.u8(CONDEMN).u64(*epoch);
                packs(&mut to, condemned);
            }
            GcRecord::Resolve(Resolution { epoch, heads, deleted, kept }) => {
                to.u8(RESOLVE).u64(*epoch).count(heads.len());
                for (machine, head) in heads {
                    to.raw(&machine.0).u64(*head);
                }
                packs(&mut to, deleted);
                packs(&mut to, kept);
            }
        }
        to.finish()
    }

    fn decode(object: &str, content: &[u8]) -> Result<Self> {
        let malformed = |_: Malformed| Error::damaged(object, "it does not decode");
        let mut from = Decoder::of(content);
        if from.array::<8>().map_err(malformed)? != *MAGIC {
            return Err(Error::damaged(object, "it does not begin as a record of gc does"));
        }
        let (version, kind) = (from.u16().map_err(malformed)?, from.u8().map_err(malformed)?);
        if version != VERSION || !(CONDEMN..=RESOLVE).contains(&kind) {
            return Err(Error::Newer {
                object: object.into(),
                what: format!("it is a record of version {version}, kind {kind}"),
            });
        }
        let mut read = || {
            let epoch = from.u64()?;
            let record = if kind == CONDEMN {
                GcRecord::Condemn { epoch, packs: from.list(PackKey::decode)? }
            } else {
                let heads = from.list(|from| Ok((MachineId(from.array()?), from.u64()?)))?;
                let (deleted, kept) = (from.list(PackKey::decode)?, from.list(PackKey::decode)?);
                GcRecord::Resolve(Resolution { epoch, heads, deleted, kept })
            };
            from.end()?;
            Ok(record)
        };
        read().map_err(malformed)
    }

    /// The stored form of the record at a number.
    pub(super) fn seal(&self, number: u64, sealing: Sealing, keys: &Keyring, random: &dyn Random) -> Result<Vec<u8>> {
        let content = self.encode();
        let name = random::name(random, blake3::hash(&content).as_bytes())?;
        Seal::new(&layout::gc_record(number), name, sealing, keys)?.seal_whole(&content, keys)
    }

    /// The record in the stored form at a number.
    pub(super) fn open(number: u64, stored: &[u8], keys: &Keyring) -> Result<Self> {
        let object = layout::gc_record(number);
        let (_, content) = open_whole(&object, stored.to_vec(), keys)?;
        GcRecord::decode(&object, &content)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{random::OsRandom, seal::Cipher};

    fn pack(name: u8) -> PackKey {
        PackKey { machine: MachineId([1; 16]), number: 2, name: [name; 32] }
    }

    #[test]
    fn records_come_back() {
        let (keys, heads) = (Keyring::plain(), vec![(MachineId([1; 16]), 7)]);
        let records = [
            GcRecord::Condemn { epoch: 3, packs: vec![pack(1), pack(2)] },
            GcRecord::Resolve(Resolution { epoch: 3, heads, deleted: vec![pack(1)], kept: vec![pack(2)] }),
        ];
        for record in records {
            let stored = record.seal(5, keys.sealing(Cipher::Plain, 16), &keys, &OsRandom::new()).unwrap();
            assert_eq!(GcRecord::open(5, &stored, &keys).unwrap(), record);
            assert!(GcRecord::open(6, &stored, &keys).is_err());
        }
    }

    proptest! {
        #[test]
        fn noise_is_answered(noise in prop::collection::vec(any::<u8>(), 0..100), kind in 0u8..5) {
            let lead = [&MAGIC[..], &1u16.to_le_bytes(), &[kind]].concat();
            let _ = GcRecord::decode("gc/1", &[lead, noise].concat());
        }
    }
}
