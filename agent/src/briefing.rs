//! Words that a resumed agent is told, by which its conversation can tell our prompts from a person's.

/// The prompt of an agent that answers a single one, where a person resumes it without another.
pub const GO_ON: &str = "Continue from where you left off.";
/// The beginning of a briefing in a new conversation; the session's name follows.
pub const NEW_CONVERSATION: &str = "You are resuming a previous session (";

/// True if a prompt is one of ours, and says nothing of what was asked for.
pub fn is_ours(prompt: &str) -> bool {
    let prompt = prompt.trim();
    prompt == GO_ON || prompt.starts_with(NEW_CONVERSATION)
}
