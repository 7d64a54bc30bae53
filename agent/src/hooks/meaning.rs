//! The meaning of an event: kinds of agents share most names, and have some of their own.

use serde_json::Value;

use super::event::{Event, Kind};
use crate::{environment::redact, kinds};

/// No question is told further, in characters.
const ASKED_CHARACTERS_MAX: usize = 200;
/// Fields of a tool's input that say what it is about, the one that says most first.
const SUBJECTS: [&str; 8] = ["command", "file_path", "notebook_path", "path", "url", "query", "pattern", "description"];

impl Event {
    /// The kind of the event.
    pub fn kind(&self) -> Kind {
        match self.hook_event_name.as_str() {
            "SessionStart" => Kind::SessionStart,
            "UserPromptSubmit" => Kind::Prompt,
            "Stop" => Kind::Stop,
            "StopFailure" => Kind::StopFailure,
            "PreToolUse" => Kind::PreTool,
            "PostToolUse" => Kind::PostTool,
            "PostToolUseFailure" => Kind::ToolFailure,
            "PreCompact" => Kind::PreCompact,
            "PostCompact" => Kind::PostCompact,
            "SubagentStop" => Kind::SubagentStop,
            "SessionEnd" => Kind::SessionEnd,
            "PermissionRequest" => Kind::Permission,
            "Notification" => Kind::Notification,
            "CwdChanged" => Kind::CwdChanged,
            name => kinds::all().into_iter().find_map(|kind| kind.event(name)).unwrap_or(Kind::Other),
        }
    }

    /// True if the agent asks a person something by a tool, and waits for the answer.
    pub fn asks(&self) -> bool {
        let is_asked = |tool: &str| {
            let matchers = kinds::all().into_iter().filter_map(|kind| kind.matcher(&self.hook_event_name));
            matchers.flat_map(|matcher| matcher.split('|')).any(|known| known == tool)
        };
        self.kind() == Kind::PreTool && self.tool_name.as_deref().is_some_and(is_asked)
    }

    /// The thing that a person is asked for, on one line: bounded, and without credentials.
    pub fn asked(&self) -> Option<String> {
        let of_tool = self.tool_input.as_ref().and_then(|input| {
            let tool = self.tool_name.as_deref()?;
            Some(subject(input).map_or_else(|| tool.to_owned(), |subject| format!("{tool}: {subject}")))
        });
        let text = of_tool.or_else(|| self.message.clone()).or_else(|| self.tool_name.clone())?;
        Some(shortened(&redact::prose(&text))).filter(|text| !text.is_empty())
    }
}

/// The subject of a tool's call: a question that it puts, or what it is about to work on.
fn subject(input: &Value) -> Option<&str> {
    let question = || input["questions"][0]["question"].as_str();
    SUBJECTS.iter().find_map(|name| input[*name].as_str()).filter(|text| !text.trim().is_empty()).or_else(question)
}

/// A text on one line, without what fills it up or steers a terminal.
fn shortened(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(ASKED_CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        Event::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_unknown_is_tolerated() {
        let read = event(r#"{"hook_event_name":"FromTheFuture","session_id":"x","new":{"a":[1]}}"#);
        assert_eq!(read.kind(), Kind::Other);
        assert!(read.more.contains_key("new"));
        let odd = event(r#"{"hook_event_name":"Stop","session_id":"x","model":{"id":"m"},"cwd":"/w","prompt":[1]}"#);
        assert_eq!((odd.kind(), odd.session_id.as_str(), odd.cwd), (Kind::Stop, "x", Some("/w".into())));
        assert_eq!(event("{}").kind(), Kind::Other);
        for flag in ["--mcp-config=/tmp/evil.json", "-c", "--dangerously-skip-permissions"] {
            let text = format!(r#"{{"hook_event_name":"SessionStart","session_id":"{flag}","model":"m"}}"#);
            assert_eq!(event(&text).session_id, "", "{flag}");
            assert_eq!(event(&text.replace("\"m\"", "{}")).session_id, "", "{flag}");
        }
        for bad in ["", "[]", "{", "null", "\u{0}"] {
            assert!(Event::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(
            event(r#"{"hook_event_name":"StopFailure","error":{"type":"rate_limit"}}"#).failure(),
            "api_error: rate_limit"
        );
    }

    #[test]
    fn what_is_asked_is_short_and_has_no_credentials() {
        let asked = |input: serde_json::Value, more: &str| {
            event(&format!(r#"{{"hook_event_name":"PermissionRequest","tool_name":"T","tool_input":{input}{more}}}"#)).asked()
        };
        let json = |text: &str| serde_json::from_str(text).unwrap();
        assert_eq!(asked(json(r#"{"command":"rm -rf\n  build","description":"x"}"#), "").as_deref(), Some("T: rm -rf build"));
        assert_eq!(asked(json(r#"{"questions":[{"question":"Which one?"}]}"#), "").as_deref(), Some("T: Which one?"));
        assert_eq!(asked(json(r#"{"other":1}"#), "").as_deref(), Some("T"));
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let command = serde_json::json!({ "command": format!("curl -H 'Authorization: Bearer {secret}' x {secret} \u{1b}[2J") });
        let told = asked(command, "").unwrap();
        assert!(!told.contains("a1B2") && !told.contains('\u{1b}') && told.contains("curl"), "{told}");
        assert_eq!(
            asked(serde_json::json!({ "command": "é".repeat(1000) }), "").unwrap().chars().count(),
            ASKED_CHARACTERS_MAX + 1
        );
        let notified = event(
            r#"{"hook_event_name":"Notification","message":"Claude needs your permission","notification_type":"permission_prompt"}"#,
        );
        assert_eq!((notified.kind(), notified.asked().as_deref()), (Kind::Notification, Some("Claude needs your permission")));
        assert_eq!(event(r#"{"hook_event_name":"Stop"}"#).asked(), None);
    }
}
