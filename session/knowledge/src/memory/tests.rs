use std::sync::Arc;

use parhelia_store::OpenOptions;
use proptest::prelude::*;

use super::*;
use crate::budget::Budget;
use parhelia_session_testing::NOBODY;

struct Scratch {
    _folder: tempfile::TempDir,
    store: Arc<Store>,
    project: Project,
}

fn scratch() -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let store =
        parhelia_ledger::open(&folder.path().join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
    Scratch { _folder: folder, store: Arc::new(store), project: Project::named("example.org/o/tool") }
}

impl Scratch {
    fn save(&self, key: &str, text: &str) -> SavedEntry {
        self.try_save(New { key: key.into(), text: text.into(), ..New::default() }).unwrap()
    }

    fn try_save(&self, new: New) -> Result<SavedEntry> {
        save(&self.store, &NOBODY, &self.project, &new)
    }

    fn memory(&self) -> Memory {
        read(&self.store.layout().root, &self.project, Timestamp::UNIX_EPOCH).unwrap()
    }
}

#[test]
fn what_is_remembered_is_recalled_by_its_words() {
    let scratch = scratch();
    scratch.save("conventions.testing", "pytest with async support");
    scratch.save("gotchas", "The sandbox has no network before 10:00");
    scratch.save("deployment", "by hand, on Fridays never");
    let memory = scratch.memory();
    let found = |query: &str| recall(&memory, query).iter().map(|hit| hit.entry.description.clone()).collect::<Vec<_>>();
    assert_eq!(found("network sandbox"), ["The sandbox has no network before 10:00"]);
    assert_eq!(found("test"), ["pytest with async support"], "also by the key, and by a word's beginning");
    assert_eq!(found("Deployment"), ["by hand, on Fridays never"]);
    assert_eq!(found("nothing of it"), [""; 0]);
    assert_eq!(found("").len(), 3);
    assert_eq!(memory.knowledge.notes[0].key.as_deref(), Some("deployment"));
    assert_eq!(memory.knowledge.gotchas[0].key, None);
    let raw = serde_json::to_value(&memory).unwrap();
    assert_eq!(raw["knowledge"]["conventions"][0]["added_by"], "person");
}

#[test]
fn contradictions_are_shown_and_a_replacement_ends_them() {
    let scratch = scratch();
    assert!(scratch.save("conventions.testing", "pytest").contradicts.is_empty());
    assert!(!scratch.save("conventions.testing", "pytest").is_new, "the same twice is once");
    let other = scratch.save("conventions.testing", "unittest");
    assert_eq!(other.contradicts[0].description, "pytest");
    assert!(scratch.save("gotchas", "a").contradicts.is_empty() && scratch.save("gotchas", "b").contradicts.is_empty());
    let text = relevant(&scratch.memory(), "", Budget::default()).unwrap();
    assert_eq!(text.matches("CONTRADICTED").count(), 2, "{text}");
    let named = |file: &str| {
        let new = New { key: "conventions.testing".into(), text: "pytest".into(), files: vec![file.into()], ..New::default() };
        scratch.try_save(new).unwrap()
    };
    assert!(!named("a.py").is_new);
    assert_eq!(named("b.py").entry.key_files, ["a.py", "b.py"]);
    assert_eq!(scratch.memory().knowledge.conventions[0].key_files, ["a.py", "b.py"]);
    let replaced = scratch
        .try_save(New { key: "conventions.testing".into(), text: "nose".into(), replaces: true, ..New::default() })
        .unwrap();
    assert!(replaced.contradicts.is_empty());
    assert_eq!(scratch.memory().knowledge.conventions.len(), 1);
}

#[test]
fn what_makes_no_sense_is_not_remembered() {
    let scratch = scratch();
    let secret = format!("the key is ghp_{}", "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2");
    for (key, text) in
        [("", "x"), ("k", " "), ("k", "\u{1b}[2J"), (&"k".repeat(101), "x"), ("k", &"x".repeat(4097)), ("k", &secret)]
    {
        let refused = scratch.try_save(New { key: key.into(), text: text.into(), ..New::default() });
        assert!(matches!(refused, Err(Error::Invalid(_))), "{key}: {text}");
    }
    assert_eq!(scratch.memory().knowledge, Knowledge::default());
}

#[test]
fn what_is_forgotten_is_gone_and_nothing_else() {
    let scratch = scratch();
    let kept = scratch.save("gotchas", "stays");
    let gone = scratch.save("conventions.testing", "pytest");
    let forget = |which: &str| forget(&scratch.store, &NOBODY, &scratch.project, which);
    assert_eq!(forget(&gone.entry.id).unwrap().len(), 1);
    assert!(matches!(forget("conventions.testing"), Err(Error::Refused(_))));
    assert!(matches!(forget("gotchas"), Err(Error::Refused(_))), "a section is not forgotten as a whole");
    assert_eq!(scratch.memory().knowledge.all().map(|(_, entry)| entry.clone()).collect::<Vec<_>>(), [kept.entry]);
}

#[test]
fn a_file_that_is_not_understood_is_left_alone() {
    let scratch = scratch();
    scratch.save("gotchas", "x");
    let path = scratch.store.layout().root.join("memory").join(format!("{}.json", scratch.project.id));
    let text = std::fs::read_to_string(&path).unwrap();
    let later = text.replacen("\"schema\": 1", "\"schema\": 2", 1);
    for bad in [later.as_str(), "{", "[]"] {
        std::fs::write(&path, bad).unwrap();
        assert!(scratch.try_save(New { key: "gotchas".into(), text: "y".into(), ..New::default() }).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), bad);
    }
    let unknown = text.replacen("\"knowledge\": {", "\"later\": [1], \"knowledge\": {\"people\": [{\"a\": 1}],", 1);
    std::fs::write(&path, &unknown).unwrap();
    scratch.save("gotchas", "y");
    let after: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((&after["later"][0], &after["knowledge"]["people"][0]["a"]), (&1.into(), &1.into()));
}

#[test]
fn many_at_once_lose_nothing() {
    let scratch = scratch();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let scratch = &scratch;
            scope.spawn(move || scratch.save("gotchas", &format!("number {number}")));
        }
    });
    assert_eq!(scratch.memory().knowledge.gotchas.len(), 16);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_a_session_begins_with_fits(texts in prop::collection::vec("\\PC{1,200}", 0..40), tokens_max in 0_usize..2000) {
        let mut memory = Memory::new("p".into(), "p".into(), Timestamp::UNIX_EPOCH);
        memory.knowledge.gotchas = texts.iter().map(|text| Entry {
            id: new_id(), key: None, description: text.clone(), key_files: Vec::new(), discovered_in: None,
            added_at: Timestamp::UNIX_EPOCH, added_by: AddedBy::Agent, extra: Map::new(),
        }).collect();
        let budget = Budget { tokens_max, characters_max: 4000 };
        if let Some(text) = relevant(&memory, "number", budget) {
            prop_assert!(crate::budget::tokens(&text) <= tokens_max && crate::budget::characters(&text) <= 4000);
        }
    }
}
