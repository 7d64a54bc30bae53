//! The doors of the product, as its sources have them: which functions read the environment of the process, which open files by paths whose links are
//! followed, and which modules write files that are no store's. Each has its reason here; a new one is found by this test, and so is
//! one that is gone. Whatever is below a store's folder goes by `parhelia_store::files`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The crates of the product.
const CRATES: [&str; 14] = [
    "name",
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

/// Ways to read or change the environment.
const ENVIRONMENT: [&str; 7] =
    ["env::var(", "env::var_os", "env::vars", "env::set_var", "env::remove_var", "env = \"", "env::home_dir"];
/// Ways to open what a path leads to, over links. What the kernel has in `/proc` and `/sys` is no matter.
const OPENING: [&str; 6] =
    ["fs::read(", "fs::read_to_string(", "fs::copy(", "File::open(", "File::options()", "OpenOptions::new()"];

/// Functions that read the environment, by file.
const READERS: &[(&str, &str, &str)] = &[
    ("agent/src/tmux/server.rs", "outside", "finds tmux"),
    ("cli/src/args.rs", "command", "an empty variable counts as none"),
    ("cli/src/authority.rs", "original with_original_places take", "judges which variables of a call count"),
    ("cli/src/caller.rs", "environment", "the places of the user's stores; options' variables"),
    ("cli/src/complete.rs", "open", "completions are asked for without arguments"),
    ("cli/src/global.rs", "-", "options of every verb"),
    ("cli/src/hook_log.rs", "path", "the user's state folder"),
    ("cli/src/hooks.rs", "release status", "where the agent finds programs"),
    ("cli/src/host.rs", "variable variables", "the host: what workflows ask for"),
    ("cli/src/mcp_proxy.rs", "run", "the run that the proxy belongs to"),
    ("cli/src/output.rs", "colours_wanted", "NO_COLOR and TERM"),
    ("cli/src/pager.rs", "start", "the pager"),
    ("cli/src/progress.rs", "new", "TERM"),
    ("cli/src/session/review/mod.rs", "of", "TERM"),
    ("cli/src/unit.rs", "of folder", "what a unit of systemd is to have"),
    ("service/src/activation.rs", "take", "sockets of systemd"),
];

/// Functions that open files by a path, by file.
const OPENERS: &[(&str, &str, &str)] = &[
    ("agent/src/durable.rs", "sync copy_by", "files of the agent's"),
    ("agent/src/edited.rs", "replace write_over", "files of the user's, which may be links"),
    ("agent/src/environment/cache.rs", "write", "the user's cache folder"),
    ("agent/src/kinds/claude/mod.rs", "merged", "settings that the user names"),
    ("agent/src/process/identity.rs", "boot_id machine", "the machine's names"),
    ("agent/src/regular.rs", "open_any", "the door for files that others put there"),
    ("agent/src/transcript/repair.rs", "repair keep_aside", "conversations of the agent's"),
    ("cli/src/audit/export.rs", "run", "a file that the user names"),
    ("cli/src/changed/files.rs", "read_live", "a file of the workspace, looked at by its owner"),
    ("cli/src/checkpoint/create.rs", "rules listed", "files that the user names"),
    ("cli/src/export.rs", "to_file", "a file that the user names"),
    ("cli/src/hook_log.rs", "open", "the user's state folder"),
    ("cli/src/import.rs", "of_archive", "a file that the user names"),
    ("cli/src/input.rs", "text_of", "a file that the user names"),
    ("cli/src/remote/secret.rs", "configured", "a file that the user names"),
    ("cli/src/told_settings.rs", "read note", "the user's state folder"),
    ("fuse/src/mount/attach.rs", "attach check_device", "the kernel's device"),
    ("fuse/src/mount/mountinfo.rs", "holders", "processes"),
    ("service/src/browsers/table.rs", "change", "beside the token's file, which the user names"),
    ("service/src/caller/tcp.rs", "socket_between", "the kernel's tables"),
    ("service/src/own.rs", "open_regular", "the user's runtime folder"),
    ("service/src/token.rs", "draft", "a file that the user names"),
    ("session/host/src/config/channels.rs", "secret", "a file that the user names"),
    ("session/host/src/config/file.rs", "read", "a file that the user names"),
    ("session/host/src/conversation/files.rs", "write_with", "conversations of the agent's"),
    ("session/knowledge/src/phase/folder.rs", "turn write", "a folder of other programs"),
    ("session/knowledge/src/phase/log.rs", "append", "a folder of other programs"),
    ("session/life/src/hook/answer.rs", "mark", "the agent's own file of variables"),
    ("session/life/src/restore/ahead.rs", "readable", "what is in the place of a restore"),
    ("session/life/src/rollback/stash.rs", "on_paths", "git's temporary folder"),
    ("session/life/src/template.rs", "copy_file", "an agent's folder that the user names"),
    ("session/life/src/tmux/handover.rs", "private take", "a temporary folder of its own"),
    ("session/life/src/tmux/saved.rs", "write_texts", "a temporary folder of its own"),
    ("session/life/src/workspace/place.rs", "is_gone", "the workspace itself"),
    ("session/oversight/src/review/audit.rs", "verify", "a file that the user names"),
    ("store/src/check/repair/sources.rs", "any read_range", "folders that the user names as sources"),
    ("store/src/check/salvage/staging.rs", "make remove_leftovers", "whole stores of its own"),
    ("store/src/create/exclude.rs", "read_index", "the `.git` file of a workspace, bounded"),
    ("store/src/create/state/content.rs", "open", "what a checkpoint is made of"),
    ("store/src/disk.rs", "sync_folder", "folders, to sync them"),
    ("store/src/mounts.rs", "all", "the kernel's tables"),
    ("store/src/place.rs", "of known_by", "the workspace itself"),
    ("store/src/restore/medium.rs", "sync_above sync_name", "folders, to sync them"),
    ("store/src/seen.rs", "write read", "the user's state folder"),
    ("store/src/writers.rs", "now", "processes"),
];

/// Modules that write, move or remove files that are no store's: each says in its source whose they are.
const WRITERS: &[&str] = &[
    "agent/src/durable.rs",
    "agent/src/edited.rs",
    "agent/src/environment/cache.rs",
    "agent/src/git/shadow.rs",
    "agent/src/regular.rs",
    "agent/src/transcript/gather.rs",
    "agent/src/transcript/repair.rs",
    "cli/src/audit/export.rs",
    "cli/src/changed/files.rs",
    "cli/src/export.rs",
    "cli/src/hook_log.rs",
    "cli/src/man.rs",
    "cli/src/session/prompt_file.rs",
    "cli/src/told_settings.rs",
    "cli/src/unit.rs",
    "fuse/src/mount/attach.rs",
    "fuse/src/mount/mod.rs",
    "screen/src/shell.rs",
    "service/src/browsers/table.rs",
    "service/src/listen.rs",
    "service/src/own.rs",
    "service/src/token.rs",
    "session/host/src/conversation.rs",
    "session/host/src/conversation/files.rs",
    "session/knowledge/src/phase/folder.rs",
    "session/knowledge/src/phase/log.rs",
    "session/life/src/hook/answer.rs",
    "session/life/src/restore/ahead.rs",
    "session/life/src/resume/workspace.rs",
    "session/life/src/rollback/stash.rs",
    "session/life/src/template.rs",
    "session/life/src/tmux/handover.rs",
    "session/life/src/tmux/saved.rs",
    "session/oversight/src/search/place.rs",
    "store/src/check/salvage/staging.rs",
    "store/src/clock.rs",
    "store/src/create/state/content.rs",
    "store/src/disk.rs",
    "store/src/restore/run/staging.rs",
    "store/src/seen.rs",
];

/// The source files of the product, by their paths from the project's folder.
fn sources() -> Vec<(String, String)> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = CRATES.iter().map(|name| project.join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_of_tests =
                matches!(name.as_str(), "tests" | "tests.rs" | "testing" | "testing.rs") || name.ends_with("_tests.rs");
            if is_of_tests {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let shown = path.strip_prefix(project).unwrap().to_string_lossy().into_owned();
                found.push((shown, without_tests(&fs::read_to_string(&path).unwrap())));
            }
        }
    }
    let of_tests: Vec<String> = found.iter().flat_map(|(path, text)| modules_of_tests(path, text)).collect();
    found.retain(|(path, _)| !of_tests.contains(path));
    found.sort();
    assert!(found.len() > 300, "the sources are not where they were: {}", found.len());
    found
}

/// A source without its modules of tests, which stand at its end, and without comments.
fn without_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_of_tests = |at: usize| {
        lines[at].trim_start().starts_with("#[cfg(test)]")
            && lines.get(at + 1).is_some_and(|next| next.trim_start().contains("mod tests {"))
    };
    let end = (0..lines.len()).find(|at| is_of_tests(*at)).unwrap_or(lines.len());
    let code = lines[..end].iter().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    code.collect::<Vec<_>>().join("\n")
}

/// The files of modules that a source declares for tests alone.
fn modules_of_tests(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap();
    let folder = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]").filter_map(|pair| pair[1].strip_suffix(';'));
    declared.filter_map(|line| line.rsplit_once("mod ")).map(|(_, name)| format!("{folder}/{name}.rs")).collect()
}

/// The name of the function that a line begins.
fn begun(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_plain = before.chars().all(|letter| letter.is_ascii_lowercase() || matches!(letter, ' ' | '(' | ')' | ':' | '"'));
    let name = after.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()?;
    (is_plain && !name.is_empty()).then_some(name)
}

/// The functions with one of some words, by file.
fn with(words: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let mut function = "-";
        for line in text.lines() {
            function = begun(line).unwrap_or(function);
            if line.contains("/proc") || line.contains("/sys/") {
                continue;
            }
            let is_one = words.iter().any(|word| {
                // `PackFile::open(` is no `File::open(`.
                line.match_indices(word)
                    .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_'))
            });
            let functions = if is_one { found.entry(path.clone()).or_default() } else { continue };
            if functions.last().is_none_or(|last| last != function) && !functions.iter().any(|known| known == function) {
                functions.push(function.to_owned());
            }
        }
    }
    found
}

/// Compares what was found with what is known, file by file.
fn compare(found: &BTreeMap<String, Vec<String>>, known: &[(&str, &str, &str)]) {
    let known: BTreeMap<&str, &str> = known.iter().map(|(path, functions, _)| (*path, *functions)).collect();
    let mut wrong = Vec::new();
    for (path, functions) in found {
        let functions = functions.join(" ");
        match known.get(path.as_str()) {
            Some(same) if *same == functions => {}
            Some(other) => wrong.push(format!("{path}: {functions:?} in place of {other:?}")),
            None => wrong.push(format!("new: (\"{path}\", \"{functions}\", \"\"),")),
        }
    }
    wrong.extend(known.keys().filter(|path| !found.contains_key(**path)).map(|path| format!("gone: {path}")));
    assert!(wrong.is_empty(), "think about each, and write it down in tests/sources.rs:\n{}", wrong.join("\n"));
}

#[test]
fn the_environment_is_read_in_few_places() {
    compare(&with(&ENVIRONMENT), READERS);
}

#[test]
fn links_are_followed_in_few_places() {
    compare(&with(&OPENING), OPENERS);
}

#[test]
fn files_that_are_no_stores_are_written_by_few_modules() {
    let says = |text: &str| {
        text.contains("(clippy::disallowed_methods") && !text.contains("cfg_attr(test, allow(clippy::disallowed_methods))")
    };
    let found: Vec<String> = sources().into_iter().filter(|(_, text)| says(text)).map(|(path, _)| path).collect();
    assert_eq!(found, WRITERS, "think about each, and write it down in tests/sources.rs");
}

/// Sources of libraries that name our commands or flags.
const NAMES_COMMANDS: &[(&str, &str)] = &[
    ("fuse/src/error.rs", "a flag of umount"),
    ("fuse/src/mount/attach.rs", "a flag of programs that run containers"),
    ("mcp/src/proxy/mod.rs", "its own name, before what it logs"),
    ("mcp/src/server/mod.rs", "instructions for an agent, whose user has a command line"),
    ("service/src/problem/plain.rs", "leaves out what is for a command line"),
    ("session/host/src/config/options.rs", "comments of the example of a configuration"),
    ("session/knowledge/src/briefing/render.rs", "the page for an agent says how it reads the rest"),
    ("session/knowledge/src/memory/mod.rs", "an act by its name, as events record it"),
    ("session/knowledge/src/memory/suggest.rs", "acts by their names, as events record them"),
    ("session/life/src/ending/end.rs", "an act by its name, as events record it"),
    ("session/life/src/workspace/moved.rs", "an act by its name, as events record it"),
    ("store/src/archive/member.rs", "a flag of tar"),
    ("wire/src/lib.rs", "the objects of the command line are its subject"),
    ("wire/src/reference.rs", "the objects of the command line are its subject"),
    ("wire/src/summary/mod.rs", "a summary has the name of its command"),
];

/// First words of commands that are no words of a sentence behind the program's name.
const VERBS: &str = "audit check checkpoint config copy-store env export gc hooks import init log mcp mcp-proxy memory notify outbox phase \
                     serve session stats umount";

/// True if a line of code has a text that names a command of ours, or a flag. Agents, and other programs that are started, have flags of their own,
/// each a text by itself; those of ours stand in sentences.
fn names_command(line: &str, path: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_ascii_lowercase() || letter == '-');
    let is_verb = |rest: &str| VERBS.split(' ').any(|verb| rest.strip_prefix(verb).is_some_and(ends));
    let is_command = |(at, name): (usize, &str)| line[..at].ends_with('`') || is_verb(&line[at + name.len()..]);
    let has_flags = !path.starts_with("agent/") && line.contains('"');
    let is_flag = |(at, begin): (usize, &str)| !ends(&line[at + begin.len()..]);
    let flags = [" --", "(--", "`--"];
    line.match_indices("parhelia ").any(is_command)
        || has_flags && flags.iter().any(|begin| line.match_indices(begin).any(is_flag))
}

#[test]
fn libraries_name_no_command() {
    let mut found = BTreeMap::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !path.starts_with("cli/")) {
        let lines: Vec<String> = text.lines().filter(|line| names_command(line, &path)).map(str::to_owned).collect();
        if !lines.is_empty() {
            found.insert(path, lines);
        }
    }
    let known: Vec<&str> = NAMES_COMMANDS.iter().map(|(path, _)| *path).collect();
    let new: Vec<String> = found
        .iter()
        .filter(|(path, _)| !known.contains(&path.as_str()))
        .map(|(path, lines)| format!("{path}: {}", lines.join("\n  ")))
        .collect();
    assert!(new.is_empty(), "a face says how a step is taken (`parhelia_name::step`):\n{}", new.join("\n"));
    let gone: Vec<&str> = known.into_iter().filter(|path| !found.contains_key(*path)).collect();
    assert!(gone.is_empty(), "gone: {gone:?}");
}

/// Without this the lists prove nothing.
#[test]
fn clippy_knows_the_doors() {
    let settings = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../clippy.toml")).unwrap();
    for door in
        ["fs::write", "fs::rename", "fs::remove_file", "fs::create_dir_all", "fs::OpenOptions::open", "fs::DirBuilder::create"]
    {
        assert!(settings.contains(&format!("std::{door}\"")), "{door}");
    }
}
