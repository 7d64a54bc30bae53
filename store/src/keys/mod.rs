//! The keys of a store: its ids and its stored bytes depend on them and on the content. In the stores of this release they are none.
//! Encryption will be keys and a cipher in their place.

mod ids;
mod seal;
#[cfg(test)]
mod tests;

pub use ids::{BlobHasher, Ids};
pub use seal::{Cipher, Part, Seal};

/// The keys of one store. The default ones are those of a store without encryption.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), derive(Default))]
pub struct Keys {
    /// Makes ids of bytes.
    pub ids: Ids,
    /// Makes stored bytes of bytes.
    pub seal: Seal,
}
