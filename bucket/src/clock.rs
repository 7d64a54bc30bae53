//! The wall clock: for the end of credentials, the stamps of records and how long gc waits. Nothing that must be right depends on it.

use jiff::Timestamp;

/// The time now.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate stands beside the store, whose clock watches for clocks that are set back"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
