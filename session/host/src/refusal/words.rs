//! Parts of the sentences of refusals.

/// The person who did something, for a message.
pub(super) fn by(user: Option<&String>) -> String {
    user.map(|user| format!(" by {user}")).unwrap_or_default()
}

/// Names in a list, for a message.
pub(super) fn listed(texts: &[String]) -> String {
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

/// The bytes of a path.
pub(super) fn as_bytes(path: &std::path::Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

/// A number of entries, for a message.
pub(super) fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// The end of a list of which so many are not named.
pub(super) fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}
