use std::{cell::RefCell, ffi::OsString, fs, os::unix::fs::PermissionsExt, path::PathBuf, thread};

use parhelia_agent::kinds::KINDS;
use parhelia_ledger::LedgerView as _;
use parhelia_store::{OpenOptions, Store, delete::delete_checkpoints, event::NewEvent, id::Ulid, record::Trigger};
use proptest::prelude::*;
use serde_json::json;

use crate::checkpoint::{CheckpointRequest, Conversation, make};
use parhelia_host::config::Config;
use parhelia_oversight::{
    review::{annotation, link, tag},
    search::*,
};
use parhelia_session_testing::{Caller, NOBODY};

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A store, a workspace and a conversation.
struct Scene {
    folder: tempfile::TempDir,
    store: Store,
    said: RefCell<Vec<String>>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            parhelia_ledger::open(&folder.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Scene { folder, store, said: RefCell::default() }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join("work").join(name), text).unwrap();
    }

    /// A prompt and its answer.
    fn say(&self, prompt: &str, answer: &str) {
        let mut said = self.said.borrow_mut();
        for (role, text) in [("user", prompt), ("assistant", answer)] {
            let uuid = format!("{role}-{}", said.len());
            let message = json!({ "id": uuid, "role": role, "model": "m", "content": [{ "type": "text", "text": text }],
                                  "stop_reason": "end_turn" });
            said.push(format!("{}\n", json!({ "type": role, "uuid": uuid, "sessionId": ID, "message": message })));
        }
    }

    fn create(&self, message: Option<&str>) -> Ulid {
        let (workspace, config) = (self.folder.path().join("work"), self.folder.path().join("claude"));
        let transcript = KINDS[0].place(&config, &workspace, ID);
        fs::create_dir_all(transcript.parent().unwrap()).unwrap();
        fs::write(transcript, self.said.borrow().concat()).unwrap();
        let settings = Config::default();
        let request = CheckpointRequest {
            trigger: Trigger::Manual,
            message: message.map(str::to_owned),
            conversation: Conversation::Of { config, id: ID.into() },
            thins: false,
            ..CheckpointRequest::new("work", &workspace, &settings)
        };
        make(&self.store, &NOBODY, &request, &()).unwrap().outcome.checkpoint.record.id
    }

    fn request<'a>(query: &'a Query) -> SearchRequest<'a> {
        SearchRequest { query, session: None, since: None, limit: 20 }
    }

    fn search(&self, query: &str) -> SearchResults {
        search(&self.store, &NOBODY, &Self::request(&query.parse().unwrap()), &()).unwrap()
    }

    fn ids(&self, query: &str) -> Vec<Ulid> {
        self.search(query).hits.iter().map(|hit| hit.checkpoint.record.id).collect()
    }

    fn file(&self) -> PathBuf {
        self.store.layout().cache().join("search.sqlite")
    }

    fn tag(&self, id: Ulid, tag: &str) {
        tag::tag(&self.store, &NOBODY, id, &[tag.parse().unwrap()], &()).unwrap();
    }

    fn delete(&self, id: Ulid) {
        delete_checkpoints(&self.store, &[id], None, &()).unwrap();
        self.store.refresh().unwrap();
    }

    /// Compares the index with one that is made anew.
    fn check(&self) {
        self.ids("anything");
        assert!(is_sound(&self.store, &NOBODY));
    }
}

#[test]
fn a_checkpoint_is_found_by_everything_that_is_said_of_it() {
    let scene = Scene::new();
    scene.write("lexer-rules.txt", "one");
    scene.say("Please repair the tokenizer", "The tokenizer loses the last comma.");
    let first = scene.create(Some("before the great cleanup"));
    scene.write("parser.rs", "two");
    scene.say("go on", "It is repaired.");
    let second = scene.create(None);
    scene.tag(second, "milestone/v1.0");
    annotation::annotate(&scene.store, &NOBODY, second, &annotation::Text::new("Ann has read this").unwrap(), &()).unwrap();
    link::link(&scene.store, &NOBODY, second, &[link::parse("https://github.com/owner/repo/pull/12").unwrap()], &()).unwrap();
    let named = NewEvent::new("session.changed", "work", Default::default()).with("name", "login-bug");
    scene.store.append_events(&[named], &()).unwrap();

    for (query, field, expected) in [
        ("cleanup", Field::Message, &[first][..]),
        ("CLEANUP great", Field::Message, &[first]),
        ("\"great cleanup\"", Field::Message, &[first]),
        ("\"cleanup great\"", Field::Message, &[]),
        ("lexer-rules.txt", Field::Files, &[first]),
        ("parser.rs", Field::Files, &[second]),
        ("parse*", Field::Files, &[second]),
        ("parse", Field::Files, &[]),
        ("last comma", Field::Conversation, &[first]),
        ("repaired", Field::Conversation, &[second]),
        ("milestone/v1.0", Field::Tags, &[second]),
        ("ann read", Field::Annotations, &[second]),
        ("owner/repo#12", Field::Links, &[second]),
        ("github", Field::Links, &[second]),
        ("login-bug", Field::Session, &[first, second]),
        ("cleanup repaired", Field::Message, &[]),
        ("cleanup tokenizer", Field::Message, &[first]),
    ] {
        let found = scene.search(query);
        let mut ids: Vec<Ulid> = found.hits.iter().map(|hit| hit.checkpoint.record.id).collect();
        ids.sort();
        assert_eq!((ids.as_slice(), found.matching as usize, found.searched), (expected, expected.len(), 2), "{query}");
        for hit in &found.hits {
            assert!(hit.matches.iter().any(|place| place.field == field && !place.pieces.is_empty()), "{query}: {hit:?}");
        }
    }
    let comma = scene.search("comma").hits.remove(0).matches.remove(0);
    let marked: Vec<_> = comma.pieces.iter().filter(|piece| piece.is_match).map(|piece| piece.text.as_str()).collect();
    assert_eq!(marked, ["comma"]);
    scene.check();
    tag::untag(&scene.store, &NOBODY, second, &["milestone/v1.0".parse().unwrap()], &()).unwrap();
    assert!(scene.ids("milestone").is_empty());
    scene.check();
}

#[test]
fn a_tag_counts_more_than_a_word_of_the_conversation_and_limits_hold() {
    let scene = Scene::new();
    let ids: Vec<Ulid> = (0..4)
        .map(|i| {
            scene.say(&format!("turn {i} about stable things"), "yes");
            scene.create(None)
        })
        .collect();
    scene.tag(ids[1], "stable");
    let found = scene.search("stable");
    assert_eq!((found.hits[0].checkpoint.record.id, found.matching), (ids[1], 4));
    assert!(found.hits.windows(2).all(|two| two[0].score >= two[1].score));
    let query = "stable".parse().unwrap();
    let limited = |change: &dyn Fn(&mut SearchRequest<'_>)| {
        let mut request = Scene::request(&query);
        change(&mut request);
        search(&scene.store, &NOBODY, &request, &()).unwrap()
    };
    let two = limited(&|request| request.limit = 2);
    assert_eq!((two.hits.len(), two.matching), (2, 4));
    let since = scene.store.view().checkpoint(ids[2]).unwrap().unwrap().record.created_at;
    let later = limited(&|request| request.since = Some(since));
    assert_eq!((later.matching, later.searched), (2, 2));
    assert_eq!(limited(&|request| request.session = Some("work")).matching, 4);
    assert_eq!(limited(&|request| request.session = Some("other")).searched, 0);
}

#[test]
fn a_text_is_found_where_it_came_in_and_not_lost_with_that_checkpoint() {
    let scene = Scene::new();
    let mut ids = Vec::new();
    for word in ["alpha", "beta", "gamma"] {
        scene.say(word, "yes");
        scene.write(word, word);
        ids.push(scene.create(None));
    }
    assert_eq!(scene.ids("beta"), [ids[1]]);
    scene.delete(ids[1]);
    assert_eq!(scene.ids("beta"), [ids[2]]);
    assert_eq!((scene.ids("alpha"), scene.ids("gamma")), (vec![ids[0]], vec![ids[2]]));
    scene.delete(ids[0]);
    assert_eq!(scene.ids("alpha beta gamma"), [ids[2]]);
    scene.check();
    scene.delete(ids[2]);
    assert_eq!(scene.search("alpha").searched, 0);
}

#[test]
fn an_index_that_is_damaged_foreign_or_gone_is_made_anew() {
    let scene = Scene::new();
    scene.say("about whales", "yes");
    let id = scene.create(None);
    assert_eq!(scene.ids("whales"), [id]);
    let whole = fs::read(scene.file()).unwrap();
    assert_eq!(fs::metadata(scene.file()).unwrap().permissions().mode() & 0o777, 0o600);
    let middle = [&whole[..4096], &vec![0xa5; whole.len() - 4096][..]].concat();
    for bytes in [b"no database at all".to_vec(), middle, whole[..whole.len() / 2].to_vec(), whole[..100].to_vec(), Vec::new()] {
        fs::write(scene.file(), &bytes).unwrap();
        assert_eq!(scene.ids("whales"), [id], "{} bytes", bytes.len());
        scene.check();
    }
    fs::remove_file(scene.file()).unwrap();
    assert_eq!(scene.ids("whales"), [id]);

    let changed = |sql: &str| {
        rusqlite::Connection::open(scene.file()).unwrap().execute_batch(sql).unwrap();
        assert_eq!(scene.ids("whales"), [id], "{sql}");
        scene.check();
    };
    changed("PRAGMA user_version = 999");
    changed("DROP TABLE meta");
    changed("CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM checkpoints; END");
    changed("UPDATE meta SET value = 'nonsense'");
    changed("UPDATE meta SET value = replace(value, '\"hash\":\"', '\"hash\":\"0'); DELETE FROM texts");
}

#[test]
fn an_index_that_was_left_half_built_is_finished() {
    let scene = Scene::new();
    let ids: Vec<Ulid> = ["alpha", "beta"]
        .map(|word| {
            scene.say(word, "yes");
            scene.create(None)
        })
        .to_vec();
    assert_eq!(scene.ids("alpha"), [ids[0]]);
    // As a process that is killed between two commits leaves it.
    let connection = rusqlite::Connection::open(scene.file()).unwrap();
    connection
        .execute_batch("UPDATE checkpoints SET state = 0; DELETE FROM texts WHERE rowid = (SELECT max(rowid) FROM texts)")
        .unwrap();
    drop(connection);
    assert_eq!(scene.ids("beta"), [ids[1]]);
    scene.check();
}

#[test]
fn an_index_that_knows_more_than_the_journal_forgets_it() {
    let scene = Scene::new();
    scene.say("alpha", "yes");
    let first = scene.create(None);
    let layout = scene.store.layout().clone();
    let journal = || fs::read_dir(layout.journal()).unwrap().map(|entry| entry.unwrap().path());
    let before: Vec<(PathBuf, Vec<u8>)> = journal().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    scene.say("beta", "yes");
    scene.create(None);
    assert_eq!(scene.search("beta").matching, 1);
    journal().for_each(|path| fs::remove_file(path).unwrap());
    before.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    let _ = fs::remove_dir_all(layout.view());
    let reopened = Scene { store: parhelia_ledger::open(scene.store.path(), &OpenOptions::default()).unwrap(), ..scene };
    assert_eq!((reopened.ids("alpha"), reopened.search("beta").matching), (vec![first], 0));
    reopened.check();
}

#[test]
fn names_that_lead_elsewhere_are_not_followed() {
    let scene = Scene::new();
    scene.say("about whales", "yes");
    let id = scene.create(None);
    let elsewhere = scene.folder.path().join("elsewhere");
    for name in ["search.sqlite", "search.lock"] {
        fs::write(&elsewhere, "mine").unwrap();
        let link = scene.store.layout().cache().join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        assert_eq!(scene.ids("whales"), [id]);
        assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
        let home = scene.folder.path().join("home");
        let caller = Caller(|name: &str| (name == "HOME").then(|| OsString::from(&home)));
        let query = "whales".parse().unwrap();
        let found = search(&scene.store, &caller, &Scene::request(&query), &()).unwrap();
        assert_eq!(found.matching, 1);
        assert!(fs::read_dir(home.join(".cache/parhelia/search")).unwrap().count() >= 2);
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn two_searches_at_once_both_find_everything() {
    let scene = Scene::new();
    for i in 0..5 {
        scene.say(&format!("word{i} whales"), "yes");
        scene.create(None);
    }
    let path = scene.store.path().to_owned();
    for _ in 0..5 {
        let _ = fs::remove_file(scene.file());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let store = parhelia_ledger::open(&path, &OpenOptions::default()).unwrap();
                    let query = "whales".parse().unwrap();
                    assert_eq!(search(&store, &NOBODY, &Scene::request(&query), &()).unwrap().matching, 5);
                });
            }
        });
    }
    scene.check();
}

#[derive(Clone, Debug)]
enum Step {
    Create { file: u8, turn: bool },
    Rewrite,
    Tag(usize),
    Annotate(usize),
    Rename(u8),
    Delete(usize),
    Search,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..3u8, any::<bool>()).prop_map(|(file, turn)| Step::Create { file, turn }),
        1 => Just(Step::Rewrite),
        1 => (0..9usize).prop_map(Step::Tag),
        1 => (0..9usize).prop_map(Step::Annotate),
        1 => (0..3u8).prop_map(Step::Rename),
        3 => (0..9usize).prop_map(Step::Delete),
        3 => Just(Step::Search),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn an_index_that_was_kept_up_to_date_is_one_that_is_made_anew(steps in prop::collection::vec(step(), 1..14)) {
        let scene = Scene::new();
        let mut ids: Vec<Ulid> = Vec::new();
        let chosen = |ids: &[Ulid], i: usize| ids.get(i % ids.len().max(1)).copied();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Create { file, turn } => {
                    scene.write(&format!("file{file}"), &number.to_string());
                    if *turn {
                        scene.say(&format!("turn{number}"), "yes");
                    }
                    ids.push(scene.create(None));
                }
                Step::Rewrite => scene.said.borrow_mut().clear(),
                Step::Tag(i) => if let Some(id) = chosen(&ids, *i) { scene.tag(id, &format!("t{number}")) },
                Step::Annotate(i) => if let Some(id) = chosen(&ids, *i) {
                    let text = annotation::Text::new(&format!("note{number}")).unwrap();
                    annotation::annotate(&scene.store, &NOBODY, id, &text, &()).unwrap();
                },
                Step::Rename(_) if scene.store.refresh().unwrap().session("work").unwrap().is_none() => {}
                Step::Rename(i) => {
                    let named = NewEvent::new("session.changed", "work", Default::default()).with("name", format!("name{i}"));
                    scene.store.append_events(&[named], &()).unwrap();
                }
                Step::Delete(i) => if let Some(id) = chosen(&ids, *i) {
                    ids.retain(|other| *other != id);
                    scene.delete(id);
                },
                Step::Search => scene.check(),
            }
        }
        scene.check();
    }
}
