//! Parity of a pack: a Reed-Solomon code over all that is in it, by which damaged sectors are computed from the others. A tenth of a percent of
//! checksums says which ones are damaged. docs/decisions/0009-parity.md has the choice, with its measurements.

mod examine;
mod field;
mod shape;
mod stripes;
#[cfg(test)]
mod tests;
mod write;

pub use self::{
    examine::{ParityReport, examine},
    shape::Shape,
    write::{Sums, section, section_again},
};
