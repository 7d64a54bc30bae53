//! A session of the real agent is killed in the middle; another agent that goes on with it knows what it needs. `benches/src/bin/resumed.rs` measures
//! this with all sessions by script.

use std::path::Path;

use parhelia_tests::sessions::{play, resumed_bare, resumed_briefed, scripts};

#[test]
fn an_agent_that_goes_on_knows_what_was_said_and_need_not_look() {
    let scripts = scripts(Path::new("../benches/sessions")).unwrap();
    assert_eq!(scripts.len(), 20);
    for script in scripts.iter().filter(|script| ["plotters", "ureq"].contains(&script.name.as_str())) {
        let Some(played) = play(script) else { return };
        let (briefed, bare) = (resumed_briefed(&played, script), resumed_bare(&played, script));
        for (fact, told) in script.facts.iter().zip(&briefed.told) {
            assert!(*told || fact.by != "user", "{}: {} is not told: {}", script.name, fact.what, briefed.briefing);
        }
        assert!(bare.known.iter().filter(|known| **known).count() < 2, "{}: {:?}", script.name, bare.known);
        let (with, without) = (briefed.tokens - bare.at_first, bare.tokens - bare.at_first);
        assert!(with < 6_000 && with * 5 < without, "{}: {with} and {without} tokens", script.name);
        assert!(briefed.calls < 3 && bare.calls == played.looked.len() + 1, "{}: {} calls", script.name, briefed.calls);
        assert!(briefed.briefing.contains("## What the user said, turn by turn"), "{}", briefed.briefing);
    }
}

#[test]
fn every_session_can_be_played() {
    for script in scripts(Path::new("../benches/sessions")).unwrap() {
        let kinds = script.facts.iter().map(|fact| fact.kind).collect::<Vec<_>>();
        assert!(kinds.len() == 4 && script.turns.len() >= 10, "{}", script.name);
        assert!(
            script
                .turns
                .split_last()
                .is_some_and(|(last, turns)| { last.reply.is_empty() && turns.iter().all(|turn| !turn.reply.is_empty()) }),
            "{}: the last turn alone has no reply",
            script.name
        );
        for fact in script.facts.iter().filter(|fact| fact.by == "user") {
            let half = &script.turns[..script.turns.len() / 2];
            let is_said = half.iter().any(|turn| fact.is_in(&turn.prompt.replace('\n', " ")));
            assert!(is_said, "{}: nobody says: {}", script.name, fact.what);
        }
    }
}
