//! Decisions and open questions of a conversation, as the agent's own tools and its last reply have them, so that
//! nothing is guessed.

use super::{
    json::{Object, clipped},
    limits::{DECISION_BYTES_MAX, QUESTIONS_MAX},
    parts::ToolCall,
    prose::sentences,
};

/// The tool by which the agent asks its user to choose.
const ASKS: &str = "AskUserQuestion";
/// The tool by which the agent has its plan approved.
const PLANS: &str = "ExitPlanMode";
/// The beginning of a decision that is a plan.
pub(crate) const APPROVED_PLAN: &str = "Approved plan: ";

/// The decisions of a finished call: answers of the user, a plan that was approved.
pub(crate) fn decided(call: &ToolCall, record: &Object) -> Vec<String> {
    let input = call.input.as_deref().and_then(|input| Object::parse(input.as_bytes())).unwrap_or_default();
    let result = record.object("toolUseResult").or_else(|| record.object("tool_use_result")).unwrap_or_default();
    let decided: Vec<_> = match call.name.as_str() {
        ASKS => {
            let answers = result.object("answers").unwrap_or_default();
            answers.texts().map(|(question, answer)| format!("{question} {answer}")).collect()
        }
        PLANS => {
            let plan = result.text("plan").or_else(|| input.text("plan")).unwrap_or_default();
            let title = plan.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
            title.map(|title| format!("{APPROVED_PLAN}{title}")).into_iter().collect()
        }
        _ => Vec::new(),
    };
    decided.iter().map(|text| clipped(text.trim(), DECISION_BYTES_MAX).to_owned()).collect()
}

/// The questions of a call that has no result yet.
pub(crate) fn asked(call: &ToolCall) -> Vec<String> {
    if call.name != ASKS {
        return Vec::new();
    }
    let input = call.input.as_deref().and_then(|input| Object::parse(input.as_bytes())).unwrap_or_default();
    let questions = input.list("questions").into_iter().filter_map(Object::of);
    let texts = questions.filter_map(|question| question.text("question").map(|text| text.into_owned()));
    texts.take(QUESTIONS_MAX).map(|text| clipped(text.trim(), DECISION_BYTES_MAX).to_owned()).collect()
}

/// Words of a sentence that says what is in the way.
const BLOCKS: [&str; 4] = ["blocked", "blocker", "blockers", "blocking"];

/// The sentences of a reply that are questions, code left out; of many the last.
pub(crate) fn questions(reply: &str) -> Vec<String> {
    prose(reply, |sentence| sentence.ends_with('?'))
}

/// The sentences of a reply that say that something is blocked, code left out; of many the last.
pub(crate) fn blocked(reply: &str) -> Vec<String> {
    let is_word = |word: &str| BLOCKS.iter().any(|known| word.eq_ignore_ascii_case(known));
    prose(reply, |sentence| !sentence.ends_with('?') && sentence.split(|c: char| !c.is_alphanumeric()).any(is_word))
}

fn prose(reply: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = sentences(reply);
    found.retain(|sentence| is_wanted(sentence));
    found.split_off(found.len().saturating_sub(QUESTIONS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_sentences_of_prose() {
        let reply = "Done. I kept `a?b` as it was.\n\n- **Should tabs stay?** I think so.\n```\nwhat? no\n```\n1. Which one: a.rs or b.rs? Or both?";
        assert_eq!(questions(reply), ["Should tabs stay?", "Which one: a.rs or b.rs?", "Or both?"]);
        assert!(questions("All is well. See https://example.org/?a=b for more!").is_empty());
        assert_eq!(questions(&"Why? ".repeat(50)).len(), QUESTIONS_MAX);
        assert_eq!(blocked("I am blocked by the proxy. Is it blocked? All else is `unblocked`."), ["I am blocked by the proxy."]);
        assert_eq!(questions("¿Qué hacer? 何ですか? \u{1f600}?"), ["¿Qué hacer?", "何ですか?"]);
    }
}
