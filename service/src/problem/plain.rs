//! Errors without advice for a command line: whoever asks over HTTP has neither its verbs nor its flags.

/// A text without the clauses and lines that name verbs or flags of the command line. Its first clause says what is wrong, and stays.
pub fn plain(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut clauses = first.split("; ");
    let mut kept = vec![without_brackets(clauses.next().unwrap_or_default())];
    kept.extend(clauses.map(without_brackets).filter(|clause| !is_advice(clause)));
    let mut done = vec![kept.join("; ")];
    for line in lines {
        let clauses: Vec<&str> = line.split("; ").filter(|clause| !is_advice(clause)).collect();
        done.extend((!clauses.is_empty()).then(|| clauses.join("; ")));
    }
    done.join("\n")
}

/// A clause without what stands in brackets and names flags.
fn without_brackets(clause: &str) -> String {
    let Some((before, rest)) = clause.split_once(" (") else { return clause.to_owned() };
    match rest.split_once(')') {
        Some((inside, behind)) if is_advice(inside) => format!("{before}{}", without_brackets(behind)),
        Some((inside, behind)) => format!("{before} ({inside}){}", without_brackets(behind)),
        None => clause.to_owned(),
    }
}

/// True if a text names a verb or a flag of the command line.
fn is_advice(text: &str) -> bool {
    let has_flag = text.match_indices("--").any(|(at, _)| {
        let starts = text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "`'(".contains(c));
        starts && text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase())
    });
    has_flag || text.contains("`parhelia ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_for_a_command_line_is_left_out() {
        for (given, kept) in [
            ("no checkpoint matches 'x'; `parhelia checkpoint list` shows what there is", "no checkpoint matches 'x'"),
            ("it is locked by p; waited 7 ms (raise --lock-timeout, or try again)", "it is locked by p; waited 7 ms"),
            ("cannot restore (7 files): full; give --to", "cannot restore (7 files): full"),
            ("it waits (name it with --from) now", "it waits now"),
            ("cannot read /a--b; c -- d", "cannot read /a--b; c -- d"),
            ("nothing is known\n`parhelia memory list --projects` lists those\nthe end", "nothing is known\nthe end"),
        ] {
            assert_eq!(plain(given), kept, "{given}");
        }
    }
}
