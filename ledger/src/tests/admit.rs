use parhelia_store::{
    Error,
    event::{Actor, NewEvent},
};
use ulid::Ulid;

use crate::{kind, testing::TestStore};

#[test]
fn an_event_has_the_epoch_of_its_session_and_costs_no_update_of_the_index() {
    let test = TestStore::new();
    test.checkpoint(1);
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
fn a_head_is_a_checkpoint_of_its_session() {
    let test = TestStore::new();
    let other = test.checkpoint_of("other", 1);
    let (first, last) = (test.checkpoint(2), test.checkpoint(3));
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
