//! Input trees, reference points and the side-by-side run of parhelia against other tools.
//!
//! - [`datasets`]: makes the trees that are measured and tested with.
//! - [`walk`] and [`bare`]: the bare loops that a checkpoint is held against.
//! - [`side`]: the side-by-side run.
//! - [`load`]: load on the service.
//! - [`plot`]: plots of its figures.
//!
//! `README.md` beside this crate says how to run each.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bare;
pub mod datasets;
pub mod error;
pub mod load;
pub mod memory;
pub mod place;
pub mod plot;
pub mod process;
pub mod random;
pub mod rng;
pub mod side;
pub mod text;
pub mod walk;
