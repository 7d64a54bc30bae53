//! The help of the whole program: its verbs in groups.

use std::fmt::Write;

use clap::{Command, builder::StyledStr};

/// Headings, and the verbs below each; below the first one also those of `checkpoint`.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Checkpoints", &["checkpoint", "export", "import", "mount", "umount", "mounts"]),
    (
        "Sessions of agents",
        &[
            "status",
            "session",
            "log",
            "audit",
            "serve",
            "heartbeat",
            "outbox",
            "notify",
            "phase",
            "memory",
            "env",
            "hooks",
            "hook",
            "mcp",
            "mcp-proxy",
        ],
    ),
    ("The store", &["init", "remote", "copy-store", "check", "gc", "stats"]),
    ("The program", &["config", "completions", "man", "version", "help"]),
];

/// The command with help that lists its verbs in groups; `promoted` are verbs of `checkpoint`, which work without that word.
pub fn grouped(command: Command, promoted: &[String]) -> Command {
    let styles = command.get_styles().clone();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let verbs: Vec<(&str, String)> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(described).collect();
    let help = ("help", "Print this, or the help of a verb".to_owned());
    let find = |name: &str| verbs.iter().chain([&help]).find(|(verb, _)| *verb == name);
    let width = verbs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let is_grouped =
        |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name)) || promoted.iter().any(|verb| verb == name);
    let others = verbs.iter().map(|(name, _)| *name).filter(|name| !is_grouped(name));
    let mut text = String::new();
    for (i, (heading, names)) in GROUPS.iter().enumerate() {
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        let promoted = promoted.iter().map(String::as_str).filter(|_| i == 0);
        let others = others.clone().filter(|_| i + 1 == GROUPS.len());
        for (name, about) in promoted.chain(names.iter().copied()).chain(others).filter_map(find) {
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
        text.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}{header}Global options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(StyledStr::from(template))
}

fn described(verb: &Command) -> (&str, String) {
    (verb.get_name(), verb.get_about().map(ToString::to_string).unwrap_or_default())
}
