//! Comments in settings: `// …` to the end of a line, and `/* … */`.

/// A text with spaces in place of its comments. What stands in quotes is no comment.
pub(super) fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (part, is_comment) = match first {
            '"' => (quoted(rest), false),
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            '/' if rest.starts_with("/*") => (rest[2..].find("*/").map_or(rest.len(), |end| end + 4), true),
            _ => (first.len_utf8(), false),
        };
        let (part, behind) = rest.split_at(part);
        match is_comment {
            true => out.extend(part.chars().map(|c| if c.is_ascii_whitespace() { c } else { ' ' })),
            false => out.push_str(part),
        }
        rest = behind;
    }
    out
}

/// The length of a string with its quotes, in bytes.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_spaces_and_strings_stay() {
        for (text, plain) in [
            ("{} // a \"b\"\n1", "{}         \n1"),
            ("/* é\n*/[1]", "    \n  [1]"),
            (r#"{"a//":"/*\"//"}//"#, r#"{"a//":"/*\"//"}  "#),
            (r#""\\"// x"#, r#""\\"    "#),
            ("/* never closed", "               "),
            ("/*/ 1 */2", "        2"),
            ("\"open // é", "\"open // é"),
        ] {
            assert_eq!(blanked(text), plain, "{text}");
        }
    }
}
