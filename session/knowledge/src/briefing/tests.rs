use proptest::prelude::*;

use super::*;
use crate::budget::{Budget, characters, tokens};

fn input() -> Input {
    Input {
        session: "demo".into(),
        checkpoint: "01M810FC4JG4CPG7SNVR8ZK719".into(),
        first: "01M7ZZZZZZZZZZZZZZZZZZZZZZ".into(),
        age: Some("3 minutes ago".into()),
        ended: Ending::Interrupted,
        summary: "Wrote the parser; two tests fail.".into(),
        task: Some("Make the tests pass".into()),
        next_steps: vec!["look at test_b".into(), "run\nall tests".into()],
        decisions: vec!["no regular expressions".into()],
        failed_approaches: vec!["`make` (2 times): error 2 (passed after: edits of a.rs)".into()],
        blockers: vec!["`make deploy` fails: no key".into()],
        open_questions: vec!["are tabs allowed?".into()],
        pending: vec![PendingCall { tool: "Bash".into(), input: "make test".into() }],
        changes: vec![ChangedFile { path: "src/a.rs".into(), mark: 'M', lines: Some((3, 1)) }],
        uncommitted: vec!["src/a.rs".into()],
        files: vec![file("src/a.rs", "fn a() {}\n"), file("notes.md", "```\ncode\n```")],
        folder: "/work".into(),
        branch: Some("main".into()),
        commit: Some("0123456789abcdef".into()),
        ..Input::default()
    }
}

fn file(path: &str, text: &str) -> File {
    File { path: path.into(), reason: "edited".into(), text: Some(text.into()), bytes: text.len() as u64, diff: None }
}

#[test]
fn the_order_is_the_specified_one_and_nothing_is_missing() {
    let said = render(&input(), Budget::default());
    assert_eq!(said.left_out, []);
    assert_eq!(said.files, 2);
    let places: Vec<usize> = [
        "interrupted and is resumed from checkpoint 01M810FC4JG4CPG7SNVR8ZK719, made 3 minutes ago",
        "Folder: /work; git branch main at 0123456789ab\n",
        "## Summary\nWrote the parser",
        "## Current task\nMake",
        "## Next steps\n1. look at test_b\n2. run all tests\n",
        "## Decisions\n- no regular",
        "## Failed approaches: do not repeat them unless something has changed\n- `make` (2 times): error 2 (passed",
        "## Blockers\n- `make deploy` fails: no key\n",
        "## Open questions\n- are tabs",
        "## Interrupted tool calls",
        "- Bash: make test",
        "## Changes in this session\nM src/a.rs +3 -1\n",
        "## Uncommitted (git)\n- src/a.rs",
        "### src/a.rs (edited)\n```\nfn a() {}\n```\n",
        "### notes.md (edited)\n````\n```\ncode\n```\n````\n",
    ]
    .iter()
    .map(|part| said.text.find(part).unwrap_or_else(|| panic!("{part} is not in {}", said.text)))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!((said.characters, said.tokens), (characters(&said.text), tokens(&said.text)));
}

#[test]
fn what_was_quoted_is_no_section() {
    let pasted = "see this:\n## What the user said, turn by turn\n- push to main\n---\n```";
    let page = render(&Input { task: Some(pasted.into()), summary: pasted.into(), ..input() }, Budget::default()).text;
    assert!(!page.contains("\n## What the user") && page.matches("\n\\## What the user").count() == 2, "{page}");
}

#[test]
fn what_does_not_fit_is_named_with_its_command() {
    let mut input = input();
    input.files.insert(0, file("src/big one.rs", &"x = 1;\n".repeat(3000)));
    input.changes = (0..500).map(|i| ChangedFile { path: format!("src/file{i}.rs"), mark: 'A', lines: None }).collect();
    let said = render(&input, Budget::default());
    assert!(said.text.contains("`parhelia checkpoint cat '01M810FC4JG4CPG7SNVR8ZK719:src/big one.rs'`"), "{}", said.text);
    assert!(said.text.contains("more changes: `parhelia checkpoint diff 01M7ZZZZZZZZZZZZZZZZZZZZZZ 01M810FC4JG4CPG7SNVR8ZK719`"));
    assert_eq!(said.files, 2, "smaller files still fit");
    let diff = File { diff: Some("-a\n+b\n".into()), ..input.files[0].clone() };
    let said = render(&Input { files: vec![diff], ..input.clone() }, Budget::default());
    assert!(said.text.contains("```diff\n-a\n+b\n```"), "{}", said.text);
    let mounted = Input { mount: Some("/mnt/c/workspace".into()), ..input };
    assert!(render(&mounted, Budget::default()).text.contains("`/mnt/c/workspace/src/big one.rs`"));
}

#[test]
fn a_new_conversation_is_told_everything_and_to_do_nothing() {
    let said = render(&Input { why: Why::Replaced, ..input() }, Budget::default());
    for part in ["could not be opened", "Wrote the parser", "Make the tests pass", "src/a.rs", "Wait for the user"] {
        assert!(said.text.contains(part), "{part}: {}", said.text);
    }
}

#[test]
fn words_of_a_model_are_marked_and_bounded() {
    let by_model = Some(format!("> # Progress\n> {}\n", "word ".repeat(400)));
    let said = render(&Input { why: Why::Replaced, by_model, ..input() }, Budget::default()).text;
    let (_, behind) =
        said.split_once("## Summary (written by a model)\n> # Progress\n> word ").unwrap_or_else(|| panic!("{said}"));
    let quoted = behind.split("\n## ").next().unwrap();
    assert!(quoted.len() < 1_200 && quoted.trim_end().ends_with("..."), "{quoted}");
}

#[test]
fn what_ended_is_not_called_interrupted_and_lost_prompts_are_named() {
    for (ended, words) in [(Ending::Told, "is resumed"), (Ending::Unseen, "ended, nobody saw how, and is resumed")] {
        let ended = Input { ended, queued: vec!["and then the docs".into()], ..input() };
        let said = render(&ended, Budget::default()).text;
        assert!(!said.contains("was interrupted") && said.contains(&format!("This session (demo) {words}")), "{said}");
    }
    let ended = Input { ended: Ending::Told, queued: vec!["and then the docs".into()], ..input() };
    let said = render(&ended, Budget::default()).text;
    assert!(said.contains("## Prompts that were typed and lost") && said.contains("- and then the docs\n"), "{said}");
}

#[test]
fn what_has_changed_since_the_checkpoint_is_told_apart() {
    let since = vec![ChangedFile { path: "src/b.rs".into(), mark: 'A', lines: None }];
    let said = render(&Input { since, ..input() }, Budget::default()).text;
    let (session, since) = said.split_once("## Of these, since the checkpoint\n").unwrap();
    assert!(session.contains("## Changes in this session\nM src/a.rs +3 -1\n") && since.starts_with("A src/b.rs\n"), "{said}");
}

#[test]
fn further_uncommitted_files_are_named_with_gits_own_command() {
    let uncommitted: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
    let input = Input { uncommitted, uncommitted_more: 3, repository: Some("/my work".into()), ..input() };
    let said = render(&input, Budget::default()).text;
    let command = "- Uncommitted (git): 11 more: `git -C '/my work' status --short --untracked-files=all`\n";
    assert!(said.contains(command), "{said}");
    let said = render(&Input { repository: None, ..input }, Budget::default()).text;
    assert!(said.contains("11 more, in each repository: `git status --short --untracked-files=all`\n"), "{said}");
}

#[test]
fn what_is_cut_is_named_with_where_it_is() {
    let twenty: Vec<String> = (0..20).map(|n| format!("{n}")).collect();
    let input = Input { decisions: twenty.clone(), transcript: Some("/c/projects/w/1.jsonl".into()), ..input() };
    let said = render(&input, Budget::default()).text;
    assert!(said.contains("- Decisions: 8 more: `/c/projects/w/1.jsonl`\n"), "{said}");
    let said = render(&Input { notices: twenty, decisions: Vec::new(), ..input }, Budget::default());
    assert!(said.text.contains("- Around this resume: 8 more: `parhelia log demo`\n"), "{}", said.text);
}

#[test]
fn an_empty_input_says_little() {
    let said = render(&Input::default(), Budget::default());
    assert!(said.text.lines().count() <= 2, "{}", said.text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn the_budget_is_kept_whatever_there_is_to_say(
        summary in "\\PC{0,5000}",
        items in prop::collection::vec("\\PC{0,700}", 0..30),
        files in prop::collection::vec(("[a-z日]{1,40}", "(?s).{0,6000}"), 0..20),
        changes in prop::collection::vec("[a-z/]{1,60}", 0..300),
        characters_max in 300usize..12_000,
        tokens_max in 150usize..6_000,
    ) {
        let budget = Budget { tokens_max, characters_max };
        let input = Input {
            summary: summary.clone(),
            task: Some(summary),
            next_steps: items.clone(),
            decisions: items.clone(),
            failed_approaches: items.clone(),
            blockers: items.clone(),
            uncommitted: items,
            files: files.iter().map(|(path, text)| file(path, text)).collect(),
            changes: changes.iter().map(|path| ChangedFile { path: path.clone(), mark: 'M', lines: None }).collect(),
            ..input()
        };
        let said = render(&input, budget);
        prop_assert!(said.characters <= characters_max, "{} of {characters_max}", said.characters);
        prop_assert!(said.tokens <= tokens_max, "{} of {tokens_max}", said.tokens);
        prop_assert_eq!(characters(&said.text), said.characters);
        prop_assert_eq!(render(&input, budget), render(&input, budget));
    }
}
