//! The model's context windows, read back from a transcript: what the conversation has put before the model since it began or was last
//! compacted, piece by piece.

pub use super::reading::{Piece, What, Window, Windows};

use std::io::{self, BufRead};

use super::{
    json::Object,
    line::{self, Line},
    reading::WindowBuilder,
};
use crate::kinds::RECORDS;

/// Reads the last windows of a transcript. What subagents said is left out: it is in windows of their own.
pub fn read(mut input: impl BufRead) -> io::Result<Windows> {
    let (mut buffer, mut reading) = (Vec::new(), WindowBuilder::default());
    while let Some((line, _)) = line::next(&mut input, &mut buffer)? {
        if line == Line::Whole
            && let Some(record) = Object::parse(&buffer)
        {
            // Whatever may be anybody's is the last one's.
            let _ = RECORDS.iter().find(|records| (records.window)(&record, &mut reading));
        }
    }
    Ok(reading.done())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> (Windows, Vec<(What, String, bool)>) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let windows = read(text.as_bytes()).unwrap();
        let pieces = windows.now.pieces.iter().map(|piece| (piece.what, piece.text.clone(), piece.is_error)).collect();
        (windows, pieces)
    }

    #[test]
    fn a_compaction_begins_another_window() {
        let (windows, pieces) = shown(&[
            r#"{"type":"attachment","attachment":{"type":"prompt_snapshot","systemPrompt":["You are","an agent"]}}"#,
            r#"{"type":"user","message":{"content":"fix it"}}"#,
            r#"{"type":"assistant","message":{"model":"claude-x","usage":{"input_tokens":90,"output_tokens":10},"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Looking."},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"no rule","is_error":true}]}}"#,
            r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":160}}"#,
            r#"{"type":"user","isCompactSummary":true,"message":{"content":"This session is being continued"}}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_additional_context","content":["Context of this session (s)"]}}"#,
            r#"{"type":"assistant","isSidechain":true,"message":{"content":"elsewhere"}}"#,
        ]);
        let expected = [
            (What::System, "You are\n\nan agent".to_owned(), false),
            (What::Summary, "This session is being continued".into(), false),
            (What::Told, "Context of this session (s)".into(), false),
        ];
        assert_eq!(pieces, expected);
        let before = windows.before.unwrap();
        assert_eq!((before.reported_tokens, windows.now.reported_tokens), (Some(160), None));
        let kinds: Vec<What> = before.pieces.iter().map(|piece| piece.what).collect();
        assert_eq!(kinds, [What::System, What::Prompt, What::Thought, What::Reply, What::Call, What::Result]);
        assert_eq!((before.pieces[5].tool.as_deref(), before.pieces[4].about.as_deref()), (Some("Bash"), Some("make")));
        assert!(before.pieces[5].is_error);
    }

    #[test]
    fn a_rollout_has_each_prompt_once_and_says_how_large_the_window_is() {
        let (windows, pieces) = shown(&[
            r#"{"type":"session_meta","payload":{"id":"c","base_instructions":{"text":"You are"}}}"#,
            r#"{"type":"turn_context","payload":{"model":"gpt-5.2-codex"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]}}"#,
            r#"{"type":"event_msg","payload":{"type":"user_message","message":"fix it"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call","name":"exec_command","call_id":"k","arguments":"{\"cmd\":\"make\"}"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"k","output":"Wall time: 1\nProcess exited with code 2\nOutput:\nno rule"}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"model_context_window":272000,"last_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":7}}}}"#,
        ]);
        let kinds: Vec<_> = pieces.iter().map(|(what, _, is_error)| (*what, *is_error)).collect();
        let expected = [What::System, What::Told, What::Prompt, What::Call].map(|what| (what, false));
        assert_eq!(kinds, [&expected[..], &[(What::Result, true)]].concat());
        assert_eq!((windows.limit_tokens, windows.now.reported_tokens), (Some(272_000), Some(107)));
        assert_eq!(windows.model.as_deref(), Some("gpt-5.2-codex"));
    }

    #[test]
    fn a_chat_repeats_messages() {
        let calling =
            r#"{"id":"g1","type":"gemini","content":"Looking.","tokens":{"input":10,"output":3},"model":"gemini-3-pro"}"#;
        let called = r#"{"id":"g1","type":"gemini","content":"Looking.","tokens":{"input":10,"output":3},"model":"gemini-3-pro","toolCalls":[{"id":"k","name":"run_shell_command","args":{"command":"false"},"result":[{"functionResponse":{"response":{"error":"code 1"}}}],"status":"error"}]}"#;
        let (windows, pieces) = shown(&[r#"{"id":"u","type":"user","content":"fix it"}"#, calling, called, called]);
        let kinds: Vec<_> = pieces.iter().map(|(what, ..)| *what).collect();
        assert_eq!(kinds, [What::Prompt, What::Reply, What::Call, What::Result]);
        assert!(pieces[3].2 && pieces[3].1 == "code 1");
        assert_eq!(windows.now.reported_tokens, Some(13));
    }
}
