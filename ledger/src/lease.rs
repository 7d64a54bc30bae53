//! Leases of runs: who may act for one, and until when.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Right to act for a run, and the time until which it has to be renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its holder, such as a host and a process.
    pub holder: String,
    /// Time of the last renewal.
    pub renewed: Option<Timestamp>,
    /// For how many seconds it holds from then on.
    pub ttl_seconds: u64,
    /// The state of the run, as whoever renewed it from elsewhere said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Value>,
}
