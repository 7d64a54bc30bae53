//! Untimed commands: run, and say what went wrong.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result};

/// Runs a command to its end; on failure the error holds the end of what it said.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs a command and returns what it wrote to its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let done = command.stdin(Stdio::null()).output().context(|| format!("start `{line}`"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(Error::new(format!("`{line}` failed ({}): {}", done.status, tail(&said, 1500))))
}

/// The path of a program on `PATH`, if there is one.
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Fails with one message that names every program that is missing.
pub fn need(programs: &[&str]) -> Result<()> {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| find_program(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!("not found on PATH: {}; install and try again", missing.join(", "))))
}

/// Removes a file or a whole folder; nothing there is fine.
pub fn remove(path: &Path) -> Result<()> {
    let gone = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    gone.context(|| format!("remove {}", path.display()))
}

/// Makes a folder and those above it.
pub fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).context(|| format!("make folder {}", path.display()))
}

/// The last `bytes_max` bytes of a text, cut at a line if possible.
pub fn tail(text: &str, bytes_max: usize) -> &str {
    let text = text.trim();
    if text.len() <= bytes_max {
        return text;
    }
    let mut start = text.len() - bytes_max;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let cut = &text[start..];
    cut.find('\n').map_or(cut, |at| &cut[at + 1..])
}

fn describe(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args().take(6) {
        line.push(' ');
        line.push_str(&OsStr::to_string_lossy(arg));
    }
    if command.get_args().len() > 6 {
        line.push_str(" …");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_command_said() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.chain().contains("broken"), "{}", error.chain());
    }

    #[test]
    fn missing_programs_are_all_named() {
        let error = need(&["sh", "no-such-a", "no-such-b"]).unwrap_err();
        assert!(error.chain().contains("no-such-a, no-such-b"));
    }

    #[test]
    fn the_tail_starts_at_a_line() {
        assert_eq!(tail("aaaa\nbbbb\ncccc", 7), "cccc");
        assert_eq!(tail("short", 100), "short");
    }
}
