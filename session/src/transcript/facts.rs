//! What a record means: whether a user's record is a prompt, and what a tool call does to which file.

use super::json::{self, Object};

/// What the text of a user's record is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserText {
    /// Somebody's prompt.
    Prompt,
    /// The note that the user interrupted.
    Interruption,
    /// Something that the agent put there itself.
    Aside,
}

/// Tells prompts from what else stands in a user's records: the agent writes slash commands that it answers itself, their output and
/// shell input and notices of background tasks there too, each in a tag of its own.
pub(super) fn user_text(record: &Object, text: &str) -> UserText {
    let is_aside =
        ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSynthetic"].iter().any(|flag| record.is_true(flag));
    if text.trim_start().starts_with("[Request interrupted by user") {
        UserText::Interruption
    } else if is_aside || !is_prompt(text) {
        UserText::Aside
    } else {
        UserText::Prompt
    }
}

/// Whether a text is somebody's, and not in a tag of the agent's own.
pub(super) fn is_prompt(text: &str) -> bool {
    let text = text.trim_start();
    let tags = ["<local-command-", "<command-name>", "<bash-", "<task-notification>"];
    !text.is_empty() && !tags.iter().any(|tag| text.starts_with(tag))
}

/// What a tool does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Edits,
    None,
}

/// What a tool does, by its name.
pub(super) fn effect(tool: &str) -> Effect {
    match tool {
        "Read" | "NotebookRead" => Effect::Reads,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Effect::Edits,
        _ => Effect::None,
    }
}

/// The file that a tool call names, where the tool is one that works on a file.
pub(super) fn path_of(tool: &str, input: &Object, bytes_max: usize) -> Option<String> {
    if effect(tool) == Effect::None {
        return None;
    }
    input.name("file_path", bytes_max).or_else(|| input.name("notebook_path", bytes_max))
}

/// The text of a message's content: a string, or the text blocks of a list, joined by newlines.
pub(super) fn content_text(message: &Object) -> String {
    let Some(content) = message.get("content") else { return String::new() };
    if let Some(text) = json::text(content) {
        return text.into_owned();
    }
    let blocks = json::list(content);
    let blocks = blocks.iter().filter_map(|raw| Object::of(raw));
    let texts = blocks
        .filter(|block| block.text("type").as_deref() == Some("text"))
        .filter_map(|block| block.text("text").map(|text| text.into_owned()));
    // What the agent adds to a prompt is no part of it.
    texts.filter(|text| !text.starts_with("<system-reminder>")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_told_from_what_the_agent_wrote() {
        let kind = |record: &str, text| user_text(&Object::parse(record.as_bytes()).unwrap(), text);
        assert_eq!(kind("{}", "fix it"), UserText::Prompt);
        assert_eq!(kind("{}", "<command-message>review</command-message>"), UserText::Prompt);
        assert_eq!(kind("{}", "<command-name>/clear</command-name>"), UserText::Aside);
        assert_eq!(kind("{}", " <local-command-stdout>"), UserText::Aside);
        assert_eq!(kind("{}", "<task-notification>\n<task-id>a"), UserText::Aside);
        assert_eq!(kind(r#"{"isMeta":true}"#, "caveat"), UserText::Aside);
        assert_eq!(kind(r#"{"isCompactSummary":true}"#, "summary"), UserText::Aside);
        assert_eq!(kind("{}", "[Request interrupted by user for tool use]"), UserText::Interruption);
    }

    #[test]
    fn content_is_a_string_or_blocks() {
        let text = |json: &str| content_text(&Object::parse(json.as_bytes()).unwrap());
        assert_eq!(text(r#"{"content":"a"}"#), "a");
        let blocks = r#"{"content":[{"type":"text","text":"<system-reminder>x"},{"type":"text","text":"a"},5,{"type":"image"},{"type":"text","text":"b"}]}"#;
        assert_eq!(text(blocks), "a\nb");
        assert_eq!(text(r#"{"content":7}"#), "");
    }
}
