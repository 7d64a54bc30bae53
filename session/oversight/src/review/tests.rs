use std::fs;

use parhelia_ledger::selector::find;
use parhelia_store::{
    Error as StoreError, ErrorKind, OpenOptions,
    create::{self, Options},
    delete::delete_checkpoints,
};

use super::{tag::Tag, *};
use parhelia_session_testing::NOBODY;

struct Place {
    folder: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            parhelia_ledger::open(&folder.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Place { folder, store }
    }

    fn create(&self, session: &str) -> Ulid {
        let options = Options { workspace: self.folder.path().join("work"), session: session.into(), ..Options::default() };
        create::run(&self.store, &options, &()).unwrap().checkpoint.record.id
    }

    fn view(&self) -> std::sync::Arc<View> {
        self.store.refresh().unwrap()
    }

    fn events(&self) -> usize {
        self.store.events_after(0).unwrap().len()
    }

    fn tag(&self, id: Ulid, tags: &[&str]) -> Result<tag::TagOutcome> {
        tag::tag(&self.store, &NOBODY, id, &parsed(tags), &())
    }

    fn untag(&self, id: Ulid, tags: &[&str]) -> Result<std::collections::BTreeSet<String>> {
        tag::untag(&self.store, &NOBODY, id, &parsed(tags), &())
    }

    fn found(&self, selector: &str) -> Ulid {
        find(&self.view(), selector).unwrap().record.id
    }
}

fn parsed(tags: &[&str]) -> Vec<Tag> {
    tags.iter().map(|tag| tag.parse().unwrap()).collect()
}

#[test]
fn a_tag_is_added_once_and_removed_once() {
    let place = Place::new();
    let id = place.create("s");
    let tagged = place.tag(id, &["a", "b/c", "a"]).unwrap();
    assert_eq!((tagged.added, tagged.had, tagged.tags.len()), (parsed(&["a", "b/c"]), vec![], 2));
    let events = place.events();
    let again = place.tag(id, &["b/c"]).unwrap();
    assert_eq!((again.added, again.had, again.tags.len()), (vec![], parsed(&["b/c"]), 2));
    assert_eq!(place.events(), events, "nothing is recorded twice");
    let refused = place.untag(id, &["a", "x"]).unwrap_err();
    assert!(refused.kind() == ErrorKind::NotFound && refused.to_string().contains("it has a, b/c"), "{refused}");
    assert_eq!(place.untag(id, &["a"]).unwrap().into_iter().collect::<Vec<_>>(), ["b/c"]);
    assert!(place.untag(id, &["a"]).is_err());
}

#[test]
fn a_tag_selects_the_newest_that_bears_it_before_and_after_the_index_has_it() {
    let place = Place::new();
    let (first, second, other) = (place.create("s"), place.create("s"), place.create("other"));
    for id in [second, first] {
        place.tag(id, &["v"]).unwrap();
    }
    place.tag(other, &["v", "v/w"]).unwrap();
    let check = || {
        assert_eq!((place.found("tag:v"), place.found("s@tag:v"), place.found("tag:v/w")), (other, second, other));
        let in_use: Vec<_> = tag::in_use(&place.view(), &["v".parse().unwrap()]).unwrap();
        let shown: Vec<_> = in_use.iter().map(|tag| (tag.tag.as_str(), tag.newest, tag.checkpoints)).collect();
        assert_eq!(shown, [("v", other, 3), ("v/w", other, 1)]);
    };
    check();
    // The index takes in what the journal has.
    let notes: Vec<NewEvent> = (0..100).map(|i| NewEvent::new("note", i.to_string(), Default::default())).collect();
    place.store.append_events(&notes, &()).unwrap();
    check();
    place.untag(other, &["v"]).unwrap();
    assert_eq!(place.found("tag:v"), second);
    place.store.append_events(&notes, &()).unwrap();
    delete_checkpoints(&place.store, &[second], None, &()).unwrap();
    assert_eq!(place.found("tag:v"), first);
    let none = |selector: &str| find(&place.view(), selector).unwrap_err();
    assert!(matches!(none("other@tag:v"), StoreError::NoTag { session: Some(_), .. }));
    let near = none("tag:w").to_string();
    assert!(near.contains("no checkpoint has the tag 'w'") && near.contains("the list of tags"), "{near}");
    assert!(none("tag:v/x").to_string().contains("similar: v/w"), "{}", none("tag:v/x"));
    place.store.append_events(&notes, &()).unwrap();
    assert_eq!((place.found("tag:v"), place.found("tag:v/w")), (first, other));
}

#[test]
fn a_deleted_checkpoint_is_refused_with_the_time_and_an_unknown_one_is_not_found() {
    let place = Place::new();
    let id = place.create("s");
    place.tag(id, &["a"]).unwrap();
    let text = annotation::Text::new("why").unwrap();
    annotation::annotate(&place.store, &NOBODY, id, &text, &()).unwrap();
    delete_checkpoints(&place.store, &[id], None, &()).unwrap();
    for refused in [
        place.tag(id, &["b"]).unwrap_err(),
        place.untag(id, &["a"]).unwrap_err(),
        annotation::annotate(&place.store, &NOBODY, id, &text, &()).unwrap_err(),
        link::link(&place.store, &NOBODY, id, &[link::parse("o/r#1").unwrap()], &()).unwrap_err(),
    ] {
        assert!(refused.kind() == ErrorKind::NotFound && refused.to_string().contains(" was deleted on 2"), "{refused}");
    }
    assert_eq!(annotation::annotations(&place.view(), Some(id)).unwrap().len(), 1, "what was said of it stays");
    assert!(annotation::annotations(&place.view(), None).unwrap().is_empty());
    let unknown = place.tag(Ulid::nil(), &["b"]).unwrap_err();
    assert!(matches!(unknown, Error::Store(StoreError::NoCheckpoint { .. })), "{unknown}");
}

#[test]
fn annotations_are_in_the_order_in_which_they_were_made() {
    let place = Place::new();
    let (first, second) = (place.create("s"), place.create("s"));
    for (id, text) in [(second, "1"), (first, "2"), (second, "3")] {
        annotation::annotate(&place.store, &NOBODY, id, &annotation::Text::new(text).unwrap(), &()).unwrap();
    }
    let said = |id| annotation::annotations(&place.view(), id).unwrap().into_iter().map(|(_, a)| a.text).collect::<Vec<_>>();
    assert_eq!(said(Some(second)), ["1", "3"]);
    assert_eq!(said(None), ["2", "1", "3"]);
}

#[test]
fn an_issue_is_linked_once_and_unlinked_by_any_of_its_names() {
    let place = Place::new();
    let id = place.create("s");
    let link = |text: &str| link::link(&place.store, &NOBODY, id, &[link::parse(text).unwrap()], &()).unwrap();
    assert_eq!(link("https://github.com/o/r/pull/7").added.len(), 1);
    let events = place.events();
    let again = link("O/r#7");
    assert_eq!((again.added.len(), again.had[0].url.as_str()), (0, "https://github.com/o/r/pull/7"));
    assert_eq!(place.events(), events);
    link("bd-a1b2");
    let unlink = |text: &str| link::unlink(&place.store, &NOBODY, id, &[link::parse(text).unwrap()], &());
    let refused = unlink("o/r#8").unwrap_err().to_string();
    assert!(refused.contains("it is linked to beads:bd-a1b2, https://github.com/o/r/pull/7"), "{refused}");
    let unlinked = unlink("o/r#7").unwrap();
    assert_eq!((unlinked.removed[0].url.as_str(), unlinked.links.len()), ("https://github.com/o/r/pull/7", 1));
}

#[test]
fn what_is_marked_is_deleted_only_where_that_is_meant() {
    let place = Place::new();
    let (plain, tagged) = (place.create("s"), place.create("s"));
    place.tag(tagged, &["a", "b"]).unwrap();
    let refused = delete(&place.store, &NOBODY, &[plain, tagged], None, false, &()).unwrap_err();
    assert!(refused.kind() == ErrorKind::Refused && refused.to_string().contains("it is tagged a, b"), "{refused}");
    assert_eq!(place.store.refresh().unwrap().checkpoints().unwrap().len(), 2, "all or none");
    delete(&place.store, &NOBODY, &[plain, tagged], Some("why"), true, &()).unwrap();
    assert!(place.store.refresh().unwrap().checkpoints().unwrap().is_empty());
}
