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
