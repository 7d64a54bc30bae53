//! Keys and values of the index, as far as the view knows their form. The chain of events has `e` and `k/`, and a fold's begin with `f/`.

use super::broken_view;
use crate::{db::Db, error::Result, id::Ulid, keys::Ids, record::Checkpoint};

/// Key of a checkpoint's sequence in RocksDB.
pub(super) fn sequence_key(id: Ulid) -> Vec<u8> {
    format!("c/{id}").into_bytes()
}

/// Key of the checkpoint that a deleted one came from.
pub(super) fn origin_key(deleted: Ulid) -> Vec<u8> {
    format!("p/{deleted}").into_bytes()
}

/// Prefix of the keys of records that cannot be read; their sequences follow.
pub(super) const UNREADABLE: &[u8] = b"u/";

pub(super) fn unreadable_key(sequence: u64) -> Vec<u8> {
    [UNREADABLE, &sequence.to_be_bytes()].concat()
}

/// Prefix of the keys of a session's checkpoints; their sequences follow.
pub(super) fn checkpoints_key(db: &Db, session: &str) -> Vec<u8> {
    format!("o/{}\0", db.name(session)).into_bytes()
}

pub(super) fn decode_checkpoint(ids: &Ids, key: &[u8], sealed: Vec<u8>) -> Result<Checkpoint> {
    let sequence = decode_sequence(key)?;
    let sealed = String::from_utf8(sealed).map_err(|e| broken_view(e.to_string()))?;
    Checkpoint::decode(sequence, sealed, ids).map_err(|e| broken_view(e.to_string()))
}

pub(super) fn decode_sequence(key: &[u8]) -> Result<u64> {
    key.try_into().map(u64::from_be_bytes).map_err(|_| broken_view("a sequence does not decode".into()))
}
