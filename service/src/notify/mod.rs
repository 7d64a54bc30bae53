//! Notifications: what people are told of sessions (`told`), how it is put (`text`), and the channels on which it is sent (`channel`).

pub mod channel;
pub mod text;
pub mod told;

use std::collections::BTreeMap;

use jiff::Timestamp;
pub use parhelia_host::config::notifications::Priority;
pub use parhelia_wire::notification::Notification;

/// The time of the last delivery of a kind, and how many of the same were passed over since.
pub type DeliveryHistory = BTreeMap<String, (Timestamp, u64)>;
