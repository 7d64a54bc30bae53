//! Sessions: what is demanded.

use super::row::{Row, millis, row, times};
use crate::side::figures::Figures;
use crate::side::tables::{Unit, thousands};

const SELF: &str = "parhelia";
const WALK: &str = "bare walk";

/// The demands on sessions.
pub fn rows(figures: &Figures) -> Vec<Row> {
    let mut rows = beside_the_walk(figures);
    rows.extend(waited_for(figures));
    rows.extend(read(figures));
    rows.extend(told(figures));
    rows
}

/// The length of a conversation, in words.
fn conversation(figures: &Figures, name: &str) -> String {
    let bytes = figures.value(&format!("session{name}/transcript_bytes")).unwrap_or_default();
    format!("{:.0} MB of conversation", bytes / 1e6)
}

/// The demands on verbs that walk the whole workspace.
fn beside_the_walk(figures: &Figures) -> Vec<Row> {
    let walk = |case: &str, factor: f64, more: f64| times(factor, figures.wall_s(case, WALK)).map(|limit| limit + more);
    let seconds = |what: String, case: &str, bar: &str, limit| row(what, Unit::Seconds, figures.wall_s(case, SELF), bar, limit);
    let checkpoint = |name: &str| {
        let what = format!("checkpoint of a session, {}", conversation(figures, name));
        let limit = walk("session-checkpoint", 1.0, 0.15);
        seconds(what, &format!("session-checkpoint{name}"), "1 × bare walk + 0.15 s", limit)
    };
    vec![
        checkpoint(""),
        checkpoint("-long"),
        seconds(
            "… begun by the hook at a turn's end: committed".into(),
            "hook-commit",
            "1 × bare walk + 0.2 s",
            walk("hook-commit", 1.0, 0.2),
        ),
        seconds("rollback of ten files".into(), "rollback", "2 × bare walk + 0.5 s", walk("rollback", 2.0, 0.5)),
    ]
}

/// The demands on verbs that an agent or its user waits for.
fn waited_for(figures: &Figures) -> Vec<Row> {
    let within = |what: String, case: &str, limit: f64| {
        let took = millis(figures.wall_s(case, SELF));
        row(what, Unit::Millis, took, format!("{limit:.0} ms"), Some(limit))
    };
    let agent = figures
        .value("environment/agent_bytes")
        .map_or_else(|| "no agent installed".to_owned(), |bytes| format!("an agent of {}", Unit::Mib.text(bytes)));
    let mut rows = vec![
        within("hook at a turn's end: returns".into(), "hook-return", 60.0),
        within(format!("environment, nothing cached of it ({agent})"), "environment-cold", 1000.0),
        within("… cached".into(), "environment-cached", 50.0),
    ];
    rows.extend(["", "-long"].map(|name| {
        let what = format!("`session resume` to the agent's start, {}", conversation(figures, name));
        within(what, &format!("resume{name}"), 300.0)
    }));
    rows
}

/// The demands on verbs that only read the store.
fn read(figures: &Figures) -> Vec<Row> {
    let within = |what: String, case: &str, limit: f64| {
        let took = millis(figures.wall_s(case, SELF));
        row(what, Unit::Millis, took, format!("{limit:.0} ms"), Some(limit))
    };
    let mut rows = Vec::new();
    for name in ["", "-long"] {
        let said = conversation(figures, name);
        rows.push(within(format!("`diff` of two checkpoints, {said}"), &format!("session-diff{name}"), 100.0));
        rows.push(within("… with `--conversation`".into(), &format!("session-diff-conversation{name}"), 100.0));
    }
    let checkpoints = figures.value("sessions/checkpoints").map_or_else(String::new, thousands);
    rows.push(within(format!("`list` of {checkpoints} checkpoints of a session"), "session-list", 30.0));
    rows.push(within("… with `--detailed`".into(), "session-list-detailed", 50.0));
    rows
}

/// The demands on the briefing of a resumed agent.
fn told(figures: &Figures) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in ["", "-long"] {
        let count = |what: &str| figures.value(&format!("inject{name}/{what}"));
        let what = format!("hook at a resumed agent's start, {}", conversation(figures, name));
        rows.push(row(what, Unit::Millis, millis(figures.wall_s(&format!("inject{name}"), SELF)), "300 ms", Some(300.0)));
        rows.push(row("… what it is told, in tokens", Unit::Count, count("tokens"), "5,000", Some(5_000.0)));
        rows.push(row("… in characters", Unit::Count, count("characters"), "10,000", Some(10_000.0)));
        rows.push(row("… of the conversation's tokens", Unit::Percent, count("share"), "10 %", Some(0.1)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::launch::Outcome;

    #[test]
    fn a_session_is_held_against_the_walk_and_the_clock() {
        let mut figures = Figures::default();
        for (case, tool, wall_s) in [
            ("session-checkpoint", SELF, 0.3),
            ("session-checkpoint-long", SELF, 0.4),
            ("session-checkpoint", WALK, 0.2),
            ("hook-return", SELF, 0.02),
        ] {
            figures.add(case, tool, Outcome { wall_s, ..Outcome::default() });
        }
        let verdicts: Vec<&str> = rows(&figures).iter().filter(|row| row.measured.is_some()).map(Row::verdict).collect();
        assert_eq!(verdicts, ["yes", "**no**", "yes"]);
    }
}
