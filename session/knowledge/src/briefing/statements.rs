//! Statements of a conversation that the agent does not know, as far as they fit: those of the highest rank, in the order in which they were
//! made.

use parhelia_agent::transcript::statements::{Speaker, Statement};

use crate::budget::Budget;
use crate::summary::quoted;

/// No statement is longer, in characters.
const CHARACTERS_MAX: usize = 420;
/// Stands between sentences of one text.
const BETWEEN: &str = " / ";

/// The statements of a speaker that fit, one line for each turn, and how many did not. What `told` says already is left out; it is in one line.
pub(super) fn lines(statements: &[Statement], by: Speaker, told: &str, share: Budget) -> (Vec<String>, usize) {
    let of_speaker = statements.iter().filter(|statement| statement.by == by);
    let mut open: Vec<(usize, &Statement)> =
        of_speaker.filter(|statement| !told.contains(statement.text.trim_end_matches("..."))).enumerate().collect();
    let count = open.len();
    open.sort_by_key(|(place, statement)| std::cmp::Reverse((statement.rank(), *place)));
    let mut left = share;
    let mut chosen: Vec<(usize, u64, String)> = Vec::new();
    for (place, statement) in open {
        // A long sentence that does not fit leaves room for shorter ones, and need not be looked through.
        if !left.fits(&statement.text) {
            continue;
        }
        let text = quoted(&statement.text, CHARACTERS_MAX);
        let cost = format!("- {text}{BETWEEN}\n");
        if left.fits(&cost) {
            left = left.minus(&cost);
            chosen.push((place, statement.turn, text));
        }
    }
    let left_out = count - chosen.len();
    chosen.sort_by_key(|(place, ..)| *place);
    let mut lines: Vec<(u64, String)> = Vec::new();
    for (_, turn, text) in chosen {
        match lines.last_mut().filter(|(last, _)| *last == turn && by != Speaker::Tool) {
            Some((_, line)) => {
                line.push_str(BETWEEN);
                line.push_str(&text);
            }
            None => lines.push((turn, text)),
        }
    }
    (lines.into_iter().map(|(_, line)| line).collect(), left_out)
}

#[cfg(test)]
mod tests {
    use parhelia_agent::transcript::statements::Cue;

    use super::*;

    fn statement(turn: u64, weight: usize, text: &str) -> Statement {
        Statement { by: Speaker::User, text: text.to_owned(), turn, cues: vec![Cue::Number; weight], at: turn }
    }

    #[test]
    fn the_weightiest_fit_and_stand_in_order() {
        let statements = [
            statement(1, 0, "please look at the parser when you have time"),
            statement(1, 3, "never touch src/ffi"),
            statement(1, 2, "use tabs"),
            statement(2, 0, "thanks a lot for that"),
            statement(3, 4, "the stub listens on port 7313"),
            Statement { by: Speaker::Agent, ..statement(3, 9, "another's") },
        ];
        let all = lines(&statements, Speaker::User, "", Budget::default());
        let expected = [
            "please look at the parser when you have time / never touch src/ffi / use tabs",
            "thanks a lot for that",
            "the stub listens on port 7313",
        ];
        assert_eq!(all, (expected.map(str::to_owned).to_vec(), 0));
        let share = Budget { tokens_max: 1_000, characters_max: 80 };
        let some = lines(&statements, Speaker::User, "it is said: use tabs", share);
        assert_eq!(some, (["never touch src/ffi", "the stub listens on port 7313"].map(str::to_owned).to_vec(), 2));
    }

    #[test]
    fn a_secret_is_not_told() {
        let statements = [statement(1, 1, "log in with ghp_0123456789abcdefghijklmnopqrstuvwxyz12 there")];
        let (told, _) = lines(&statements, Speaker::User, "", Budget::default());
        assert!(!told[0].contains("ghp_0123") && told[0].contains("[redacted]"), "{told:?}");
    }
}
