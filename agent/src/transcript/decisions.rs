//! Decisions and open questions of a conversation, as the agent's own tools and its last reply have them, so that
//! nothing is guessed.

use super::{
    index::ToolCall,
    json::{Object, clipped},
    limits::{DECISION_BYTES_MAX, QUESTIONS_MAX},
};

/// The tool by which the agent asks its user to choose.
const ASKS: &str = "AskUserQuestion";
/// The tool by which the agent has its plan approved.
const PLANS: &str = "ExitPlanMode";

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
            title.map(|title| format!("Approved plan: {title}")).into_iter().collect()
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

/// The sentences of a reply that are questions, code left out; of many the last.
pub(crate) fn questions(reply: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in reply.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            sentences(line).filter(|sentence| sentence.ends_with('?')).for_each(|sentence| found.push(sentence.to_owned()));
        }
    }
    found.split_off(found.len().saturating_sub(QUESTIONS_MAX))
}

/// The sentences of a line, without what marks it as an item of a list or as strong.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |at: usize, c: char| {
        let next = line[at + c.len_utf8()..].chars().next();
        matches!(c, '.' | '!' | '?') && next.is_none_or(|next| next.is_whitespace() || matches!(next, '*' | '_' | ')' | '"'))
    };
    let mut start = 0;
    let ends = line.char_indices().filter(move |(at, c)| is_end(*at, *c)).map(|(at, c)| at + c.len_utf8());
    ends.map(move |end| {
        let sentence = &line[start..end];
        start = end;
        sentence.trim_start_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '`' | '¿'))
    })
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
        assert_eq!(questions("¿Qué hacer? 何ですか? \u{1f600}?"), ["¿Qué hacer?", "何ですか?"]);
    }
}
