//! Records of a segment.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    codec::{Decoder, Encoder, Malformed, as_hex, hex},
    layout::MachineId,
    pack::PackRef,
};

/// Id of a commit: the checkpoint's ULID, 16 bytes. A commit that its machine had to write again has its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommitId(#[serde(with = "as_hex")] pub [u8; 16]);

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A commit: a checkpoint exists, if none of its packs is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: CommitId,
    /// The local journal's record of it, which this crate does not read.
    pub body: Vec<u8>,
    /// All packs that it depends on, this machine's and others'.
    pub packs: Vec<PackRef>,
}

/// A record of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A checkpoint.
    Commit(Commit),
    /// An event: the local journal's record of it, which this crate does not read.
    Event(Vec<u8>),
    /// A checkpoint was deleted, on whatever machine it was made.
    Deletion {
        /// The checkpoint.
        commit: CommitId,
        /// Time of the deletion, in milliseconds since 1970. gc waits by it for readers; nothing else goes by it.
        at_ms: u64,
    },
    /// The heads of other chains that the machine had taken in before it recorded what follows in this one: their records come first.
    Seen(Vec<(MachineId, u64)>),
    /// A kind that this release does not know and need not know.
    Other {
        /// Its number, at least 128.
        kind: u8,
        /// Its content.
        body: Vec<u8>,
    },
}

const COMMIT: u8 = 1;
const EVENT: u8 = 2;
const DELETION: u8 = 3;
/// The first of the kinds that may be passed over by who does not know them.
const SEEN: u8 = 128;
const OPTIONAL: u8 = SEEN + 1;

/// A record that does not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFault {
    /// Its bytes are malformed.
    Malformed,
    /// Its kind is not known, and may not be passed over: it may name packs.
    Unknown(u8),
}

impl From<Malformed> for RecordFault {
    fn from(_: Malformed) -> Self {
        RecordFault::Malformed
    }
}

impl Record {
    pub(super) fn encode(&self, to: &mut Encoder) {
        let mut body = Encoder::default();
        let kind = match self {
            Record::Commit(commit) => {
                body.raw(&commit.id.0).bytes(&commit.body).count(commit.packs.len());
                commit.packs.iter().for_each(|pack| pack.encode(&mut body));
                COMMIT
            }
            Record::Event(event) => {
                body.raw(event);
                EVENT
            }
            Record::Deletion { commit, at_ms } => {
                body.raw(&commit.0).u64(*at_ms);
                DELETION
            }
            Record::Seen(heads) => {
                body.count(heads.len());
                for (machine, number) in heads {
                    body.raw(&machine.0).u64(*number);
                }
                SEEN
            }
            Record::Other { kind, body: other } => {
                body.raw(other);
                *kind
            }
        };
        to.u8(kind).bytes(&body.finish());
    }

    pub(super) fn decode(from: &mut Decoder) -> Result<Self, RecordFault> {
        let (kind, body) = (from.u8()?, from.bytes()?);
        let mut fields = Decoder::of(body);
        let record = match kind {
            COMMIT => {
                let (id, body) = (CommitId(fields.array()?), fields.bytes()?.to_vec());
                Record::Commit(Commit { id, body, packs: fields.list(PackRef::decode)? })
            }
            EVENT => return Ok(Record::Event(body.to_vec())),
            DELETION => Record::Deletion { commit: CommitId(fields.array()?), at_ms: fields.u64()? },
            SEEN => Record::Seen(fields.list(|fields| Ok((MachineId(fields.array()?), fields.u64()?)))?),
            OPTIONAL.. => return Ok(Record::Other { kind, body: body.to_vec() }),
            _ => return Err(RecordFault::Unknown(kind)),
        };
        fields.end()?;
        Ok(record)
    }
}
