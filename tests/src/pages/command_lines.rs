//! Command lines of `parhelia` in text that is not run: scripts, crontabs, systemd units, and code in running text.

/// The words behind `parhelia`.
pub type Words = Vec<String>;

/// The command lines of `parhelia` in a script or a file that names such.
pub fn command_lines(text: &str) -> Vec<Words> {
    let joined = text.replace("\\\n", " ");
    joined.lines().flat_map(in_line).collect()
}

/// The command lines of `parhelia` in a page's running text: code that begins with `parhelia` and a verb.
pub fn inline(page: &str) -> Vec<Words> {
    let mut outside = String::new();
    let mut fenced = false;
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        outside.push_str(if fenced || is_fence { "" } else { line });
        outside.push('\n');
    }
    let code = outside.split('`').skip(1).step_by(2);
    // `parhelia VERB` is a form, and `parhelia 2026-11 ...` a constant of the format.
    let is_command = |code: &&str| {
        let verb = code.strip_prefix("parhelia ").and_then(|rest| rest.chars().next());
        verb.is_some_and(|c| c.is_ascii_lowercase() || c == '-') && !code.contains(['…', '|']) && !code.contains("...")
    };
    let commands = code.filter(is_command);
    commands.flat_map(|code| in_line(&code.replace('\n', " "))).collect()
}

/// The command lines of one line: from each word `parhelia` to what ends a command.
fn in_line(line: &str) -> Vec<Words> {
    let mut found: Vec<Words> = Vec::new();
    let mut is_open = false;
    let mut is_value = false;
    for word in words(line.trim_start_matches("$ ")) {
        let Word::Text(text) = word else {
            (is_open, is_value) = (false, false);
            continue;
        };
        let is_ours = !is_value && (text == "parhelia" || text.ends_with("/bin/parhelia") || text.ends_with("=parhelia"));
        is_value = text.starts_with("--") && !text.contains('=');
        match found.last_mut() {
            Some(last) if is_open => last.push(text),
            _ if is_ours => {
                found.push(Vec::new());
                is_open = true;
            }
            _ => {}
        }
    }
    found
}

enum Word {
    Text(String),
    /// Something that ends a command.
    End,
}

/// The words of a line, as a shell parts them, as far as documents need it.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '#') if word.is_none() => break,
            (None, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '{' | '}') => {
                words.extend(word.take().map(Word::Text));
                words.push(Word::End);
            }
            (None, '$') if characters.peek() == Some(&'(') => {}
            (None, c) if c.is_whitespace() => words.extend(word.take().map(Word::Text)),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(Word::Text));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_found_where_they_stand() {
        let of = |text| command_lines(text).into_iter().map(|words| words.join("|")).collect::<Vec<_>>();
        assert_eq!(of("parhelia create -m \"two words\"   # parhelia list"), ["create|-m|two words"]);
        assert_eq!(of("cd x && parhelia -q create; parhelia list | head"), ["-q|create", "list"]);
        assert_eq!(of("ExecStart=/usr/bin/parhelia checkpoint create"), ["checkpoint|create"]);
        assert_eq!(of("30 * * * * parhelia -q create -w /srv/data"), ["-q|create|-w|/srv/data"]);
        assert_eq!(of("id=$(parhelia -q create) \\\n  || exit"), ["-q|create"]);
        assert_eq!(of("side-by-side --tools parhelia --rounds 1"), Vec::<String>::new());
        assert_eq!(of("sudo install -s parhelia/build /usr/local/bin/"), Vec::<String>::new());
        assert_eq!(of("sudo apt-get install ./parhelia_0.1.0_amd64.deb"), Vec::<String>::new());
    }

    #[test]
    fn code_in_running_text_is_found() {
        let page = "See `parhelia session\nlist` and `parhelia.toml`.\n```sh\nparhelia gc\n```\nThen `parhelia VERB --help`.";
        assert_eq!(inline(page), [["session", "list"]]);
    }
}
