//! Hints behind words that the command line does not know.

use parhelia_store::name;

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// First words of restic, borg and git whose verb here needs other arguments, and what to type.
const WORDS: [(&[&str], &str); 17] = [
    (&["commit", "save", "snapshot", "add"], "`parhelia checkpoint create` captures this folder, with `-m TEXT` for a message"),
    (
        &["checkout", "switch", "extract"],
        "`parhelia restore CHECKPOINT --to DIR` takes a checkpoint out; `parhelia rollback --dry-run` shows what going back to one changes",
    ),
    (
        &["reset", "revert"],
        "`parhelia rollback CHECKPOINT --dry-run` shows what putting this folder back to a checkpoint changes; without that it does so, and `parhelia undo` takes it back",
    ),
    (
        &["prune"],
        "`parhelia session prune --dry-run` shows which checkpoints retention does not keep, and without that removes them; `parhelia gc` frees what no checkpoint needs",
    ),
    (&["info"], "`parhelia show CHECKPOINT` is about one checkpoint, `parhelia stats` about the store"),
    (
        &["repair", "recover"],
        "`parhelia check` says what is wrong with a store, and `parhelia check --repair` repairs it; `parhelia session recover` a session",
    ),
    (&["rebuild-index", "reindex"], "`parhelia check --rebuild-index` makes the index anew"),
    (&["fsck"], "`parhelia check` checks the store; `--read-data` reads all of it"),
    (&["stop", "attach", "pause", "end"], "these are verbs of `session`, such as `parhelia session stop SESSION`"),
    (&["unlock", "break-lock"], "locks end with the process that holds them, so that there is nothing to unlock"),
    (&["key", "passwd"], "a store has no password"),
    (&["sessions"], "`parhelia session list` lists sessions"),
    (&["resume"], "`parhelia session resume SESSION` resumes an agent"),
    (&["run"], "`parhelia session run -- COMMAND` starts an agent"),
    (&["unmount"], "`parhelia umount MOUNTPOINT` ends a mount"),
    (&["blame", "history"], "`parhelia checkpoint find PATH` lists the states of a path; `parhelia log` what happened"),
    (
        &["copy", "transfer", "push", "pull", "clone"],
        "`parhelia copy-store DEST` copies the whole store; `parhelia export` and `parhelia import` take one checkpoint to another store",
    ),
];

/// The error with suggestions that lead somewhere: what to type instead of a word of another tool, and no word that is only remotely alike.
pub fn better(mut error: Error) -> Error {
    if error.kind() == ErrorKind::MissingSubcommand {
        // A list of all verbs is for a page of help.
        error.remove(ContextKind::ValidSubcommand);
        let hint = StyledStr::from("`--help` behind it lists the verbs");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
        return error;
    }
    let (wrong, suggested) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(wrong).cloned() else { return error };
    if let Some((_, hint)) =
        WORDS.iter().find(|(words, _)| wrong == ContextKind::InvalidSubcommand && words.contains(&word.as_str()))
    {
        error.remove(suggested);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(*hint)]));
        return error;
    }
    if wrong == ContextKind::InvalidArg {
        // That the flag may be a word behind `--` is never what is meant.
        error.remove(ContextKind::Suggested);
        if let Some(hint) = of_argument(&verb_of(&error), &word) {
            if let Some(ContextValue::String(other)) = error.remove(suggested) {
                leave_out(&mut error, &other);
            }
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
            return error;
        }
    }
    let kept = match error.remove(suggested) {
        Some(ContextValue::String(other)) if is_near(&word, &other) => Some(ContextValue::String(other)),
        Some(ContextValue::String(other)) => {
            leave_out(&mut error, &other);
            None
        }
        Some(ContextValue::Strings(mut others)) => {
            others.retain(|other| is_near(&word, other));
            (!others.is_empty()).then_some(ContextValue::Strings(others))
        }
        _ => None,
    };
    if let Some(kept) = kept {
        error.insert(suggested, kept);
    }
    // An empty list would be a blank line.
    if matches!(error.get(ContextKind::Suggested), Some(ContextValue::StyledStrs(tips)) if tips.is_empty()) {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// Takes a flag that clap suggests out of the usage line, where clap has it as if it had been given.
fn leave_out(error: &mut Error, flag: &str) {
    if let Some(ContextValue::StyledStr(usage)) = error.remove(ContextKind::Usage) {
        let usage = ContextValue::StyledStr(without_flag(&usage.to_string(), flag).into());
        error.insert(ContextKind::Usage, usage);
    }
}

/// The verb of an error, by its usage line.
fn verb_of(error: &Error) -> String {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return String::new() };
    let usage = usage.to_string();
    let words = usage.split_whitespace().skip_while(|word| *word != "Usage:").skip(2);
    let verb: Vec<&str> = words.take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    verb.join(" ").trim_start_matches("checkpoint ").to_owned()
}

/// The words to type instead of an argument that a verb does not take, where other tools take it.
fn of_argument(verb: &str, word: &str) -> Option<String> {
    let is_of = |verbs: &[&str]| verbs.contains(&verb);
    let is_folder = word.starts_with(['/', '.']) || word.ends_with('/');
    if word.starts_with('-') {
        return match word {
            "-r" | "--repo" | "--repository" => Some("`--store DIR` names the store".into()),
            "--read-data-subset" if is_of(&["check"]) => Some("`--read-data=PERCENT` reads a part of the data".into()),
            _ if is_of(&["delete"]) && word.starts_with("--keep") => Some(
                "`parhelia session prune --dry-run` shows what rules such as `--keep-last` remove; without that they do".into(),
            ),
            _ => None,
        };
    }
    match verb {
        "restore" if is_folder => Some(format!("`--to {}` names the folder to restore to", name::shell(word.as_bytes()))),
        "restore" | "cat" | "ls" => {
            let place = name::shell(format!("{}:{word}", checkpoint_before(word)).as_bytes());
            Some(format!("a path in a checkpoint stands behind a colon: `{place}`"))
        }
        "init" => Some(format!("`parhelia --store {} init` makes a store there", name::shell(word.as_bytes()))),
        "session run" => Some(format!("the agent's command line stands behind `--`: `parhelia session run -- {word}`")),
        _ => None,
    }
}

/// The argument right before a word of this process's command line.
fn checkpoint_before(word: &str) -> String {
    let words: Vec<_> = std::env::args_os().collect();
    let at = words.iter().position(|other| *other == word);
    let before = at.and_then(|at| words.get(at.checked_sub(1)?)?.to_str());
    before.filter(|before| !before.starts_with('-')).unwrap_or("CHECKPOINT").to_owned()
}

/// A usage line without a flag and its value.
fn without_flag(usage: &str, flag: &str) -> String {
    let Some((before, behind)) = usage.split_once(&format!(" {flag}")) else { return usage.to_owned() };
    let value = [(" <", ">"), ("[=<", ">]"), ("=<", ">")];
    let rest = value.iter().find_map(|(begin, end)| Some(behind.strip_prefix(begin)?.split_once(end)?.1));
    let behind = rest.unwrap_or(behind);
    format!("{before}{behind}")
}

/// True of a word that may be the other one mistyped.
fn is_near(word: &str, other: &str) -> bool {
    let (word, other) = (word.trim_start_matches('-'), other.trim_start_matches('-'));
    strsim::damerau_levenshtein(word, other) <= (word.chars().count() / 3).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_have_an_answer() {
        let answer = |verb: &str, word: &str| of_argument(verb, word).unwrap_or_default();
        assert!(answer("ls", "docs").contains("`CHECKPOINT:docs`"));
        assert!(answer("init", "../my store").contains("`parhelia --store '../my store' init`"));
        assert!(answer("check", "--read-data-subset").contains("`--read-data=PERCENT`"));
        assert!(answer("restore", "../o2").starts_with("`--to ../o2`"));
        assert!(answer("delete", "--keep-last").contains("session prune"));
        assert_eq!(of_argument("list", "--keep-last"), None);
    }

    #[test]
    fn a_flag_goes_from_a_usage_line_with_its_value() {
        assert_eq!(without_flag("Usage: p list --store <DIR> [S]", "--store"), "Usage: p list [S]");
        assert_eq!(without_flag("Usage: p list --json [S]", "--json"), "Usage: p list [S]");
        assert_eq!(without_flag("Usage: p check --read-data[=<PERCENT>]", "--read-data"), "Usage: p check");
    }

    #[test]
    fn what_is_mistyped_is_near_and_what_is_only_alike_is_not() {
        for (word, other) in [("lst", "list"), ("snapshot", "snapshots"), ("--excldue", "--exclude"), ("statsu", "status")] {
            assert!(is_near(word, other), "{word} {other}");
        }
        for (word, other) in [("remove", "restore"), ("--target", "--store"), ("delta", "delete"), ("x", "ls")] {
            assert!(!is_near(word, other), "{word} {other}");
        }
    }
}
