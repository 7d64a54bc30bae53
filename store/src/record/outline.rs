//! Outlines of checkpoints: what lists of them show, without decoding their records.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{Cause, Checkpoint, OmissionCounts, Part, Workspace, check_schema, is_complete, named::Trigger, sentences};
use crate::id::{TreeId, Ulid};

/// A checkpoint as lists show it: without what is large in a record, and told of one checkpoint at a time only. Fields are as in
/// [`Record`](super::Record); what may hold anything is as it stands there, and is decoded by who wants it.
#[derive(Clone, Debug, Deserialize)]
pub struct Outline {
    /// As of [`Checkpoint`].
    #[serde(skip)]
    pub sequence: u64,
    /// Id of the checkpoint, a ULID.
    pub id: Ulid,
    /// Id of the session that it belongs to.
    pub session: String,
    /// Id of the run that it was made in; none outside runs.
    pub run: Option<String>,
    /// Epoch of that run; 0 outside runs.
    pub epoch: u64,
    /// True if it was kept without becoming the head.
    #[serde(default)]
    pub fenced: bool,
    /// The checkpoint before it.
    pub parent: Option<Ulid>,
    /// Its place in the chain.
    pub depth: u64,
    /// The reason for which it was made.
    pub trigger: Trigger,
    /// The cause that was recorded. Ask [`Outline::cause`].
    #[serde(default, rename = "cause")]
    pub told_cause: Option<Cause>,
    /// Details of the reason.
    pub trigger_detail: Option<String>,
    /// Message of its maker.
    pub message: Option<String>,
    /// The tree.
    pub root: TreeId,
    /// True if a part could not be captured.
    #[serde(rename = "parts", deserialize_with = "any_failed")]
    pub has_failed_part: bool,
    /// Time at which capture ended.
    pub created_at: Timestamp,
    /// Path and sums of the folder that was captured.
    pub workspace: Workspace,
    /// Entries that were left out.
    pub omitted: Option<OmissionCounts>,
    /// The record's JSON about the conversation, undecoded; none where none was captured.
    pub conversation: Option<Box<RawValue>>,
    /// Tokens and cost.
    pub usage: Option<Box<RawValue>>,
}

impl Outline {
    /// Reads it from a sealed record.
    pub fn decode(sequence: u64, stored: &[u8]) -> Result<Self, serde_json::Error> {
        let machine_and_sealed = stored.first().filter(|byte| **byte == b'@').and_then(|_| {
            let (machine, sealed) = super::origin(str::from_utf8(stored).ok()?);
            Some((machine?, sealed.as_bytes()))
        });
        let (machine, sealed) = machine_and_sealed.map_or((None, stored), |(machine, sealed)| (Some(machine), sealed));
        check_schema(sealed)?;
        let outline: Outline = serde_json::from_slice(sealed)?;
        let session = match machine {
            Some(machine) => super::session_of_machine(&outline.session, machine),
            None => outline.session,
        };
        Ok(Outline { sequence, session, ..outline })
    }

    /// Its cause, as [`Record::cause`](super::Record::cause) has it.
    pub fn cause(&self) -> Option<Cause> {
        sentences::cause_of(self.told_cause, self.trigger, self.trigger_detail.as_deref(), self.message.as_deref())
    }

    /// True if everything that should be in the checkpoint is.
    pub fn is_complete(&self) -> bool {
        is_complete(self.omitted.as_ref(), self.has_failed_part)
    }
}

/// True if one of a record's parts has failed. Keeps nothing of them, as there are several of each checkpoint.
fn any_failed<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    struct State<'a> {
        #[serde(borrow)]
        status: Cow<'a, str>,
    }
    struct Parts;
    impl<'de> Visitor<'de> for Parts {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the states of parts")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut parts: M) -> Result<bool, M::Error> {
            let mut failed = false;
            while let Some((_, state)) = parts.next_entry::<IgnoredAny, State<'de>>()? {
                failed |= state.status == "failed";
            }
            Ok(failed)
        }
    }
    from.deserialize_map(Parts)
}

impl From<&Checkpoint> for Outline {
    fn from(checkpoint: &Checkpoint) -> Self {
        let record = checkpoint.record.clone();
        let raw = |value: Option<Value>| value.and_then(|value| serde_json::value::to_raw_value(&value).ok());
        Outline {
            sequence: checkpoint.sequence,
            id: record.id,
            session: record.session,
            run: record.run,
            epoch: record.epoch,
            fenced: record.fenced,
            parent: record.parent,
            depth: record.depth,
            trigger: record.trigger,
            told_cause: record.told_cause,
            trigger_detail: record.trigger_detail,
            message: record.message,
            root: record.root,
            has_failed_part: has_failed(&record.parts),
            created_at: record.created_at,
            workspace: record.workspace,
            omitted: record.omitted,
            conversation: raw(record.conversation),
            usage: raw(record.usage),
        }
    }
}

pub(super) fn has_failed(parts: &BTreeMap<String, Part>) -> bool {
    parts.values().any(|part| matches!(part, Part::Failed { .. }))
}
