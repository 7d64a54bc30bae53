//! Command lines, taken apart as a shell would, as far as quotes and separators tell. Nothing is expanded.

use serde::{Deserialize, Serialize};

use super::super::json::clipped;
use crate::environment::redact;

/// The most bytes of a line that are looked at.
const LINE_BYTES_MAX: usize = 8 << 10;
/// The most commands of a line, and words of a command.
const PARTS_MAX: usize = 32;
const WORDS_MAX: usize = 128;

/// Commands that prepare others, and are never what a line is about.
const PRELUDES: [&str; 24] = [
    "cd", "export", "set", "source", ".", "echo", "printf", "sleep", "mkdir", "pwd", "true", "false", ":", "pushd", "popd",
    "unset", "ulimit", "umask", "rm", "touch", "date", "kill", "wait", "exit",
];
/// Commands whose failure is an answer rather than a fault, such as `grep` that finds nothing.
const QUESTIONS: [&str; 36] = [
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "test", "[", "[[", "diff", "cmp", "which", "type", "command", "whereis", "ls",
    "cat", "head", "tail", "sed", "awk", "find", "fd", "wc", "stat", "file", "pgrep", "pkill", "killall", "ps", "tree", "less",
    "bat", "nl", "readlink", "realpath",
];
/// The same of git.
const GIT_QUESTIONS: [&str; 16] = [
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "ls-files",
    "ls-tree",
    "rev-parse",
    "branch",
    "config",
    "merge-base",
    "check-ignore",
    "grep",
    "remote",
    "describe",
    "cat-file",
];
/// Programs whose operands are targets, so that the program alone does something else.
const BUILDERS: [&str; 3] = ["make", "just", "task"];
/// Programs that run what they are given.
const INTERPRETERS: [&str; 9] = ["python", "python3", "node", "bash", "sh", "ruby", "perl", "deno", "bun"];
/// Words of a command that are kept, and bytes of each.
const WORDS_KEPT: usize = 24;
const WORD_BYTES_KEPT: usize = 160;

/// One command of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// Its program without a path, and its arguments. Programs that run another one are left out.
    pub words: Vec<String>,
    /// True if it reads what another command prints.
    is_fed: bool,
}

impl Part {
    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The arguments that are no flags.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        self.words.iter().skip(1).map(String::as_str).filter(|word| !word.starts_with('-'))
    }

    /// True for these words at the beginning, flags aside.
    pub fn is(&self, words: &[&str]) -> bool {
        let mut own = [self.program()].into_iter().chain(self.operands());
        words.iter().all(|word| own.next() == Some(word))
    }

    fn is_matter(&self) -> bool {
        let program = self.program();
        let is_question = QUESTIONS.contains(&program)
            || program == "git" && self.operands().next().is_some_and(|verb| GIT_QUESTIONS.contains(&verb));
        !program.is_empty() && !self.is_fed && !PRELUDES.contains(&program) && !is_question
    }

    /// True if this one's success tells that the other one would succeed: the same program and verb, on the same things or on all.
    pub fn covers(&self, other: &Part) -> bool {
        let program = self.program();
        program == other.program()
            && match (self.operands().next(), other.operands().next()) {
                // What it runs is not among its words.
                (None, _) if INTERPRETERS.contains(&program) => false,
                (None, Some(_)) => !BUILDERS.contains(&program),
                (own, theirs) => own == theirs && self.operands().all(|word| other.operands().any(|theirs| theirs == word)),
            }
    }

    /// The command with fewer words and without credentials, for keeping.
    pub fn shortened(&self) -> Part {
        let words = self.words.iter().take(WORDS_KEPT).map(|word| redact::word(clipped(word, WORD_BYTES_KEPT)));
        Part { words: words.collect(), is_fed: self.is_fed }
    }
}

/// The command that a line is about: the last one that does something. None where a failure would only be an answer.
pub(super) fn matter(parts: &[Part]) -> Option<&Part> {
    parts.iter().rfind(|part| part.is_matter())
}

/// True if a line's exit code may be that of another command than the one that it is about.
pub(super) fn may_hide_failure(line: &str) -> bool {
    line.contains('|') || line.contains(';') || line.trim().contains('\n')
}

/// The commands of a line.
pub(super) fn parts(line: &str) -> Vec<Part> {
    let mut reader = Reader::default();
    let mut chars = clipped(line, LINE_BYTES_MAX).chars().peekable();
    while let Some(c) = chars.next() {
        match (reader.quote, c) {
            (Some(quote), c) if c == quote => reader.quote = None,
            (Some('"') | None, '\\') => {
                let escaped = chars.next().filter(|c| *c != '\n');
                escaped.into_iter().for_each(|c| reader.push(c));
            }
            (Some(_), c) => reader.push(c),
            (None, '\'' | '"') => {
                reader.quote = Some(c);
                reader.is_word = true;
            }
            (None, '#') if !reader.is_word => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '<') if chars.next_if_eq(&'<').is_some() && chars.peek() != Some(&'<') => {
                // What a here document holds is no command.
                while chars.next_if(|c| *c != '\n').is_some() {}
                break;
            }
            (None, '<' | '>') => {
                reader.redirects();
                while chars.next_if(|c| matches!(c, '>' | '<' | '&' | ' ')).is_some() {}
            }
            (None, '&') if chars.peek() == Some(&'>') => reader.word(),
            (None, '|') => {
                let is_or = chars.next_if_eq(&'|').is_some();
                reader.part(!is_or);
            }
            (None, ';' | '\n' | '&' | '(' | ')') => reader.part(false),
            (None, c) if c.is_whitespace() => reader.word(),
            (None, c) => reader.push(c),
        }
    }
    reader.part(false);
    reader.parts
}

/// Gathers words and commands.
#[derive(Default)]
struct Reader {
    parts: Vec<Part>,
    words: Vec<String>,
    word: String,
    is_word: bool,
    quote: Option<char>,
    /// True if the word that comes is the file of a redirection.
    is_redirected: bool,
    is_fed: bool,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.word.push(c);
        self.is_word = true;
    }

    fn redirects(&mut self) {
        // The number of a stream that stands before the sign is no argument.
        if self.word.bytes().all(|byte| byte.is_ascii_digit()) {
            self.word.clear();
            self.is_word = false;
        }
        self.word();
        self.is_redirected = true;
    }

    fn word(&mut self) {
        if !std::mem::take(&mut self.is_word) {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if !std::mem::take(&mut self.is_redirected) && self.words.len() < WORDS_MAX {
            self.words.push(word);
        }
    }

    fn part(&mut self, feeds: bool) {
        self.word();
        self.is_redirected = false;
        let words = unwrapped(std::mem::take(&mut self.words));
        if !words.is_empty() && self.parts.len() < PARTS_MAX {
            self.parts.push(Part { words, is_fed: self.is_fed });
        }
        self.is_fed = feeds;
    }
}

/// The words of a command without variables before it and without programs that only run another one.
fn unwrapped(mut words: Vec<String>) -> Vec<String> {
    while let Some(first) = words.first() {
        let second = words.get(1).map_or("", String::as_str);
        let surplus = match base(first) {
            _ if is_assignment(first) => 1,
            "sudo" | "time" | "nohup" | "env" | "exec" | "then" | "do" | "else" | "if" | "while" | "!" | "{" => 1,
            "npx" | "bunx" | "pnpx" | "xvfb-run" => 1,
            "timeout" => 2,
            "uv" | "poetry" | "pipenv" | "pdm" | "rye" | "hatch" if second == "run" => 2,
            "bundle" if second == "exec" => 2,
            "python" | "python3" if second == "-m" => 2,
            _ => break,
        };
        words.drain(..surplus.min(words.len()));
        // Flags of the program that was left out.
        let flags = words.iter().take_while(|word| word.starts_with('-')).count();
        words.drain(..flags);
    }
    if let Some(first) = words.first_mut() {
        *first = base(first).to_owned();
    }
    // The toolchain of cargo is no matter.
    words.retain(|word| !word.starts_with('+'));
    words
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(program)
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Vec<String> {
        parts(line).iter().map(|part| part.words.join(" ")).collect()
    }

    #[test]
    fn a_line_is_taken_apart() {
        assert_eq!(
            shown("cd /w && RUST_LOG=1 cargo +nightly test -p a 2>&1 | tail -20"),
            ["cd /w", "cargo test -p a", "tail -20"]
        );
        assert_eq!(shown("echo 'a && b; c' > out.txt; ls # not this; nor this\npwd"), ["echo a && b; c", "ls", "pwd"]);
        assert_eq!(shown("uv run --quiet pytest \"x y\" &> /dev/null"), ["pytest x y"]);
        assert_eq!(shown("python3 -m pytest tests/a.py"), ["pytest tests/a.py"]);
        assert_eq!(shown("cat <<'EOF' > f\nrm -rf /\nEOF"), ["cat"]);
        assert_eq!(shown("timeout 60 .venv/bin/mypy src"), ["mypy src"]);
        assert_eq!(shown("(cd a; make) || make b"), ["cd a", "make", "make b"]);
        for odd in ["", "'", "\\", "|||", "a 'b", "<<", "timeout", "sudo", ">", "&>", "((("] {
            let _ = shown(odd);
        }
    }

    #[test]
    fn what_a_line_is_about() {
        let about = |line: &str| matter(&parts(line)).map(|part| part.words.join(" "));
        assert_eq!(about("cd /w && cargo test 2>&1 | grep FAILED").as_deref(), Some("cargo test"));
        assert_eq!(about("ls; git status"), None);
        assert_eq!(about("rg foo src"), None);
        assert_eq!(about("npm ci && npm test; echo done").as_deref(), Some("npm test"));
    }

    #[test]
    fn a_success_stands_for_what_it_covers() {
        let covers = |passed: &str, failed: &str| parts(passed)[0].covers(&parts(failed)[0]);
        assert!(covers("cargo test", "cargo test -p a --release") && covers("pytest", "pytest tests/a.py"));
        assert!(!covers("cargo test -p a", "cargo test") && !covers("cargo build", "cargo test"));
        assert!(!covers("make", "make test") && !covers("python a.py", "python b.py") && !covers("python", "python b.py"));
        assert!(!covers("python3 - <<E", "python3 - <<E") && covers("make", "make"));
        assert!(!covers("pip install pyjwt", "pip install authlib"));
    }
}
