//! Ending work: [`stop()`] ends the agent, [`pause()`] sets the session aside, [`end()`] is for good.

mod end;
mod last;
mod pause;
mod stop;

pub use end::{Over, end};
pub use last::of_session;
pub use pause::{PauseOutcome, pause};
pub use stop::{StopOutcome, stop};
