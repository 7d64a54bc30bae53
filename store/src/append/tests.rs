use super::*;
use crate::{
    event::Actor,
    testing::{Notices, TestStore, files},
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
fn an_event_has_the_epoch_of_its_session_and_costs_no_update_of_the_index() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 3));
    test.store.absorb().unwrap();
    let event = |kind: &str, subject: &str| NewEvent::new(kind, subject, Actor::program("test"));
    let append = |event: NewEvent| test.store.append_events(&[event], &()).unwrap().remove(0).event.epoch;
    assert_eq!(append(event(kind::RUN_STARTED, "r1").with("session", "test")), 1);
    assert_eq!(append(event(kind::RUN_STARTED, "r2").with("session", "test")), 2);
    assert_eq!(append(event(kind::SESSION_CHANGED, "test").with("name", "new")), 2);
    assert_eq!(append(event(kind::RUN_CHANGED, "r2").with("pid", 7)), 2);
    assert_eq!(append(event("note", "n")), 0);
    assert_eq!(test.open().view().tail_records(), 5);
    let sequences = |after| test.store.events_after(after).unwrap().into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    let all = sequences(0);
    assert_eq!(sequences(all[2]), all[3..]);
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

#[test]
fn a_head_is_a_checkpoint_of_its_session() {
    let test = TestStore::new();
    let draft = test.draft("other", &files(1, 3));
    let other = test.commit(draft).unwrap();
    let (first, last) = (test.checkpoint(&files(2, 3)), test.checkpoint(&files(3, 3)));
    let head = |id: Ulid| {
        let event = NewEvent::new(kind::SESSION_HEAD, "test", Actor::program("test"));
        test.store.append_events(&[event.with("checkpoint", id.to_string())], &())
    };
    for none in [other, Ulid::generate()] {
        assert!(matches!(head(none), Err(Error::NoCheckpoint { .. })));
        assert_eq!(test.store.refresh().unwrap().head("test").unwrap().unwrap().record.id, last);
    }
    head(first).unwrap();
    assert_eq!(test.store.refresh().unwrap().head("test").unwrap().unwrap().record.id, first);
}
