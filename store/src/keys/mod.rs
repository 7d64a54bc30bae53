//! What a store's ids and its stored bytes depend on besides the content: nothing, in the stores of this release. Encryption will be keys
//! and a cipher in their place.

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
    /// What makes ids of bytes.
    pub ids: Ids,
    /// What makes stored bytes of bytes.
    pub seal: Seal,
}
