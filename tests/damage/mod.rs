//! Damaged bytes are noticed and named; no read returns wrong ones, and nothing panics.

mod noticed;
mod parity;
mod repair;
mod said;
mod stored_again;
mod world;
