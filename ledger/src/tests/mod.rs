//! The ledger through what the store does with it.

mod admit;
mod folders;
mod imports;
mod named;
