//! Outputs of commands: whether the command failed, and the line that says why.

use super::super::json::{clipped, end_of};

/// The most bytes of an output's beginning and of its end that are looked at.
const LOOKED_BYTES_MAX: usize = 64 << 10;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// It succeeded.
    Passed,
    Failed,
    /// Nothing says, as of one that goes on in the background.
    Unknown,
}

/// Texts that only programs that failed print.
const FAULTS: [&str; 14] = [
    "test result: FAILED",
    "error: could not compile",
    "error[E0",
    "npm ERR!",
    "npm error code",
    "Traceback (most recent call last):",
    "= FAILURES =",
    "= ERRORS =",
    "FAILED (failures=",
    "FAILED (errors=",
    "BUILD FAILED",
    "make: *** ",
    "FAIL\t",
    "command not found",
];
/// Texts, in lower case, in the lines that say why something failed.
const SIGNS: [&str; 20] = [
    "error",
    "fail",
    "panicked",
    "exception",
    "not found",
    "no such",
    "cannot",
    "can't",
    "denied",
    "undefined",
    "unresolved",
    "fatal",
    "assert",
    "refused",
    "invalid",
    "unknown",
    "missing",
    "incompatible",
    "unsupported",
    "timed out",
];
/// Texts, in lower case, that have a sign in them and are none.
const NO_SIGNS: [&str; 6] = ["0 failed", "0 errors", "0 failures", "error: (none)", "errors: 0", "test session starts"];
/// Beginnings of lines that agents put around an output.
const LABELS: [&str; 12] = [
    "Exit code",
    "Exit Code",
    "Command:",
    "Directory:",
    "Signal:",
    "Wall time:",
    "Chunk ID:",
    "Process exited",
    "Background PIDs:",
    "Process Group PGID:",
    "Original token count:",
    "Total output lines:",
];
/// Labels that a line of the output itself may follow.
const BEFORE_TEXT: [&str; 3] = ["Output:", "Error:", "Stderr:"];

/// True if an output tells of a failure that the exit code of its line hides.
pub(super) fn is_fault(output: &str) -> bool {
    let has = |text: &str| FAULTS.iter().any(|fault| text.contains(fault));
    has(clipped(output, LOOKED_BYTES_MAX)) || has(end_of(output, LOOKED_BYTES_MAX))
}

/// The line of an output that says why a command failed, or its first one.
pub(super) fn error(output: &str) -> String {
    let lines: Vec<String> = clipped(output, LOOKED_BYTES_MAX).lines().map(plain).filter(|line| !line.is_empty()).collect();
    let is_label = |line: &&String| LABELS.iter().any(|label| line.starts_with(label));
    let is_sign = |line: &&String| {
        let lower = line.to_lowercase();
        SIGNS.iter().any(|sign| lower.contains(sign)) && !NO_SIGNS.iter().any(|other| lower.contains(other))
    };
    let own = || lines.iter().filter(|line| !is_label(line));
    if let Some(line) = own().find(is_sign).or_else(|| own().next()) {
        return line.clone();
    }
    let code = lines.iter().find(|line| line.to_lowercase().starts_with("exit code"));
    code.map_or_else(|| "it printed nothing".to_owned(), |line| line.to_lowercase().replace(':', ""))
}

/// A line without escape sequences, control characters, and the words that an agent puts before it.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.next_if_eq(&'[').is_some() {
            while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            rest.next_if(|c| matches!(c, '@'..='~'));
        } else {
            out.push(if c.is_control() { ' ' } else { c });
        }
    }
    let text = out.trim();
    let text = BEFORE_TEXT.iter().find_map(|label| text.strip_prefix(label)).map_or(text, str::trim);
    if matches!(text, "(none)" | "(empty)") { String::new() } else { text.to_owned() }
}

/// The exit code in the lines that an agent puts around an output, behind one of these labels.
pub(crate) fn exit_code(output: &str, labels: &[&str]) -> Option<i64> {
    let looked = [clipped(output, 2048), end_of(output, 2048)];
    let of = |line: &str| labels.iter().find_map(|label| line.trim().strip_prefix(label)?.trim().parse().ok());
    looked.into_iter().find_map(|text| text.lines().find_map(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_says_why() {
        let rust =
            "Exit code 101\n   Compiling a v0.1.0\n\u{1b}[1m\u{1b}[31merror[E0308]\u{1b}[0m: mismatched types\n --> src/a.rs:3";
        assert_eq!(error(rust), "error[E0308]: mismatched types");
        let python =
            "Exit code 1\nTraceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'x'";
        assert_eq!(error(python), "ModuleNotFoundError: No module named 'x'");
        assert_eq!(error("test result: ok. 5 passed; 0 failed\nline\nE  assert 1 == 2"), "E  assert 1 == 2");
        assert_eq!(error("Command: x\nDirectory: (root)\nOutput: (empty)\nError: bad thing\nExit Code: 2"), "bad thing");
        assert_eq!(
            (error("Exit code 3"), error("Exit Code: 3"), error("")),
            ("exit code 3".into(), "exit code 3".into(), "it printed nothing".into())
        );
        assert_eq!(error("only this"), "only this");
    }

    #[test]
    fn codes_stand_behind_labels() {
        assert_eq!(exit_code("Wall time: 1\nProcess exited with code 7\nOutput:\n", &["Process exited with code "]), Some(7));
        assert_eq!(exit_code("Output: x\nExit Code: (none)\n", &["Exit Code:"]), None);
        assert!(is_fault("a\nmake: *** [all] Error 2") && !is_fault("all is well"));
    }
}
