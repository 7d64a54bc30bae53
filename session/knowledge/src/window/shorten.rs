//! A tool's output made shorter: its beginning, its end, and lines that tell of errors. Shortening again changes nothing.

/// The part of an output that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Lines at each end.
    pub ends: usize,
    /// Lines between that tell of an error, or how a program ended.
    pub telling: usize,
    /// Length of the whole shortened text, in characters.
    pub characters_max: usize,
}

/// Of the output of a tool.
pub(super) const OUTPUT: Keep = Keep { ends: 4, telling: 6, characters_max: 1_500 };
/// Of an error, or of what ended one.
pub(super) const ERROR: Keep = Keep { ends: 20, telling: 30, characters_max: 4_000 };

const LINE_CHARACTERS_MAX: usize = 400;
const SIGNS: [&str; 14] = [
    "error",
    "failed",
    "failure",
    "panick",
    "exception",
    "fatal",
    "denied",
    "not found",
    "no such",
    "cannot ",
    "exit code",
    "exited with",
    "test result",
    "passed",
];

/// The part of an output that says most.
pub(super) fn shorten(text: &str, keep: Keep) -> String {
    let lines: Vec<String> =
        text.trim_end().lines().map(|line| beginning(line.trim_end_matches('\r'), LINE_CHARACTERS_MAX)).collect();
    // A shortened text has at most so many lines, and is left as it is.
    let kept_max = 2 * keep.ends + 2 * keep.telling + 1;
    if lines.len() <= kept_max {
        return middle_out(&lines.join("\n"), keep.characters_max);
    }
    let is_telling = |line: &str| {
        let line = line.to_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    let between = keep.ends..lines.len() - keep.ends;
    let telling = between.clone().filter(|at| is_telling(&lines[*at])).take(keep.telling);
    let kept = (0..keep.ends).chain(telling).chain(between.end..lines.len());
    let (mut shown, mut next) = (Vec::new(), 0);
    for at in kept {
        if at > next {
            shown.push(format!("[... {} lines left out ...]", at - next));
        }
        shown.push(lines[at].clone());
        next = at + 1;
    }
    middle_out(&shown.join("\n"), keep.characters_max)
}

/// A text without lines of its middle, where it has more characters.
pub fn middle_out(text: &str, characters_max: usize) -> String {
    const GAP: &str = "[...]";
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let room = characters_max.saturating_sub(GAP.len() + 1);
    let fitting = |lines: &mut dyn Iterator<Item = &&str>, room: usize| {
        let taken = lines.scan(0, |sum, line| {
            *sum += line.chars().count() + 1;
            (*sum <= room).then_some(())
        });
        taken.count()
    };
    let head = fitting(&mut lines.iter(), room - room / 3);
    let tail = fitting(&mut lines.iter().rev(), room / 3);
    if head == 0 {
        return beginning(text, characters_max).trim_end().to_owned();
    }
    let kept = lines[..head].iter().chain([&GAP]).chain(&lines[lines.len() - tail..]);
    kept.copied().collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The beginning of a text, at most so many characters.
pub(super) fn beginning(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(characters_max.saturating_sub(3)).chain("...".chars()).take(characters_max).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ends_and_errors_are_kept() {
        let mut lines: Vec<String> = (0..200).map(|n| format!("   Compiling thing{n}")).collect();
        lines[100] = "error[E0308]: mismatched types".into();
        let short = shorten(&lines.join("\n"), OUTPUT);
        assert!(short.starts_with("   Compiling thing0\n") && short.ends_with("   Compiling thing199"), "{short}");
        assert!(
            short.contains("[... 96 lines left out ...]\nerror[E0308]: mismatched types\n[... 95 lines left out ...]"),
            "{short}"
        );
    }

    proptest! {
        #[test]
        fn shortening_again_changes_nothing(text in "(\\PC{0,30}|error|[\\n\\r\\t ]{0,3}|x{0,600}){0,120}") {
            for keep in [OUTPUT, ERROR, Keep { ends: 0, telling: 0, characters_max: 5 }] {
                let once = shorten(&text, keep);
                prop_assert!(once.chars().count() <= keep.characters_max);
                prop_assert_eq!(shorten(&once, keep), once);
            }
        }
    }
}
