use super::*;
use crate::{
    check,
    event::Actor,
    testing::{Notices, TestStore},
    view::tests::with_cached_lengths,
};

#[test]
fn an_event_that_is_recorded_is_no_failure_though_the_index_is_not_updated() {
    let test = TestStore::new();
    // The index's lock cannot be opened.
    let lock = test.store.path().join("lock.index");
    let _ = std::fs::remove_file(&lock);
    std::fs::create_dir(&lock).unwrap();
    let event = |i: u32| NewEvent::new("note", i.to_string(), Actor::program("test"));
    let (events, notices): (Vec<NewEvent>, Notices) = ((0..70).map(event).collect(), Notices::default());
    let appended = test.store.append_events(&events, &notices).unwrap();
    assert_eq!(appended.len(), 70);
    let said = notices.0.into_inner().unwrap();
    assert!(said.len() == 1 && said[0].contains("recorded, but the index was not updated"), "{said:?}");
    assert_eq!(test.open().events_after(0).unwrap().len(), 70);
    test.store.append_events(&[event(70)], &()).unwrap();
    assert_eq!(test.store.events_after(0).unwrap().len(), 71);
}

#[test]
fn what_another_process_has_appended_is_known_though_no_file_seems_to_have_grown() {
    let test = TestStore::new();
    let note = NewEvent::new("note", "1".to_owned(), Actor::program("test"));
    let note = NewEvent { idempotency_key: Some("once".into()), ..note };
    test.another().store.append_events(std::slice::from_ref(&note), &()).unwrap();
    let again = with_cached_lengths(|| test.store.append_events(&[note], &())).unwrap();
    assert!(again[0].existed);
    assert_eq!(test.open().events_after(0).unwrap().len(), 1);
}

#[test]
fn events_of_one_append_are_one_chain() {
    let test = TestStore::new();
    let event = |i: u32| NewEvent::new("note", i.to_string(), Actor::program("test"));
    test.store.append_events(&[event(0), event(1), event(2)], &()).unwrap();
    test.store.append_events(&[event(3)], &()).unwrap();
    let records = Journal::of(test.store.layout()).read(&Position::start()).unwrap().records;
    let mut before = None;
    for logged in records {
        let Entry::Event(event) = logged.entry else { continue };
        assert_eq!(event.previous, before, "{}", event.subject);
        before = logged.event_hash;
    }
    assert!(before.is_some());
}

fn hash_of(event: &Event) -> String {
    crate::testing::ids().event(&encode_entry(&Entry::Event(Box::new(event.clone())), 0).unwrap())
}

#[test]
fn a_broken_chain_of_events_is_found() {
    let test = TestStore::new();
    let event = |subject: &str| NewEvent::new("a.b", subject, Actor::program("test"));
    test.store.append_events(&[event("1")], &()).unwrap();
    test.store.append_events(&[event("2")], &()).unwrap();
    // A third event that passes over the second one, in a journal that is whole otherwise.
    let (_, first) = test.store.events_after(0).unwrap().remove(0);
    let forged = Event { previous: Some(hash_of(&first)), ..first };
    let lock = test.store.lock(&()).unwrap();
    test.store.append(&lock, &[Entry::Event(Box::new(forged))]).unwrap();
    drop(lock);
    let report = check::run(test.store.layout(), &check::CheckOptions::default(), &()).unwrap();
    assert!(report.findings.iter().any(|f| f.message.contains("chain of events")), "{:?}", report.findings);
}
