//! Briefs of checkpoints: what retention goes by, without decoding their records. The index has one of each checkpoint of a session.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Checkpoint, Trigger};
use crate::{
    clock::Uptime,
    codec::{DecodeError, Decoder, put_bytes},
    id::Ulid,
};

const FENCED: u8 = 1;
const SAFETY: u8 = 2;
const IMPORTED: u8 = 4;
const MESSAGE: u8 = 8;
const PARENT: u8 = 16;
const UPTIME: u8 = 32;

/// A checkpoint as retention sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// Sequence of its commit.
    pub sequence: u64,
    /// Id of the checkpoint, a ULID.
    pub id: Ulid,
    /// Id of the session that it belongs to.
    pub session: Arc<str>,
    /// The checkpoint before it.
    pub parent: Option<Ulid>,
    /// Time at which capture ended.
    pub created_at: Timestamp,
    /// The time for which the machine had run by then; none where that is not known.
    pub uptime: Option<Uptime>,
    /// The reason for which it was made; none for one that this release does not know.
    pub trigger: Option<Trigger>,
    /// True if it was kept without becoming the head.
    pub fenced: bool,
    /// True if it was made before something was overwritten.
    pub is_safety: bool,
    /// True if it comes from an archive.
    pub is_imported: bool,
    /// True if its maker has said something about it.
    pub has_message: bool,
}

impl From<&Checkpoint> for Brief {
    fn from(Checkpoint { sequence, record, .. }: &Checkpoint) -> Self {
        Brief {
            sequence: *sequence,
            id: record.id,
            session: record.session.as_str().into(),
            parent: record.parent,
            created_at: record.created_at,
            uptime: record.uptime(),
            trigger: Some(record.trigger).filter(|trigger| Trigger::ALL.contains(trigger)),
            fenced: record.fenced,
            is_safety: record.is_safety(),
            is_imported: record.is_imported(),
            has_message: record.message.as_ref().is_some_and(|message| !message.trim().is_empty()),
        }
    }
}

impl Brief {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = [
            (self.fenced, FENCED),
            (self.is_safety, SAFETY),
            (self.is_imported, IMPORTED),
            (self.has_message, MESSAGE),
            (self.parent.is_some(), PARENT),
            (self.uptime.is_some(), UPTIME),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        let trigger = Trigger::ALL.iter().position(|trigger| Some(*trigger) == self.trigger).map_or(u8::MAX, |at| at as u8);
        let mut out = self.id.to_bytes().to_vec();
        out.extend_from_slice(&self.created_at.as_second().to_le_bytes());
        out.extend_from_slice(&self.created_at.subsec_nanosecond().to_le_bytes());
        out.extend_from_slice(&[trigger, flags]);
        out.extend(self.parent.into_iter().flat_map(|parent| parent.to_bytes()));
        if let Some(Uptime { boot, up_ms }) = &self.uptime {
            out.extend_from_slice(&up_ms.to_le_bytes());
            put_bytes(&mut out, boot.as_bytes());
        }
        out
    }

    pub(crate) fn decode(session: Arc<str>, sequence: u64, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let id = Ulid::from_bytes(d.array("id")?);
        let (seconds, nanoseconds) = (i64::from_le_bytes(d.array("time")?), i32::from_le_bytes(d.array("time")?));
        let [trigger, flags] = d.array("flags")?;
        let parent = if flags & PARENT > 0 { Some(Ulid::from_bytes(d.array("parent")?)) } else { None };
        let uptime = match flags & UPTIME > 0 {
            true => {
                let up_ms = u64::from_le_bytes(d.array("uptime")?);
                let boot = std::str::from_utf8(d.bytes("uptime")?).map_err(|_| DecodeError("uptime"))?;
                Some(Uptime { boot: boot.to_owned(), up_ms })
            }
            false => None,
        };
        d.finish("brief")?;
        Ok(Brief {
            sequence,
            id,
            session,
            parent,
            created_at: Timestamp::new(seconds, nanoseconds).map_err(|_| DecodeError("time"))?,
            uptime,
            trigger: Trigger::ALL.get(usize::from(trigger)).copied(),
            fenced: flags & FENCED > 0,
            is_safety: flags & SAFETY > 0,
            is_imported: flags & IMPORTED > 0,
            has_message: flags & MESSAGE > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_brief_is_read_as_it_was_written_and_nothing_panics(
            id: u128, parent: Option<u128>, seconds in -377_705_023_201i64..253_402_207_200, nanoseconds in 0i32..1_000_000_000, trigger in 0usize..8,
            flags in prop::array::uniform4(any::<bool>()), uptime: Option<u64>, cut in 0usize..60
        ) {
            let [fenced, is_safety, is_imported, has_message] = flags;
            let brief = Brief {
                sequence: 7, id: Ulid(id), session: "s".into(), parent: parent.map(Ulid), created_at: Timestamp::new(seconds, nanoseconds).unwrap(),
                uptime: uptime.map(|up_ms| Uptime { boot: "0123456789abcdef".into(), up_ms }),
                trigger: Trigger::ALL.get(trigger).copied(), fenced, is_safety, is_imported, has_message,
            };
            let bytes = brief.encode();
            prop_assert_eq!(Brief::decode("s".into(), 7, &bytes), Ok(brief));
            if cut < bytes.len() {
                prop_assert!(Brief::decode("s".into(), 7, &bytes[..cut]).is_err());
            }
        }
    }
}
