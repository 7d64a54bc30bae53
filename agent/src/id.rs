//! Ids of conversations.

/// True if a text can be the name of a conversation, and of a file, and is no flag on a command line.
pub fn is_session_id(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    text.len() <= 128 && is_plain && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// True if a text can be a conversation's id.
pub(crate) fn is_conversation_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}
