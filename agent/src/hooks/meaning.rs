//! The meaning of an event: kinds of agents share most names, and have some of their own.

use super::event::{Event, Kind};
use crate::kinds;

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
}
