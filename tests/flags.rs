//! The tables of agents' flags and commands, compared with what the CLIs themselves print with `--help`.

use std::{ffi::OsString, path::PathBuf, process::Command};

use parhelia_agent::{command::Agent, kind::Kind, kinds::named, words::Takes};
use parhelia_tests::agent::{codex_program, gemini_program, installed, newer_program};

/// The text that a CLI prints; none where it cannot be had.
fn help(program: Result<PathBuf, String>, arguments: &[&str]) -> Option<String> {
    let program = installed("the agent CLI", program)?;
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    let output = command.args(arguments).arg("--help").env("HOME", home.path()).env("COLUMNS", "200").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The flags of a help text, as clap and commander write it, with the words that each takes.
fn flags(help: &str) -> Vec<(String, Takes)> {
    let mut found = Vec::new();
    for line in help.lines() {
        let text = line.trim_start();
        if !text.starts_with('-') || !(2..=6).contains(&(line.len() - text.len())) {
            continue;
        }
        let head = text.split("  ").next().unwrap_or_default();
        let value = head.find(['<', '[']).map(|at| &head[at..]);
        let takes = match value {
            None => Takes::Nothing,
            Some(value) if value.contains("...") => Takes::Many,
            Some(value) if value.starts_with('[') => Takes::Optional,
            Some(_) => Takes::One,
        };
        let names = head.split([' ', ',', '=']).filter(|word| word.starts_with('-'));
        found.extend(names.map(|name| (name.to_owned(), takes)));
    }
    assert!(found.len() > 10, "{help}");
    found
}

/// The commands of a help text, each with its other names.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let first = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let found: Vec<String> =
        first.flat_map(|line| line.split_whitespace().next().unwrap().split('|')).map(str::to_owned).collect();
    assert!(found.len() > 5, "{help}");
    found
}

fn manages(words: &[&str]) -> bool {
    Agent::managing(&words.iter().map(OsString::from).collect::<Vec<_>>()).is_some()
}

/// Flags that the table has otherwise than the CLI.
fn differing(kind: Kind, help: &str) -> Vec<String> {
    let found = flags(help).into_iter().filter(|(name, takes)| kind.takes(name) != *takes);
    found.map(|(name, takes)| format!("{name}: {takes:?} by its help, {:?} in the table", kind.takes(&name))).collect()
}

#[test]
fn claude_code_has_the_flags_and_commands_of_the_tables() {
    let Some(help) = help(newer_program(), &[]) else { return };
    assert_eq!(differing(named("claude-code").unwrap(), &help), Vec::<String>::new());
    for command in commands(&help) {
        assert!(manages(&["claude", &command]), "{command} is no conversation");
    }
}

#[test]
fn codex_has_the_flags_and_commands_of_the_tables() {
    for arguments in [&[][..], &["exec"], &["resume"]] {
        let Some(help) = help(codex_program(), arguments) else { return };
        assert_eq!(differing(named("codex").unwrap(), &help), Vec::<String>::new(), "{arguments:?}");
        if arguments.is_empty() {
            for command in commands(&help).iter().filter(|name| !["exec", "resume", "fork"].contains(&name.as_str())) {
                assert!(manages(&["codex", command]), "{command} is no conversation");
            }
        }
    }
}

#[test]
fn gemini_cli_has_the_flags_and_commands_of_the_tables() {
    let Some(help) = help(gemini_program(), &[]) else { return };
    let kind = named("gemini").unwrap();
    let mut flags = 0;
    for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
        let takes = ["[string]", "[array]", "[number]"].iter().any(|of| line.contains(of));
        for name in line.split("  ").map(str::trim).find(|part| !part.is_empty()).unwrap_or_default().split(", ") {
            assert_eq!(kind.takes(name) != Takes::Nothing, takes, "{line}");
            flags += 1;
        }
    }
    assert!(flags > 20, "{help}");
    for line in help.lines().filter(|line| line.starts_with("  gemini ")) {
        let command = line.split_whitespace().nth(1).unwrap();
        assert!(command.starts_with('[') || manages(&["gemini", command]), "{line}");
    }
}
