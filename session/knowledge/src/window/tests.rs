//! A compressed conversation fits, keeps what it should, and stays as it is when it is compressed again.

use parhelia_agent::transcript::window::{Piece, What};
use proptest::prelude::*;

use super::{kept::Which, *};
use crate::budget::{Budget, tokens};

fn call(id: &str, tool: &str, about: &str) -> Piece {
    let (call, tool, about) = (Some(id.to_owned()), Some(tool.to_owned()), Some(about.to_owned()));
    let text = format!("{{\"command\":\"{}\"}}", about.clone().unwrap_or_default());
    Piece { call, tool, about, ..Piece::new(What::Call, text) }
}

fn result(id: &str, tool: &str, text: &str, is_error: bool) -> Piece {
    Piece { call: Some(id.into()), tool: Some(tool.into()), is_error, ..Piece::new(What::Result, text) }
}

fn output(lines: usize) -> String {
    (0..lines).map(|n| format!("   Compiling dependency-{n} v1.{n}.0 of the workspace\n")).collect()
}

/// A long conversation: an error with its end, a decision, the same file read again and again, and a last turn.
fn conversation() -> Vec<Piece> {
    let mut pieces = vec![
        Piece::new(What::System, "You are an agent."),
        Piece::new(What::Told, "This session (s) is resumed. Old words."),
        Piece::new(What::Prompt, "Make the parser faster."),
        Piece::new(What::Thought, "Hm. Or not. Let me think about it again."),
        Piece::new(What::Reply, "Let me look around first."),
        call("t1", "Bash", "cargo test --lib"),
        result("t1", "Bash", &format!("{}error[E0499]: planted borrow error\nexit code 101", output(300)), true),
        call("t2", "Bash", "cargo test --lib"),
        result("t2", "Bash", "error[E0499]: the same again", true),
        call("t3", "Edit", "/w/src/parser.rs"),
        result("t3", "Edit", "edited", false),
        call("t4", "Bash", "cargo test --lib -- --nocapture"),
        result("t4", "Bash", "test result: ok. 17 passed, planted resolution", false),
        call("t5", "AskUserQuestion", ""),
        result(
            "t5",
            "AskUserQuestion",
            "User has answered your questions: \"Tabs or spaces?\"=\"planted decision: tabs\".",
            false,
        ),
        Piece::new(What::Reply, "The parser is faster."),
        Piece::new(What::Told, "Context of this session (s) that may have been lost. New words."),
    ];
    for n in 0..30 {
        pieces.push(Piece::new(What::Prompt, if n % 2 == 0 { "go on".into() } else { format!("step {n}") }));
        pieces.push(call(&format!("r{n}"), "Read", "/w/src/lib.rs"));
        pieces.push(result(&format!("r{n}"), "Read", &output(60), false));
        pieces.push(Piece::new(What::Reply, format!("Step {n} is done.")));
    }
    pieces.push(Piece::new(What::Prompt, "the last prompt"));
    pieces.push(call("z", "Bash", "make"));
    pieces.push(result("z", "Bash", &output(20), false));
    pieces.push(Piece::new(What::Reply, "All is done."));
    pieces
}

#[test]
fn errors_with_their_end_decisions_and_the_last_turns_are_kept() {
    let pieces = conversation();
    let bounds = Bounds::of(8_000, 0);
    let short = compress(&pieces, &bounds, &tokenizer::count);
    let text = markdown::conversation(&short);
    assert!(tokenizer::count(&text) <= bounds.total, "{}", tokenizer::count(&text));
    for kept in [
        "You are an agent.",
        "New words",
        "Make the parser faster.",
        "planted borrow error",
        "planted resolution",
        "planted decision",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    for left_out in ["Old words", "Let me think", "Let me look around", "the same again", "dependency-150 "] {
        assert!(!text.contains(left_out), "{left_out}: {text}");
    }
    assert!(text.contains("/w/src/parser.rs"), "the edit between an error and its end: {text}");
    assert_eq!(short[short.len() - 4..], pieces[pieces.len() - 4..], "the last turn is whole");
    assert_eq!(compress(&short, &bounds, &tokenizer::count), short);
    let order = |text_of: &str| text.find(text_of).unwrap();
    assert!(order("planted borrow error") < order("planted resolution") && order("planted decision") < order("All is done."));
}

#[test]
fn a_last_turn_that_is_too_long_keeps_its_prompt_and_its_end() {
    let mut pieces = vec![Piece::new(What::Prompt, "the only prompt")];
    for n in 0..100 {
        pieces.push(call(&format!("r{n}"), "Read", &format!("/w/{n}.rs")));
        pieces.push(result(&format!("r{n}"), "Read", &output(40), false));
    }
    pieces.push(Piece::new(What::Reply, "The end."));
    let bounds = Bounds::of(10_000, 0);
    let short = compress(&pieces, &bounds, &tokenizer::count);
    assert_eq!((short[0].text.as_str(), short[short.len() - 1].text.as_str()), ("the only prompt", "The end."));
    let whole = short.iter().filter(|piece| piece.what == What::Result && piece.text == output(40)).count();
    assert!(whole > 2 && short.len() > 2 * whole, "{whole} of {}", short.len());
}

#[test]
fn what_the_agent_is_told_fits_and_says_nothing_twice() {
    let pieces = conversation();
    let budget = Budget { tokens_max: 1_200, characters_max: 3_000 };
    let lasting = kept::words(&pieces, Which::Lasting, "", budget).unwrap();
    let results = kept::words(&pieces, Which::Results, &lasting, budget.minus(&lasting)).unwrap();
    let words = format!("{lasting}{results}");
    assert!(budget.fits(&words) && words.matches("## Kept").count() == 1, "{words}");
    let place = |text: &str| words.find(text).unwrap_or_else(|| panic!("{text}: {words}"));
    assert!(place("planted borrow error") < place("succeeded in the end: test result: ok. 17 passed"));
    assert!(
        place("planted resolution") < place("planted decision") && place("planted decision") < place("### Results"),
        "{words}"
    );
    let told = "- Tabs or spaces? planted decision: tabs";
    assert!(!kept::words(&pieces, Which::Lasting, told, budget).unwrap().contains("planted decision"));
    assert_eq!(kept::words(&pieces, Which::Lasting, "", Budget { tokens_max: 3, characters_max: 10 }), None);
    assert_eq!(kept::words(&[], Which::Results, "", budget), None);
}

#[test]
fn shares_add_up_and_a_hooks_text_is_in_two_of_them() {
    let known = "What is known of this project from earlier sessions, newest word on each.";
    let told = Piece::new(What::Told, format!("This session (s) is resumed.\n\n{known}"));
    assert_eq!(Share::parts(&told), [(Share::Summary, "This session (s) is resumed.\n\n"), (Share::Memory, known)]);
    let mut pieces = conversation();
    pieces.push(told);
    let measured = measure(&pieces);
    let whole: usize = pieces.iter().map(|piece| tokenizer::count(&piece.text)).sum();
    assert!(measured.total().abs_diff(whole as u64) <= 2, "{} of {whole}", measured.total());
    assert!(Share::ALL.iter().all(|share| measured.tokens(*share) > 0), "{measured:?}");
    assert_eq!(Share::ALL.iter().map(|share| share.percent()).sum::<u64>(), 100);
}

#[test]
fn an_agents_own_number_decides_where_there_is_one() {
    let window = |reported| parhelia_agent::transcript::window::Window { pieces: conversation(), reported_tokens: reported };
    let windows = |reported| parhelia_agent::transcript::window::Windows { now: window(reported), ..Default::default() };
    let full = report(&windows(Some(170_000)), 0);
    assert_eq!((full.used_tokens(), full.used_percent()), (170_000, 85.0));
    assert!(full.compressed.is_some());
    let empty = report(&windows(None), 0);
    assert_eq!((empty.used_tokens(), empty.compressed), (empty.measured.total(), None));
    assert!(empty.density > 0.05 && empty.density < 0.5, "most of it is repeated: {}", empty.density);
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let what = prop_oneof![
        Just(What::System),
        Just(What::Summary),
        Just(What::Told),
        Just(What::Prompt),
        Just(What::Thought),
        Just(What::Reply),
        Just(What::Call),
        Just(What::Result),
    ];
    let tool = proptest::option::of(prop_oneof![Just("Bash"), Just("Edit"), Just("AskUserQuestion"), Just("nested_memory")]);
    let start = prop_oneof![Just(""), Just("What is known of this project from earlier sessions"), Just("This session (")];
    let text = "(\\PC{0,20}|error|`{0,5}|[\\n\\r]{0,3}|word ){0,40}";
    let about = proptest::option::of("(cargo|/w/a| ){0,3}");
    (what, tool, start, text, proptest::option::of("[a-c]"), about, any::<bool>()).prop_map(
        |(what, tool, start, text, call, about, is_error)| {
            let tool = tool.map(str::to_owned);
            Piece { what, text: format!("{start}{text}"), call, tool, about, is_error }
        },
    )
}

proptest! {
    #[test]
    fn whatever_is_compressed_fits_and_stays(pieces in proptest::collection::vec(any_piece(), 0..60), limit in 0_u64..6_000, unseen in 0_u64..6_000) {
        let bounds = Bounds::of(limit, unseen);
        for count in [&tokens as &dyn Fn(&str) -> usize, &tokenizer::count] {
            let short = compress(&pieces, &bounds, count);
            prop_assert!(count(&markdown::conversation(&short)) <= bounds.total);
            prop_assert_eq!(compress(&short, &bounds, count), short.clone());
            prop_assert_eq!(compress(&pieces, &bounds, count), short);
        }
    }

    #[test]
    fn whatever_is_told_fits(pieces in proptest::collection::vec(any_piece(), 0..40), tokens_max in 0_usize..2_000) {
        let budget = Budget { tokens_max, characters_max: tokens_max * 2 };
        for which in [Which::Lasting, Which::Results] {
            prop_assert!(kept::words(&pieces, which, "", budget).is_none_or(|words| budget.fits(&words)));
        }
    }
}
