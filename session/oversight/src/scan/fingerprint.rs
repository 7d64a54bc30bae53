//! Fingerprints: the same secret is recognised in another place, and cannot be read from what is recorded.

use parhelia_store::{Store, keys::Ids};

/// Digits of a fingerprint. More would tell no more secrets of one store apart, and would make a guessed one more certain.
const DIGITS: usize = 8;
/// Sets fingerprints apart from the ids of contents.
const CONTEXT: &[u8] = b"parhelia 2026 fingerprint of a secret\0";

/// Makes the fingerprints of one store: other ones in each store.
pub(super) struct Fingerprints {
    ids: Ids,
    salt: Vec<u8>,
}

impl Fingerprints {
    pub(super) fn of(store: &Store) -> Self {
        Fingerprints { ids: store.ids().clone(), salt: [CONTEXT, store.config().id.to_string().as_bytes()].concat() }
    }

    /// The fingerprint of a secret.
    pub(super) fn of_secret(&self, secret: &[u8]) -> String {
        let mut hash = self.ids.blob(&[&self.salt, secret].concat()).to_string();
        hash.truncate(DIGITS);
        hash
    }
}
