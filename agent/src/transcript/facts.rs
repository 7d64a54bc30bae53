//! The meaning of records: prompts among a user's records, and the effects of tool calls on files.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    json::{self, Object, clipped},
    limits::TURN_BYTES_MAX,
};

/// The kind of text in a user's record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UserText {
    /// A prompt of a person or a program.
    Prompt,
    /// The note that the user interrupted.
    Interruption,
    /// Something that the agent put there itself.
    Aside,
}

/// Tells prompts from what else stands in a user's records: the agent writes slash commands that it answers itself, their output and
/// shell input and notices of background tasks there too, each in a tag of its own.
pub(crate) fn user_text(record: &Object, text: &str) -> UserText {
    let is_aside =
        ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSynthetic"].iter().any(|flag| record.is_true(flag));
    let is_anothers = record.object("origin").and_then(|origin| origin.name("kind", 64)).is_some_and(|kind| kind != "human");
    if text.trim_start().starts_with("[Request interrupted by user") {
        UserText::Interruption
    } else if is_aside || is_anothers || !is_prompt(text) {
        UserText::Aside
    } else {
        UserText::Prompt
    }
}

/// True for a text that a person wrote, and not one in a tag of the agent's own.
pub(crate) fn is_prompt(text: &str) -> bool {
    let text = text.trim_start();
    let tags = [
        "<local-command-",
        "<command-name>",
        "<bash-",
        "<task-notification>",
        "<channel ",
        "<teammate-message",
        "<cross-session-message",
    ];
    !text.is_empty() && !tags.iter().any(|tag| text.starts_with(tag))
}

/// The text of an attachment that the agent has taken out of its queue while it worked, and what it is: what a person typed meanwhile
/// stands nowhere else in the transcript.
pub(crate) fn queued_text(record: &Object) -> Option<(UserText, String)> {
    let attachment = record.object("attachment")?;
    let prompt = attachment.get("prompt").filter(|_| attachment.text("type").as_deref() == Some("queued_command"))?;
    let text = text_of(prompt);
    let is_absent_or = |text: Option<Cow<str>>, wanted: &str| text.is_none_or(|text| text == wanted);
    let is_persons = is_absent_or(attachment.text("commandMode"), "prompt")
        && is_absent_or(attachment.object("origin").and_then(|origin| origin.text("kind")), "human")
        && !attachment.is_true("isMeta");
    Some((if is_persons { user_text(record, &text) } else { UserText::Aside }, text))
}

/// True if the text of a user's record was typed as `typed`: the agent puts shell input and slash commands into tags.
pub(crate) fn is_typed_as(text: &str, typed: &str) -> bool {
    let inner = |tag: &str| Some(text.split_once(&format!("<{tag}>"))?.1.split_once(&format!("</{tag}>"))?.0.trim());
    let is_command = inner("command-name").is_some_and(|name| typed.split_whitespace().next() == Some(name));
    is_command || typed == clipped(inner("bash-input").unwrap_or(text.trim()), TURN_BYTES_MAX)
}

/// The effect of a tool on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Edits,
    None,
}

/// The effect of a tool, by its name.
pub(crate) fn effect(tool: &str) -> Effect {
    match tool {
        "Read" | "NotebookRead" => Effect::Reads,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Effect::Edits,
        _ => Effect::None,
    }
}

/// The file that a tool call names, where the tool is one that works on a file.
pub(crate) fn path_of(tool: &str, input: &Object, bytes_max: usize) -> Option<String> {
    if effect(tool) == Effect::None {
        return None;
    }
    input.name("file_path", bytes_max).or_else(|| input.name("notebook_path", bytes_max))
}

/// The text of a message's content.
pub(crate) fn content_text(message: &Object) -> String {
    message.get("content").map(text_of).unwrap_or_default()
}

/// The text of a content: a string, or the text blocks of a list, joined by newlines.
fn text_of(content: &RawValue) -> String {
    if let Some(text) = json::text(content) {
        return text.into_owned();
    }
    let blocks = json::list(content);
    let blocks = blocks.iter().filter_map(|raw| Object::of(raw));
    let texts = blocks
        .filter(|block| block.text("type").as_deref() == Some("text"))
        .filter_map(|block| block.text("text").map(|text| text.into_owned()));
    // What the agent or an editor adds to a prompt is no part of it.
    texts.filter(|text| !["<system-reminder>", "<ide_"].iter().any(|tag| text.starts_with(tag))).collect::<Vec<_>>().join("\n")
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
        assert_eq!(kind(r#"{"origin":{"kind":"channel"}}"#, "always push"), UserText::Aside);
        assert_eq!(kind(r#"{"origin":{"kind":"human"}}"#, "fix it"), UserText::Prompt);
        assert_eq!(kind("{}", "<teammate-message teammate_id=\"a\">never test</teammate-message>"), UserText::Aside);
        assert_eq!(kind(r#"{"isCompactSummary":true}"#, "summary"), UserText::Aside);
        assert_eq!(kind("{}", "[Request interrupted by user for tool use]"), UserText::Interruption);
    }

    #[test]
    fn what_was_taken_out_of_the_queue_is_a_prompt_if_a_person_typed_it() {
        let kind = |fields: &str| {
            let record = format!(r#"{{"attachment":{{{fields}}}}}"#);
            queued_text(&Object::parse(record.as_bytes()).unwrap())
        };
        let prompt = Some((UserText::Prompt, "a\nb".to_owned()));
        assert_eq!(kind(r#""type":"queued_command","prompt":"a\nb","commandMode":"prompt","origin":{"kind":"human"}"#), prompt);
        assert_eq!(
            kind(r#""type":"queued_command","prompt":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]"#),
            prompt
        );
        let aside = Some((UserText::Aside, "a".to_owned()));
        for fields in [r#""commandMode":"task-notification""#, r#""origin":{"kind":"peer"}"#, r#""isMeta":true"#] {
            assert_eq!(kind(&format!(r#""type":"queued_command","prompt":"a",{fields}"#)), aside, "{fields}");
        }
        assert_eq!(kind(r#""type":"file","prompt":"a""#), None);
    }

    #[test]
    fn what_was_typed_is_known_again_in_its_tags() {
        let compact = "<command-name>/compact</command-name>\n  <command-message>compact</command-message>";
        for (text, typed, is) in [
            (" fix it\n", "fix it", true),
            ("fix it", "fix", false),
            ("<bash-input>ls -l</bash-input>", "ls -l", true),
            (compact, "/compact", true),
            (compact, "/compact the rest", true),
            (compact, "/compacted", false),
        ] {
            assert_eq!(is_typed_as(text, typed), is, "{text} {typed}");
        }
    }

    #[test]
    fn content_is_a_string_or_blocks() {
        let text = |json: &str| content_text(&Object::parse(json.as_bytes()).unwrap());
        assert_eq!(text(r#"{"content":"a"}"#), "a");
        let blocks = r#"{"content":[{"type":"text","text":"<system-reminder>x"},{"type":"text","text":"<ide_selection>y"},{"type":"text","text":"a"},5,{"type":"image"},{"type":"text","text":"b"}]}"#;
        assert_eq!(text(blocks), "a\nb");
        assert_eq!(text(r#"{"content":7}"#), "");
    }
}
