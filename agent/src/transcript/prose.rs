//! Sentences of what people and models write.

/// The sentences of a text, code in fences left out. Lines of one paragraph belong together; an item of a list stands for itself.
pub(crate) fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        is_code ^= is_fence;
        if is_fence || is_code || line.is_empty() || is_item(line) {
            split(&paragraph, &mut found);
            paragraph.clear();
        }
        if !is_fence && !is_code && !line.is_empty() {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line);
        }
        // Nothing goes on behind a heading.
        if line.starts_with('#') {
            split(&paragraph, &mut found);
            paragraph.clear();
        }
    }
    split(&paragraph, &mut found);
    found
}

/// True for a line that begins an item of a list, a heading, or a row of a table.
fn is_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    line.starts_with(['-', '*', '#', '>', '|', '•', '+']) || digits > 0 && line[digits..].starts_with(['.', ')'])
}

fn split(paragraph: &str, found: &mut Vec<String>) {
    let mut start = 0;
    let mut add = |sentence: &str| {
        let sentence = sentence.trim().trim_start_matches(|c: char| !c.is_alphanumeric() && !OPENS.contains(&c)).trim();
        if sentence.contains(char::is_alphabetic) {
            found.push(sentence.to_owned());
        }
    };
    for (at, c) in paragraph.char_indices() {
        let end = at + c.len_utf8();
        let next = paragraph[end..].chars().next();
        let is_full_stop = matches!(c, '。' | '！' | '？');
        let is_end = matches!(c, '.' | '!' | '?')
            && next.is_none_or(|next| next.is_whitespace() || matches!(next, '*' | '_' | ')' | '"'))
            && !ABBREVIATIONS.iter().any(|known| paragraph[..end].to_ascii_lowercase().ends_with(known));
        if is_end || is_full_stop {
            add(&paragraph[start..end]);
            start = end;
        }
    }
    add(&paragraph[start..]);
}

/// Signs that a sentence may begin with.
const OPENS: [char; 7] = ['`', '¿', '/', '~', '$', '@', '.'];
/// Ends of words behind which a sentence goes on.
const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", " vs.", " etc.", " cf.", " no."];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_told_apart() {
        let text = "hi, please look at\nsrc/a.rs, e.g. the head. it breaks\n\n- **Keep** `x.y`!\n2. Why? 何ですか。はい\n```\nlet a. b\n```\n## Head\n./run.sh is mine";
        let expected = [
            "hi, please look at src/a.rs, e.g. the head.",
            "it breaks",
            "Keep** `x.y`!",
            "Why?",
            "何ですか。",
            "はい",
            "Head",
            "./run.sh is mine",
        ];
        assert_eq!(sentences(text), expected);
        assert!(sentences(" \n```\nunclosed. code").is_empty());
    }
}
