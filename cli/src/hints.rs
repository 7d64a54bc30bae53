//! Tests of all hints: commands that texts name exist, and none leads to a destructive step before a safe one. Agents do what they read.

use std::{fs, path::Path};

use clap::Command;

/// The folders of all crates whose texts reach somebody.
const CRATES: [&str; 13] = [
    "store",
    "ledger",
    "fuse",
    "agent",
    "session/host",
    "session/oversight",
    "session/knowledge",
    "session/life",
    "wire",
    "screen",
    "mcp",
    "service",
    "cli",
];

/// Verbs and flags that remove, overwrite or switch off what protects.
const DESTRUCTIVE: [&str; 16] = [
    "delete",
    "forget",
    "prune",
    "reject",
    "--delete",
    "--discard",
    "--force",
    "--new",
    "--no-safety",
    "--protected",
    "--other-folder",
    "--any-git-state",
    "--take-over",
    "--from-rejected",
    "--leave-unwritable",
    "--stop",
];

/// Words that say what a step would do, or keep what is there: one of them stands before anything destructive.
const SAFE: [&str; 25] = [
    "--dry-run",
    "--exclude",
    "--files-only",
    "--from",
    "--leave",
    "--leave-agent",
    "--store",
    "--to",
    "--workspace",
    "another",
    "audit",
    "check",
    "create",
    "diff",
    "list",
    "log",
    "mount it",
    "pause",
    "review",
    "show",
    "shows",
    "stats",
    "status",
    "verify",
    "wait",
];

/// The string literals of a source, without what is behind `#[cfg(test)]`. Comments are left out.
fn literals(source: &str) -> Vec<(usize, String)> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = source.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line }).collect();
    let (mut found, mut line, mut chars) = (Vec::new(), 1, code.join("\n").chars().collect::<Vec<_>>().into_iter().peekable());
    let (mut literal, mut begins): (Option<String>, usize) = (None, 0);
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match (&mut literal, c) {
            (None, '\'') => {
                // A character, such as a quotation mark.
                let rest: String = chars.clone().take(3).collect();
                if rest.starts_with("\"'") || rest.starts_with("\\\"'") {
                    chars.by_ref().take_while(|c| *c != '\'').for_each(drop);
                }
            }
            (None, '"') => (literal, begins) = (Some(String::new()), line),
            (Some(_), '"') => found.push((begins, literal.take().unwrap_or_default())),
            (Some(text), '\\') => match chars.next() {
                Some('\n') => {
                    line += 1;
                    while chars.peek().is_some_and(|c| c.is_whitespace()) {
                        line += usize::from(chars.next() == Some('\n'));
                    }
                }
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            (Some(text), c) => text.push(c),
            (None, _) => {}
        }
    }
    found
}

/// Spans between backticks that begin with the name of this program.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|span| span.split(' ').next() == Some("parhelia"))
}

/// The reason for which no such command exists.
pub fn fault(root: &Command, span: &str) -> Option<String> {
    let mut command = root;
    let mut is_verb = true;
    let mut words = span.split_whitespace().skip(1).peekable();
    while let Some(word) = words.next() {
        if word.starts_with('{') {
            // Filled in where the text is made.
            is_verb = false;
            continue;
        }
        let word = word.trim_matches(|c: char| "[](){}…,;:'".contains(c));
        if word == "--" {
            return None;
        }
        if let Some(flag) = word.strip_prefix("--") {
            let flag = flag.split('=').next().unwrap_or(flag);
            let knows = |command: &Command| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(flag) || arg.get_all_aliases().is_some_and(|all| all.contains(&flag)))
            };
            if flag != "help" && flag != "version" && !knows(command) && !knows(root) {
                return Some(format!("`{}` has no flag --{flag}", command.get_name()));
            }
            if word == "--store" || word == "--config" {
                words.next();
            }
            continue;
        }
        let is_name = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        match command.find_subcommand(word) {
            Some(found) if is_verb => command = found,
            _ if is_verb && is_name && command.has_subcommands() => {
                return Some(format!("`{}` has no verb {word}", command.get_name()));
            }
            _ => is_verb = false,
        }
    }
    None
}

fn each_text(look: &mut dyn FnMut(&Path, usize, &str)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<_> = CRATES.iter().map(|name| root.join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "tests" && name != "testing" {
                folders.push(path);
            } else if name.ends_with(".rs") && !["tests.rs", "testing.rs", "hints.rs"].contains(&name) {
                let source = fs::read_to_string(&path).unwrap();
                literals(&source).iter().for_each(|(line, text)| look(path.strip_prefix(root).unwrap(), *line, text));
            }
        }
    }
}

#[test]
fn every_command_that_a_text_names_exists() {
    let (root, mut faults, mut seen) = (crate::args::command(), Vec::new(), 0);
    each_text(&mut |path, line, text| {
        for span in commands(text) {
            seen += 1;
            faults.extend(fault(&root, span).map(|why| format!("{}:{line}: `{span}`: {why}", path.display())));
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 100, "{seen}");
    assert!(
        fault(&root, "parhelia checkpoint secrets ID").is_some() && fault(&root, "parhelia checkpoint show ID --leve").is_some()
    );
}

#[test]
fn no_hint_names_a_destructive_step_before_a_safe_one() {
    let mut faults = Vec::new();
    each_text(&mut |path, line, text| {
        // Clap's own texts about a flag describe that flag.
        let is_hint = commands(text).next().is_some()
            || text.contains("; give --")
            || text.contains(", or give --")
            || text.contains("; --");
        if !is_hint {
            return;
        }
        // Looking at what a step would do is no step.
        let tried = text.split('`').map(|span| if span.contains("--dry-run") { "--dry-run" } else { span });
        let text = &tried.collect::<Vec<_>>().join("`");
        let words: Vec<&str> =
            text.split(|c: char| c.is_whitespace() || "`,;:.()".contains(c)).filter(|word| !word.is_empty()).collect();
        let destructive = words.iter().position(|word| DESTRUCTIVE.contains(word));
        let safe = SAFE.iter().filter_map(|safe| text.find(safe)).min();
        if let Some(place) = destructive
            && let Some(at) = text.find(words[place])
            && safe.is_none_or(|safe| safe > at)
        {
            faults.push(format!("{}:{line}: {text}", path.display()));
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
