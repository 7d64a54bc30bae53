//! Fields of reports in JSON.

use serde::Serializer;

/// A list in JSON, as its length: for `#[serde(serialize_with)]`.
pub(crate) fn length<T, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(list.len() as u64)
}
