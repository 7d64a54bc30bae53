//! The side-by-side run: parhelia and other tools, in turn, on the same trees.
//!
//! - [`options`]: what the command line chooses.
//! - [`image`]: the journaled filesystem that everything happens on.
//! - [`launch`]: timing one command from a small process.
//! - [`mounted`]: mounts of the tools.
//! - [`tools`]: how each tool is driven.
//! - [`lab`]: what the cases share: tools, figures, rounds.
//! - [`cases`]: what is measured.
//! - [`figures`], [`report`], [`tables`]: medians, and the tables made of them.
//! - [`run`]: all of it in order.

pub mod cases;
pub mod figures;
pub mod image;
pub mod lab;
pub mod launch;
pub mod mounted;
pub mod options;
pub mod report;
pub mod run;
pub mod tables;
pub mod tools;
