//! The ledger of a store, which is what its events add up to: [sessions](Session), their [runs](Run) and [leases](Lease), what was said of each checkpoint ([marks](Marks)), and which
//! checkpoint a [selector] means. This crate alone reads the meaning of events: to the store they are lines of a chain.
//!
//! [`Ledger`] is the store's [fold](parhelia_store::fold): the store keeps it in its index, and brings it up to the journal's end. [`open`] opens a store with
//! it, and [`LedgerView`] reads it in any view of that store.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `fold/` | the ledger as the store's fold: what each commit and event changes, and the keys by which it is found again |
//! | `session` `run` `lease` `end` `renew` | a session, one life of it, the right to act for that, and how it ended |
//! | `marks` `rejected` `rejection` | what was said of a checkpoint; what a rejection was about, which outlives the checkpoint |
//! | `kind` `sentences` | kinds of events; the words of earlier releases, where they recorded no kind |
//! | `admit` `maker` `import` | which events and checkpoints a session takes, and what becomes of its folder |
//! | `view` `selector` `known` | reading the ledger of a view; which checkpoint a selector means; the folders that sessions work in |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod admit;
mod end;
mod fold;
mod import;
pub mod kind;
pub mod known;
mod lease;
mod lease_file;
mod maker;
mod marks;
mod rejected;
pub mod rejection;
mod renew;
mod run;
pub mod selector;
mod sentences;
mod session;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod view;

use std::path::{Path, PathBuf};

pub use end::{By, End, EndKind};
pub use fold::Ledger;
pub use lease::Lease;
pub use marks::{
    Annotation, Approval, ApprovalStatus, Deletion, Issue, Marks, PossibleSecret, Scan, TAG_BYTES_MAX, UnscannedCounts,
    Verification,
};
use parhelia_store::{OpenOptions, Result, Store, layout::Layout};
pub use parhelia_store::{check::VerifyLevel, place::Place};
pub use rejected::{FIELD as REJECTED, RejectedContent};
pub use renew::renew as renew_lease;
pub use run::{NOT_STARTED, Run, Tmux};
pub use session::{BY_PRICES, Conversation, Goal, PRINTED, Session, Status, Totals};
pub use view::LedgerView;

/// Opens the store in a folder, with its ledger.
#[expect(clippy::disallowed_methods, reason = "the one place that opens a store with its ledger")]
pub fn open(root: &Path, options: &OpenOptions) -> Result<Store> {
    Store::open(root, &OpenOptions { fold: Ledger::empty, ..options.clone() })
}

/// The paths of the store in a folder, with its ledger.
pub fn layout(root: impl Into<PathBuf>) -> Layout {
    Layout { fold: Ledger::empty, ..Layout::new(root) }
}
