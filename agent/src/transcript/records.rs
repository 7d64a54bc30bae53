//! Records of a kind's transcripts.

use super::{index::Apply, json::Object, message::Message, parts::MessageCursor, reading::WindowBuilder};

/// The records of a kind's transcripts, and how each is read.
pub(crate) struct Records {
    /// Takes one line into an index.
    pub apply: Apply,
    /// The messages of a record, their texts cut to so many bytes; none where it is a record of another kind.
    pub messages: fn(&Object, &mut MessageCursor, usize) -> Option<Vec<Message>>,
    /// Takes a record into the context windows. False where it is a record of another kind.
    pub window: fn(&Object, &mut WindowBuilder) -> bool,
}
