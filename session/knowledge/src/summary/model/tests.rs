//! Questions to a model: what is in them, and what is not.

use std::{fs, time::Duration};

use parhelia_agent::transcript::window::{Piece, What, Window, Windows};
use parhelia_store::{
    OpenOptions,
    create::{self, FullWalk, Options},
};
use proptest::prelude::*;

use super::{super::markdown, *};
use crate::budget::tokens;
use parhelia_session_testing::NOBODY;

const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz12";

fn options(max_input_tokens: u64) -> config::Summary {
    config::Summary {
        command: vec!["llm".into()],
        max_input_tokens,
        max_output_tokens: 800,
        timeout_seconds: 60.0,
        every_minutes: 10,
        ..config::Summary::default()
    }
}

fn windows(pieces: Vec<Piece>) -> Windows {
    Windows { now: Window { pieces, ..Window::default() }, ..Windows::default() }
}

fn rules() -> Summary {
    Summary { session: "work".into(), task: Some("Fix the login".into()), ..Summary::default() }
}

#[test]
fn a_question_has_the_rules_summary_and_the_newest_messages() {
    let mut told = windows(vec![
        Piece::new(What::System, "You are an agent"),
        Piece::new(What::Prompt, "the second prompt"),
        Piece::new(What::Thought, "a thought"),
        Piece::new(What::Call, "a call"),
        Piece::new(What::Result, "a result"),
        Piece::new(What::Prompt, "Continue from where you left off."),
        Piece::new(What::Reply, "the last reply"),
    ]);
    told.before = Some(Window { pieces: vec![Piece::new(What::Prompt, "the first prompt")], ..Window::default() });
    let mut rules = rules();
    rules.model = Some(ModelSummary { text: "an earlier answer".into(), ..ModelSummary::default() });
    let question = input::question(rules, &told, &options(8000));
    let text = &question.text;
    assert!(text.starts_with("# Summary by rules\n\n## Session Summary: work\n"), "{text}");
    let end = "## User\n\nthe first prompt\n\n## User\n\nthe second prompt\n\n## Agent\n\nthe last reply";
    assert!(text.contains("- Task: Fix the login\n") && text.ends_with(end), "{text}");
    for left_out in ["You are", "a thought", "a call", "a result", "Continue from", "an earlier answer"] {
        assert!(!text.contains(left_out), "{left_out}: {text}");
    }
    assert!(question.instruction.contains("at most 400 words"), "{}", question.instruction);
}

#[test]
fn no_secret_is_in_a_question() {
    let long = |text: &str| format!("{}\n{text}\n{}", "before\n".repeat(300), "behind\n".repeat(300));
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC1x".repeat(20));
    let told = windows(vec![
        Piece::new(What::Prompt, format!("use {SECRET} for it")),
        Piece::new(What::Reply, long(&format!("export GITHUB_TOKEN={SECRET}"))),
        Piece::new(
            What::Prompt,
            format!("and https://me:hunter22@example.org/x, with `--password hunter23`, \u{1b}[1mnow\r\n{key}"),
        ),
    ]);
    let mut rules = rules();
    rules.blockers = vec![format!("no {SECRET}")];
    let whole = input::question(rules, &told, &options(8000)).whole();
    for secret in ["ghp_", "hunter2", "MIIEvQ"] {
        assert!(!whole.contains(secret), "{secret}: {whole}");
    }
    assert!(whole.contains("[redacted]") && whole.contains("behind"), "{whole}");
    assert!(!whole.contains(|c: char| c.is_control() && c != '\n'), "{whole}");
}

proptest! {
    #[test]
    fn a_question_keeps_its_budget(texts in prop::collection::vec("\\PC{0,300}|[a-z \n]{0,3000}", 0..12), max in 500u64..3000) {
        let pieces = texts.iter().map(|text| Piece::new(What::Reply, text.as_str())).collect();
        let mut rules = rules();
        rules.progress = texts;
        let whole = input::question(rules, &windows(pieces), &options(max)).whole();
        prop_assert!(tokens(&whole) as u64 <= max, "{}", tokens(&whole));
    }

    #[test]
    fn no_words_of_a_model_pass_for_ours(text in "\\PC{0,60}|(#|-|>|`|<|\\*|\n|[0-9]|\\.|\\)|!|\\[|\\]|\\(| |[a-z]){0,80}") {
        let model = ModelSummary { text: text.clone(), ..ModelSummary::default() };
        let page = markdown(&Summary { model: Some(model), ..rules() });
        let (_, behind) = page.split_once("### Summary by a Model\n").unwrap();
        let lines: Vec<&str> = behind.lines().skip(2).collect();
        prop_assert!(lines.iter().all(|line| line.starts_with('>')), "{}", page);
        prop_assert_eq!(lines.len(), text.lines().count());
    }
}

#[test]
fn words_of_a_model_are_quoted_with_their_lists() {
    let text = "# Progress\n- done: `a <b>`\n  1. ![x](http://e.vil/?q)\n<script>\n**bold** [y](z)";
    let model = ModelSummary {
        generated_by: By { api: Some("openai".into()), model: Some("m".into()), command: None },
        text: text.into(),
        ..ModelSummary::default()
    };
    let page = markdown(&Summary { model: Some(model), ..rules() });
    let expected = "\n### Summary by a Model\nWritten by m (openai) at 1970-01-01 00:00 UTC, of checkpoint 00000000000000000000000000:\n\n\
                    > # Progress\n> - done: `a <b>`\n>   1. \\![x\\](http://e.vil/?q)\n> \\<script>\n> **bold** [y\\](z)\n";
    assert!(page.ends_with(expected), "{page}");
}

struct Kept {
    folder: tempfile::TempDir,
    store: Store,
}

impl Kept {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let store =
            parhelia_ledger::open(&folder.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
        Kept { folder, store }
    }

    fn made(&self, trigger: Trigger, detail: Option<&str>) -> Checkpoint {
        let options = Options {
            workspace: self.folder.path().join("work"),
            session: "work".into(),
            trigger,
            cause: detail.and_then(|detail| Cause::ALL.into_iter().find(|cause| cause.name() == detail)).unwrap_or_default(),
            trigger_detail: detail.map(str::to_owned),
            ..Options::default()
        };
        let mut made = create::run_with(&self.store, &options, &FullWalk, &mut create::NoState, &()).unwrap().checkpoint;
        made.record.parts.insert(PART.into(), Part::Captured);
        made
    }

    fn keep(&self, checkpoint: &Checkpoint, text: &str) -> ModelSummary {
        let summary = ModelSummary { checkpoint: checkpoint.record.id, text: text.into(), ..ModelSummary::default() };
        keep(&self.store, "work", &summary).unwrap();
        summary
    }
}

#[test]
fn an_answer_holds_for_its_checkpoint_and_for_those_that_come_from_it() {
    let kept = Kept::new();
    let [first, second, third] = [(); 3].map(|()| kept.made(Trigger::Manual, None));
    let answer = kept.keep(&second, "of the second");
    let of = |checkpoint: &Checkpoint, held| super::of(&kept.store, checkpoint, held).unwrap();
    assert_eq!((of(&second, None), of(&third, None)), (Some(answer.clone()), Some(answer.clone())));
    let held = ModelSummary { text: "held".into(), ..ModelSummary::default() };
    assert_eq!((of(&first, None), of(&first, Some(held.clone()))), (None, Some(held.clone())));
    let gone = ModelSummary { checkpoint: Ulid::from_parts(1, 1), ..answer };
    keep(&kept.store, "work", &gone).unwrap();
    assert_eq!(of(&third, Some(held.clone())), Some(held));
    forget_deleted(&kept.store, "work", true).unwrap();
    assert!(!path(&kept.store, "work").exists());
}

#[test]
fn a_model_is_asked_at_intervals_and_at_an_end() {
    let kept = Kept::new();
    let now = parhelia_store::clock::timestamp();
    let due = |checkpoint: &Checkpoint, now: Timestamp| is_due(&kept.store, &options(8000), checkpoint, now);
    let [first, next] = [(); 2].map(|()| kept.made(Trigger::Periodic, Some("turn_end")));
    assert!(due(&first, now) && !is_due(&kept.store, &config::Summary::default(), &first, now));
    let mut turn = attempt::Turn::take(&kept.store, "work").unwrap().unwrap();
    assert!(attempt::Turn::take(&kept.store, "work").unwrap().is_none());
    turn.note(&attempt::Attempt { checkpoint: Some(first.record.id), at: Some(now), answered: None }).unwrap();
    drop(turn);
    assert!(attempt::Turn::take(&kept.store, "work").unwrap().is_some());
    let minutes = |count| now + SignedDuration::from_mins(count);
    assert!(!due(&first, minutes(60)) && !due(&next, minutes(9)) && due(&next, minutes(10)) && due(&next, minutes(-1)));
    for (trigger, detail) in [(Trigger::Shutdown, None), (Trigger::Periodic, Some("pre_compact"))] {
        assert!(due(&kept.made(trigger, detail), minutes(1)));
    }
    let mut safety = kept.made(Trigger::Manual, Some(parhelia_store::record::SAFETY));
    assert!(!due(&safety, minutes(60)));
    safety.record.told_cause = Some(Cause::Asked);
    assert!(due(&safety, minutes(60)));
    safety.record.parts.clear();
    assert!(!due(&safety, minutes(60)));
}

fn answer(script: &str, limit: Duration) -> std::result::Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let words = ["/bin/sh", "-c", script].map(str::to_owned);
    let place = folder.path();
    command::answer(&command::Invocation { words: &words, folder: place, workspace: place, limit, host: &NOBODY }, "the text\n")
}

#[test]
fn a_command_answers_or_its_failure_has_a_reason() {
    let minute = Duration::from_secs(60);
    assert_eq!(answer("/bin/cat; echo more", minute).as_deref(), Ok("the text\nmore\n"));
    assert_eq!(answer("exec 0<&-; echo unread", minute).as_deref(), Ok("unread\n"));
    let failed = answer("echo half; echo oops >&2; exit 3", minute).unwrap_err();
    assert!(failed.contains("exit status: 3") && failed.ends_with(": oops"), "{failed}");
    let flood = answer("while :; do echo flood; done", minute).unwrap_err();
    assert!(flood.ends_with("printed more than 64 KiB"), "{flood}");
    // What it has started in the background holds its output open.
    for hanging in ["/bin/sleep 1000", "/bin/sleep 1000 & echo done"] {
        let slow = answer(hanging, Duration::from_millis(300)).unwrap_err();
        assert!(slow.ends_with("did not answer within 0.3 s"), "{slow}");
    }
}

#[test]
fn no_program_of_the_workspace_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let words = [folder.path().join("llm").to_str().unwrap().to_owned()];
    // By another process: one that is forked here meanwhile would hold the file open for writing, so that it could not be run.
    assert!(std::process::Command::new("cp").arg("/bin/true").arg(&words[0]).status().unwrap().success());
    let asked = |workspace| {
        let limit = Duration::from_secs(60);
        command::answer(&command::Invocation { words: &words, folder: folder.path(), workspace, limit, host: &NOBODY }, "")
    };
    assert!(asked(folder.path()).unwrap_err().contains("outside of the workspace"));
    assert_eq!(asked(std::path::Path::new("/nowhere")).as_deref(), Ok(""));
}
