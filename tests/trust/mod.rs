//! Trust in a store: power cuts, kills, full and failing disks, damaged and hostile bytes, other versions, strangers.
//!
//! Tests that take seconds are in the ordinary suite. `PARHELIA_LONG=N` makes it long, `PARHELIA_SEED=N` repeats a random run; see
//! `docs/testing.md`. `docs/guarantees.md` says what is proved here.

mod compatibility;
mod every_byte;
mod faults;
mod fuzz;
mod killed;
mod model;
mod power_cut;
mod privacy;
mod protocol;
mod sectors;
mod target;
mod walked;
