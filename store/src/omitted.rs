//! What capture left out: every entry by name, with the reason. No restore or rollback deletes any of these.

use crate::{
    codec::{Decoder, Malformed, put_bytes, put_uint},
    error::Result,
    format::context,
    id::ObjectId,
    name,
    pack::ObjectKind,
    recipe::Encoded,
    record::Checkpoint,
    store::Store,
};

/// Why an entry is not in a checkpoint as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A rule excluded it, with all that is in it. Says which.
    Excluded(String),
    /// It could not be read, and is not in the checkpoint. Says why.
    Unreadable(String),
    /// It kept changing while it was read. What was read last is in the checkpoint.
    Changing,
}

/// One entry that was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Omission {
    /// Its path from the workspace folder.
    pub path: Vec<u8>,
    /// Why.
    pub reason: Reason,
}

/// Encodes a list of omissions as an object.
pub fn encode(omissions: &[Omission]) -> Encoded {
    let mut bytes = b"omits".to_vec();
    put_uint(&mut bytes, omissions.len() as u64);
    for omission in omissions {
        put_bytes(&mut bytes, &omission.path);
        let (number, text) = match &omission.reason {
            Reason::Excluded(rule) => (0, rule.as_str()),
            Reason::Unreadable(error) => (1, error.as_str()),
            Reason::Changing => (2, ""),
        };
        bytes.push(number);
        put_bytes(&mut bytes, text.as_bytes());
    }
    let id = ObjectId(blake3::derive_key(context::TABLE, &bytes));
    Encoded { kind: ObjectKind::Table, id, bytes, tail_bytes: 0 }
}

/// Reads what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Vec<Omission>, Malformed> {
    let mut d = Decoder::new(bytes);
    if d.take(5, "omissions")? != b"omits" {
        return Err(Malformed("omissions"));
    }
    let count = d.count(3, "omissions")?;
    let mut omissions = Vec::with_capacity(count);
    for _ in 0..count {
        let path = d.bytes("omission")?.to_vec();
        if name::components(&path).any(|part| !name::is_valid(part)) {
            return Err(Malformed("path of an omission"));
        }
        let number = d.byte("omission")?;
        let text = String::from_utf8_lossy(d.bytes("omission")?).into_owned();
        let reason = match number {
            0 => Reason::Excluded(text),
            1 => Reason::Unreadable(text),
            2 => Reason::Changing,
            _ => return Err(Malformed("omission")),
        };
        omissions.push(Omission { path, reason });
    }
    d.finish("omissions")?;
    Ok(omissions)
}

impl Store {
    /// What a checkpoint's capture left out, ordered by path.
    pub fn omissions(&self, checkpoint: &Checkpoint) -> Result<Vec<Omission>> {
        match &checkpoint.record.omitted {
            Some(omitted) => self.read_object(ObjectKind::Table, omitted.table, decode),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omissions_round_trip() {
        let list = vec![
            Omission { path: b"a/\xff".to_vec(), reason: Reason::Unreadable("permission denied".into()) },
            Omission { path: b"log".to_vec(), reason: Reason::Changing },
            Omission { path: b"target".to_vec(), reason: Reason::Excluded("target beside Cargo.toml".into()) },
        ];
        assert_eq!(decode(&encode(&list).bytes), Ok(list));
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        let list = vec![Omission { path: b"../x".to_vec(), reason: Reason::Changing }];
        assert!(decode(&encode(&list).bytes).is_err());
    }
}
