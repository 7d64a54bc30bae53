//! Exchange of whole histories with other stores of a team, through whatever carries them.
//!
//! [`Outgoing`] gives what this store's own machine has recorded: checkpoints with the packs that they need, events, deletions. [`Incoming`] takes
//! in what another machine has recorded. It stays known as that machine's: it is not given out again, and its events are no links of this
//! journal's chain. Packs are exchanged as they are, byte for byte.

mod incoming;
mod needs;
mod outgoing;
#[cfg(test)]
mod tests;
mod verify;

pub use self::{
    incoming::{Incoming, TakenIn},
    outgoing::{Outgoing, OutgoingBatch, OutgoingRecord},
};
