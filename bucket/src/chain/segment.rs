//! Segments: what they say, and their stored form.

use bytes::Bytes;

use super::record::{Record, RecordFault};
use crate::{
    codec::{Decoder, Encoder, Malformed},
    error::{Error, Result},
    layout::{self, MachineId},
    random::{self, Random},
    seal::{Keyring, Seal, Sealing, open_whole},
};

const MAGIC: &[u8; 8] = b"PARHSEGM";
const VERSION: u16 = 1;
const FULL: u8 = 1;
const EMPTIED: u8 = 2;
/// Longest segment, in bytes before sealing: it must go in one request, as uploads in parts have no put-if-absent everywhere.
pub const SEGMENT_BYTES_MAX: usize = 4 << 20;
/// Longest stored segment, in bytes: padding adds at most an eighth.
pub const STORED_BYTES_MAX: u64 = 5 << 20;

/// What a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Records.
    Full {
        /// The epoch of gc that the machine had read.
        epoch: u64,
        /// Chain hash of the segment before; zeros for the first one of a chain.
        previous: [u8; 32],
        /// The chain that this one goes on from, and the number of its last segment: a machine that took a new id.
        continues: Option<(MachineId, u64)>,
        /// Place in the local journal up to which the machine has pushed, with this segment.
        cursor: u64,
        /// The records, in order.
        records: Vec<Record>,
    },
    /// Nothing any more: gc has put this in the place of a segment that nobody needs.
    Emptied {
        /// Name of the segment that was here, by which its writer knows that it landed.
        name: [u8; 32],
        /// Its chain hash.
        hash: [u8; 32],
    },
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The machine whose chain it is in.
    pub machine: MachineId,
    /// Its number in the chain, from 1.
    pub number: u64,
    /// What it holds.
    pub body: Body,
}

impl Segment {
    /// Path of the segment's object.
    pub fn object(&self) -> String {
        layout::segment(self.machine, self.number)
    }

    /// The encoded segment. Fails if it is too long for one request.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut to = Encoder::default();
        to.raw(MAGIC).u16(VERSION);
        match &self.body {
            Body::Full { epoch, previous, continues, cursor, records } => {
                to.u8(FULL).raw(&self.machine.0).u64(self.number).u64(*epoch).raw(previous).u64(*cursor);
                match continues {
                    Some((machine, number)) => to.u8(1).raw(&machine.0).u64(*number),
                    None => to.u8(0),
                };
                to.count(records.len());
                records.iter().for_each(|record| record.encode(&mut to));
            }
            Body::Emptied { name, hash } => {
                to.u8(EMPTIED).raw(&self.machine.0).u64(self.number).raw(name).raw(hash);
            }
        }
        let bytes = to.finish();
        if bytes.len() > SEGMENT_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "cannot write {}: its records have {} bytes, and 4 MiB fit",
                self.object(),
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// The segment in the content of an object, which must be the one of this path.
    fn decode(machine: MachineId, number: u64, content: &[u8]) -> Result<Self> {
        let object = layout::segment(machine, number);
        let newer = |what: String| Error::Newer { object: object.clone(), what };
        let mut from = Decoder::of(content);
        let lead = (|| Ok::<_, Malformed>((from.array::<8>()?, from.u16()?, from.u8()?)))();
        let (magic, version, kind) = lead.map_err(|_| Error::damaged(&object, "it is too short"))?;
        if magic != *MAGIC {
            return Err(Error::damaged(&object, "it does not begin as a segment does"));
        }
        if version != VERSION || !(FULL..=EMPTIED).contains(&kind) {
            return Err(newer(format!("it is a segment of version {version}, kind {kind}")));
        }
        match decode_body(&mut from, kind, machine, number) {
            Ok(body) => Ok(Segment { machine, number, body }),
            Err(RecordFault::Unknown(kind)) => Err(newer(format!("it has a record of kind {kind}"))),
            Err(RecordFault::Malformed) => Err(Error::damaged(&object, "it does not decode")),
        }
    }

    /// The sealed segment and its name, which is its nonce.
    pub fn seal(&self, sealing: Sealing, keys: &Keyring, random: &dyn Random) -> Result<Sealed> {
        let content = self.encode()?;
        let name = random::name(random, blake3::hash(&content).as_bytes())?;
        let bytes = Seal::new(&self.object(), name, sealing, keys)?.seal_whole(&content, keys)?;
        Ok(Sealed { bytes: bytes.into(), name, hash: chain_hash(&content) })
    }

    /// A stored segment, with its name and its chain hash.
    pub fn open(machine: MachineId, number: u64, stored: &[u8], keys: &Keyring) -> Result<(Self, [u8; 32], [u8; 32])> {
        let (header, content) = open_whole(&layout::segment(machine, number), stored.to_vec(), keys)?;
        let segment = Segment::decode(machine, number, &content)?;
        // An emptied segment stands for the one that it took the place of.
        let (name, hash) = match segment.body {
            Body::Emptied { name, hash } => (name, hash),
            Body::Full { .. } => (header.name, chain_hash(&content)),
        };
        Ok((segment, name, hash))
    }
}

/// A sealed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The stored form.
    pub bytes: Bytes,
    /// Its random name.
    pub name: [u8; 32],
    /// Its chain hash, which the next segment bears.
    pub hash: [u8; 32],
}

fn decode_body(from: &mut Decoder, kind: u8, machine: MachineId, number: u64) -> Result<Body, RecordFault> {
    let (own_machine, own_number) = (MachineId(from.array()?), from.u64()?);
    if (own_machine, own_number) != (machine, number) {
        return Err(RecordFault::Malformed);
    }
    let body = if kind == FULL {
        let (epoch, previous, cursor) = (from.u64()?, from.array()?, from.u64()?);
        let continues = match from.u8()? {
            0 => None,
            1 => Some((MachineId(from.array()?), from.u64()?)),
            _ => return Err(RecordFault::Malformed),
        };
        let mut records = Vec::new();
        // Each record takes five bytes or more, so a false count ends soon.
        for _ in 0..from.u32()? {
            records.push(Record::decode(from)?);
        }
        Body::Full { epoch, previous, continues, cursor, records }
    } else {
        Body::Emptied { name: from.array()?, hash: from.array()? }
    };
    from.end()?;
    Ok(body)
}

/// The hash that the next segment bears: of the encoded segment, which has the hash of the one before.
fn chain_hash(content: &[u8]) -> [u8; 32] {
    blake3::derive_key("parhelia 2026-12 bucket segment v1", content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        chain::{Commit, CommitId},
        layout::PackKey,
        pack::PackRef,
        random::OsRandom,
        seal::{Cipher, MasterKey},
    };

    const MACHINE: MachineId = MachineId([9; 16]);

    fn example(events: usize) -> Segment {
        let sealing = Sealing { cipher: Cipher::Aes256Gcm, generation: 1, piece_log2: 16 };
        let key = PackKey { machine: MACHINE, number: 3, name: [4; 32] };
        let packs = vec![PackRef { key, sealing, content_bytes: 5, digest: [6; 32], label: vec![7; 16] }];
        let mut records = vec![
            Record::Commit(Commit { id: CommitId([1; 16]), body: b"{}".to_vec(), packs }),
            Record::Deletion { commit: CommitId([2; 16]), at_ms: 1 },
            Record::Other { kind: 200, body: vec![1] },
        ];
        records.extend((0..events).map(|event| Record::Event(vec![0; event])));
        let body = Body::Full { epoch: 2, previous: [3; 32], continues: Some((MachineId([8; 16]), 4)), cursor: 11, records };
        Segment { machine: MACHINE, number: 3, body }
    }

    #[test]
    fn segments_come_back() {
        let keys = Keyring::plain().with(1, MasterKey::new([1; 32]));
        let emptied = Segment { machine: MACHINE, number: 3, body: Body::Emptied { name: [1; 32], hash: [2; 32] } };
        for segment in [example(20), emptied] {
            let sealed = segment.seal(keys.sealing(Cipher::Aes256Gcm, 16), &keys, &OsRandom::new()).unwrap();
            let (opened, name, hash) = Segment::open(MACHINE, 3, &sealed.bytes, &keys).unwrap();
            assert_eq!(opened, segment);
            if matches!(segment.body, Body::Full { .. }) {
                assert_eq!((name, hash), (sealed.name, sealed.hash));
            }
            assert!(matches!(Segment::open(MACHINE, 4, &sealed.bytes, &keys), Err(Error::Damaged { .. })));
        }
    }

    #[test]
    fn a_record_that_is_not_known_is_not_passed_over() {
        let mut bytes = Encoder::default();
        bytes.raw(MAGIC).u16(1).u8(FULL).raw(&MACHINE.0).u64(1).u64(0).raw(&[0; 32]).u64(0).u8(0).u32(1).u8(50).bytes(b"x");
        assert!(matches!(Segment::decode(MACHINE, 1, &bytes.finish()), Err(Error::Newer { .. })));
    }

    #[test]
    fn a_segment_that_is_too_long_is_refused() {
        let records = vec![Record::Event(vec![0; SEGMENT_BYTES_MAX])];
        let body = Body::Full { epoch: 0, previous: [0; 32], continues: None, cursor: 0, records };
        assert!(Segment { machine: MACHINE, number: 1, body }.encode().is_err());
    }

    proptest! {
        #[test]
        fn changed_segments_are_answered(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut bytes = example(3).encode().unwrap();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            let _ = Segment::decode(MACHINE, 3, &bytes);
            let _ = Segment::decode(MACHINE, 3, &bytes[..cut.index(bytes.len())]);
        }
    }
}
