//! Fingerprints: the same secret is recognised in another place, and cannot be read from what is recorded.

use parhelia_store::Store;

/// Digits of a fingerprint. More would tell no more secrets of one store apart, and would make a guessed one more certain.
const DIGITS: usize = 8;
/// Sets fingerprints apart from the ids of contents.
const CONTEXT: &[u8] = b"parhelia 2026 fingerprint of a secret\0";

/// The fingerprint of a secret in a store: another one in each store.
pub(super) fn fingerprint(store: &Store, secret: &[u8]) -> String {
    let salted = [CONTEXT, store.config().id.to_string().as_bytes(), secret].concat();
    let mut hash = store.ids().blob(&salted).to_string();
    hash.truncate(DIGITS);
    hash
}
