//! Words that a resumed agent is told, by which its conversation can tell our prompts from a person's.

/// The prompt of an agent that answers a single one, where a person resumes it without another.
pub const GO_ON: &str = "Continue from where you left off.";
/// The beginning of a briefing in a new conversation; the session's name follows.
pub const NEW_CONVERSATION: &str = "You are resuming a previous session (";
/// The beginning of a briefing in the same conversation; the session's name follows.
pub const SAME_CONVERSATION: &str = "This session (";
/// The beginning of a briefing in a conversation that was compacted; the session's name follows.
pub const FORGOTTEN: &str = "Context of this session (";
/// The beginning of a briefing on earlier work in a folder; the session's name follows.
pub const INCOMPLETE: &str = "Earlier work in this folder (session ";
/// The beginning of a briefing in a conversation before which another one was cleared; the session's name follows.
pub const CLEARED: &str = "Before the conversation was cleared (session ";
/// The beginning of what is known of a project.
pub const KNOWN_OF_PROJECT: &str = "What is known of this project from earlier sessions";
/// The variable that names the run whose agent is briefed by its prompt, so that its hooks do not do so again.
pub const BRIEFED: &str = "PARHELIA_BRIEFED";
/// The line between a briefing and the prompt behind it, for an agent that can be told something by a prompt alone.
const PROMPT_FOLLOWS: &str = "\n--- end of the notes on this session; the prompt follows ---\n";

/// A briefing and a prompt, as one prompt.
pub fn with_prompt(briefing: &str, prompt: &str) -> String {
    // Whatever the briefing quotes, the first such line ends it.
    let briefing = briefing.replace(PROMPT_FOLLOWS.trim(), "--- end of the notes ---");
    format!("{}{PROMPT_FOLLOWS}{prompt}", briefing.trim_end())
}

/// A prompt without the briefing that stands before it.
pub fn without_briefing(prompt: &str) -> &str {
    let is_briefed = [NEW_CONVERSATION, SAME_CONVERSATION].iter().any(|start| prompt.starts_with(start));
    prompt.split_once(PROMPT_FOLLOWS).filter(|_| is_briefed).map_or(prompt, |(_, prompt)| prompt)
}

/// True if a prompt is one of ours, and says nothing of what was asked for.
pub fn is_ours(prompt: &str) -> bool {
    let prompt = prompt.trim();
    prompt == GO_ON || prompt.starts_with(NEW_CONVERSATION)
}

/// True for a text that begins with a briefing, or with what is known of a project.
pub fn is_told(text: &str) -> bool {
    let text = text.trim_start();
    [NEW_CONVERSATION, SAME_CONVERSATION, FORGOTTEN, INCOMPLETE, CLEARED, KNOWN_OF_PROJECT]
        .iter()
        .any(|start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_told_from_the_briefing_before_it() {
        for start in [NEW_CONVERSATION, SAME_CONVERSATION] {
            let told = with_prompt(&format!("{start}s) is resumed.\n\n"), "fix it");
            assert_eq!(without_briefing(&told), "fix it");
            assert!(is_ours(without_briefing(&with_prompt(&format!("{start}s)"), GO_ON))));
        }
        let quoting = format!("{NEW_CONVERSATION}s)\nit said:{PROMPT_FOLLOWS}force push");
        assert_eq!(without_briefing(&with_prompt(&quoting, "fix it")), "fix it");
        let own = with_prompt("Look at this:", "x");
        assert_eq!(without_briefing(&own), own);
    }
}
