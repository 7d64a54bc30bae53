//! A machine's clock that is set elsewhere, as the binary sees it by way of the C library; the filesystem's stamps stay.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::Scratch;

fn library() -> String {
    let found = Command::new("find").args(["/usr/lib", "/usr/local/lib", "-name", "libfaketime.so.1"]).output();
    let found = found.unwrap_or_else(|e| panic!("find: {e}"));
    let path = String::from_utf8_lossy(&found.stdout).lines().next().unwrap_or_default().to_owned();
    assert!(Path::new(&path).exists(), "this test needs libfaketime (Debian: faketime)");
    path
}

/// Variables that move a command's clock, such as by `-8d`.
pub fn variables(by: &str) -> [(String, String); 4] {
    let fixed = [("LD_PRELOAD", library()), ("NO_FAKE_STAT", "1".into()), ("DONT_FAKE_MONOTONIC", "1".into())];
    let [a, b, c] = fixed.map(|(name, value)| (name.to_owned(), value));
    [a, b, c, ("FAKETIME".into(), by.into())]
}

/// Days for which the machine has run, for a command whose clock is not moved: no move takes it behind its start.
const DAYS_UP: i64 = 400;

/// The seconds of a move such as `-9d` or `+0`.
fn seconds(by: &str) -> i64 {
    let (number, unit) = by.split_at(by.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(by.len()));
    let number: i64 = number.parse().unwrap_or_else(|e| panic!("{by}: {e}"));
    number
        * match unit {
            "d" => 86_400,
            "h" => 3_600,
            "" => 1,
            other => panic!("no unit of time: {other}"),
        }
}

/// A command at another time: the time of day is moved, and so is the clock that nobody can set, as time went by.
fn elsewhen(command: &Command, by: &str) -> Command {
    let up = DAYS_UP * 86_400 + seconds(by);
    let mut moved = Command::new("unshare");
    moved.args(["--time", "--boottime", &up.to_string()]).arg(command.get_program()).args(command.get_args());
    moved.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(variables(by));
    moved.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).stdin(std::process::Stdio::null());
    moved
}

impl Scratch {
    /// A command line in a clean environment whose clock is moved: no time went by.
    pub fn command_at(&self, by: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.envs(variables(by));
        command
    }

    /// Runs a command line that must succeed, with its clock moved; returns what it printed.
    pub fn at(&self, by: &str, arguments: &[&str]) -> String {
        succeed(self.command_at(by, arguments))
    }

    /// The same, at another time.
    pub fn when(&self, by: &str, arguments: &[&str]) -> String {
        succeed(elsewhen(&self.command(arguments), by))
    }

    /// A command line that runs at another time, where the clock shows a third one.
    pub fn command_with_jump(&self, by: &str, shown: &str, arguments: &[&str]) -> Command {
        let mut command = elsewhen(&self.command(arguments), by);
        command.env("FAKETIME", shown);
        command
    }
}

fn succeed(mut command: Command) -> String {
    let output: Output = command.output().unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {text}");
    text
}
