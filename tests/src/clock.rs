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

impl Scratch {
    /// A command line in a clean environment whose clock is moved.
    pub fn command_at(&self, by: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.envs(variables(by));
        command
    }

    /// Runs a command line that must succeed, with its clock moved; returns what it printed.
    pub fn at(&self, by: &str, arguments: &[&str]) -> String {
        let output: Output = self.command_at(by, arguments).output().unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{by} {arguments:?}: {text}");
        text
    }
}
