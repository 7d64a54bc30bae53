//! Hints behind words that the command line does not know.

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// First words of restic, borg and git whose verb here needs other arguments, and what to type.
const WORDS: [(&[&str], &str); 14] = [
    (&["commit", "save", "snapshot", "add"], "`parhelia checkpoint create` captures this folder, with `-m TEXT` for a message"),
    (
        &["checkout", "switch", "extract"],
        "`parhelia restore CHECKPOINT --to DIR` takes a checkpoint out; `parhelia rollback` goes back to one",
    ),
    (
        &["reset", "revert"],
        "`parhelia rollback CHECKPOINT` puts this folder back to a checkpoint; `parhelia undo` takes that back",
    ),
    (
        &["prune"],
        "`parhelia gc` frees what no checkpoint needs; `parhelia session prune` removes the checkpoints that retention does not keep",
    ),
    (&["info"], "`parhelia show CHECKPOINT` is about one checkpoint, `parhelia stats` about the store"),
    (&["repair", "rebuild-index", "recover"], "`parhelia check --repair` repairs a store; `parhelia session recover` a session"),
    (&["unlock", "break-lock"], "locks end with the process that holds them, so that there is nothing to unlock"),
    (&["key", "passwd"], "a store has no password"),
    (&["sessions"], "`parhelia session list` lists sessions"),
    (&["resume"], "`parhelia session resume SESSION` resumes an agent"),
    (&["run"], "`parhelia session run -- COMMAND` starts an agent"),
    (&["unmount"], "`parhelia umount MOUNTPOINT` ends a mount"),
    (&["blame", "history"], "`parhelia checkpoint find PATH` lists the states of a path; `parhelia log` what happened"),
    (
        &["copy", "transfer", "push", "pull", "clone"],
        "`parhelia export` and `parhelia import` take a checkpoint from one store to another",
    ),
];

/// The error with suggestions that lead somewhere: what to type instead of a word of another tool, and no word that is only remotely alike.
pub fn better(mut error: Error) -> Error {
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
    let kept = match error.remove(suggested) {
        Some(ContextValue::String(other)) if is_near(&word, &other) => Some(ContextValue::String(other)),
        // Clap has it in the usage line, as if it had been given.
        Some(ContextValue::String(other)) => {
            if let Some(ContextValue::StyledStr(usage)) = error.remove(ContextKind::Usage) {
                let usage = ContextValue::StyledStr(without_flag(&usage.to_string(), &other).into());
                error.insert(ContextKind::Usage, usage);
            }
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
    error
}

/// A usage line without a flag and its value.
fn without_flag(usage: &str, flag: &str) -> String {
    let Some((before, behind)) = usage.split_once(&format!(" {flag}")) else { return usage.to_owned() };
    let behind = match behind.strip_prefix(" <").and_then(|value| value.split_once('>')) {
        Some((_, rest)) => rest,
        None => behind,
    };
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
    fn a_flag_goes_from_a_usage_line_with_its_value() {
        assert_eq!(without_flag("Usage: p list --store <DIR> [S]", "--store"), "Usage: p list [S]");
        assert_eq!(without_flag("Usage: p list --json [S]", "--json"), "Usage: p list [S]");
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
