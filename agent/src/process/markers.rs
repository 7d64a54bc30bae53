//! Variables by which processes are known again.

/// The variable of programs that are asked something by us, for a summary or their version: an agent that one of them is, or starts, is no session's.
pub const ASKING: &str = "PARHELIA_ASKS_MODEL";
/// The variable that marks every process of a run. Its value is the run's id.
pub const RUN_MARKER: &str = "PARHELIA_RUN_ID";

/// The variable that names a run's session.
pub const SESSION_MARKER: &str = "PARHELIA_SESSION";
