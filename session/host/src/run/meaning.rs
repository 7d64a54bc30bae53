//! The meaning of an agent's events for its session.

use parhelia_agent::hooks::{Event, Kind};
use parhelia_store::{
    event::Actor,
    record::{Cause, Trigger},
};

/// The actor of a hook.
pub fn hook_actor() -> Actor {
    Actor::program("hook")
}

/// The consequences of an event.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Meaning {
    /// A checkpoint to make.
    pub checkpoint: Option<EventCheckpoint>,
    /// True if a run of this conversation begins, or goes on.
    pub begins: bool,
    /// True if it ends.
    pub ends: bool,
    /// True if the agent may be told something.
    pub tells: bool,
    /// The agent's statement about its need of a person.
    pub says: Option<Says>,
    /// True if it may tell of a folder that the agent works in.
    pub moves: bool,
}

/// The statement of an event about the agent's need of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It asks for something that a person may have to answer, or another hook does.
    MayWait,
    /// It waits for a person.
    Waits,
    /// It has had nothing to do for a while.
    Idles,
    /// It goes on, or has done so.
    Works,
}

/// The statement of an event; none of one that comes of subagents, too, or while the agent waits.
fn says(event: &Event) -> Option<Says> {
    match event.kind() {
        Kind::Permission => Some(Says::MayWait),
        Kind::Notification => match event.notification_type.as_deref()? {
            "idle_prompt" => Some(Says::Idles),
            "permission_prompt" | "elicitation_dialog" | "worker_permission_prompt" | "agent_needs_input" => Some(Says::Waits),
            _ => None,
        },
        Kind::Prompt | Kind::Stop | Kind::StopFailure | Kind::PreCompact | Kind::SessionEnd => Some(Says::Works),
        _ => None,
    }
}

/// A checkpoint that an event asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCheckpoint {
    /// Its trigger, one of the closed set.
    pub trigger: Trigger,
    /// The finer reason, of a closed set that no caller can extend.
    pub cause: Cause,
    /// More about why, for people.
    pub detail: String,
    /// True if none is made where nothing has changed.
    pub skip_if_unchanged: bool,
}

/// The meaning of an event. `is_launched`: whether `session run` waits for the agent, and makes the last checkpoint itself.
pub fn meaning(event: &Event, is_launched: bool) -> Meaning {
    let periodic = |cause: Cause| {
        let detail = cause.name().to_owned();
        EventCheckpoint { trigger: Trigger::Periodic, cause, detail, skip_if_unchanged: true }
    };
    let checkpoint = match event.kind() {
        Kind::Prompt => Some(periodic(Cause::Prompt)),
        Kind::Stop => Some(periodic(Cause::TurnEnd)),
        Kind::PreCompact => Some(periodic(Cause::PreCompact)),
        Kind::PreTool if event.asks() => Some(periodic(Cause::Question)),
        Kind::SubagentStop => Some(periodic(Cause::Subagent)),
        Kind::StopFailure => {
            let (cause, detail) = (Cause::ApiError, event.failure());
            Some(EventCheckpoint { trigger: Trigger::Error, cause, detail, skip_if_unchanged: false })
        }
        Kind::SessionEnd => ending(event, is_launched),
        _ => None,
    };
    let begins = event.kind() == Kind::SessionStart;
    let ends = event.kind() == Kind::SessionEnd && !event.is_followed_by_another();
    Meaning { checkpoint, begins, ends, tells: begins, says: says(event), moves: event.kind() == Kind::CwdChanged }
}

fn ending(event: &Event, is_launched: bool) -> Option<EventCheckpoint> {
    let reason = event.reason.as_deref().unwrap_or("other");
    if event.is_followed_by_another() {
        let (cause, detail) = (Cause::Clear, reason.to_owned());
        return Some(EventCheckpoint { trigger: Trigger::Periodic, cause, detail, skip_if_unchanged: true });
    }
    let detail = format!("session_end: {reason}");
    let ending = EventCheckpoint { trigger: Trigger::Shutdown, cause: Cause::SessionEnd, detail, skip_if_unchanged: false };
    (!is_launched).then_some(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        Event::parse(text.as_bytes()).unwrap()
    }

    fn wanted(text: &str) -> Option<(Trigger, String)> {
        meaning(&event(text), false).checkpoint.map(|c| (c.trigger, c.detail))
    }

    #[test]
    fn each_event_has_its_trigger() {
        use Trigger::*;
        let cases: [(&str, Option<(Trigger, &str)>); 10] = [
            (r#"{"hook_event_name":"Stop"}"#, Some((Periodic, "turn_end"))),
            (r#"{"hook_event_name":"UserPromptSubmit","prompt":"x"}"#, Some((Periodic, "prompt"))),
            (r#"{"hook_event_name":"PreCompact","trigger":"auto"}"#, Some((Periodic, "pre_compact"))),
            (r#"{"hook_event_name":"SubagentStop"}"#, Some((Periodic, "subagent"))),
            (r#"{"hook_event_name":"StopFailure","error":"overloaded"}"#, Some((Error, "api_error: overloaded"))),
            (r#"{"hook_event_name":"SessionEnd","reason":"clear"}"#, Some((Periodic, "clear"))),
            (r#"{"hook_event_name":"SessionEnd","reason":"other"}"#, Some((Shutdown, "session_end: other"))),
            (r#"{"hook_event_name":"PreToolUse"}"#, None),
            (r#"{"hook_event_name":"PreToolUse","tool_name":"Bash"}"#, None),
            (r#"{"hook_event_name":"PreToolUse","tool_name":"ExitPlanMode"}"#, Some((Periodic, "question"))),
        ];
        for (text, expected) in cases {
            assert_eq!(wanted(text), expected.map(|(t, d)| (t, d.to_owned())), "{text}");
        }
        let end = event(r#"{"hook_event_name":"SessionEnd","reason":"prompt_input_exit"}"#);
        assert_eq!(meaning(&end, true), Meaning { ends: true, says: Some(Says::Works), ..Meaning::default() });
        assert!(!meaning(&event(r#"{"hook_event_name":"SessionEnd","reason":"clear"}"#), true).ends);
        assert!(meaning(&event(r#"{"hook_event_name":"SessionStart","source":"resume"}"#), true).begins);
        assert_eq!(meaning(&event(r#"{"hook_event_name":"FromTheFuture"}"#), false), Meaning::default());
        let said = |text: &str| meaning(&event(text), false).says;
        assert_eq!(said(r#"{"hook_event_name":"PermissionRequest","tool_name":"Bash"}"#), Some(Says::MayWait));
        let notified = |kind: &str| said(&format!(r#"{{"hook_event_name":"Notification","notification_type":"{kind}"}}"#));
        assert_eq!((notified("permission_prompt"), notified("idle_prompt")), (Some(Says::Waits), Some(Says::Idles)));
        assert_eq!((notified("auth_success"), said(r#"{"hook_event_name":"Notification"}"#)), (None, None));
        assert!(meaning(&event(r#"{"hook_event_name":"CwdChanged","new_cwd":"/x"}"#), false).moves);
    }
}
