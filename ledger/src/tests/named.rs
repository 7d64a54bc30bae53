use parhelia_store::{
    Error,
    event::{Actor, NewEvent},
};

use crate::{kind, testing::TestStore, view::LedgerView as _};

#[test]
fn a_session_is_named_by_its_id_or_by_a_name_that_it_alone_has() {
    let test = TestStore::new();
    let made = |id: &str, name: &str| {
        let event = NewEvent::new(kind::SESSION_CREATED, id, Actor::program("test"));
        test.store.append_events(&[event.with("name", name)], &()).unwrap();
    };
    made("s1", "first");
    made("s2", "both");
    made("s3", "both");
    made("s4", "s1");
    let named = |name: &str| test.store.refresh().unwrap().session_named(name).map(|session| session.id);
    for _ in 0..2 {
        assert_eq!(
            (named("s1").unwrap(), named("first").unwrap(), named("s3").unwrap()),
            ("s1".into(), "s1".into(), "s3".into())
        );
        assert!(matches!(named("both"), Err(Error::AmbiguousSession { candidates, .. }) if candidates == ["s2", "s3"]));
        assert!(matches!(named("none"), Err(Error::NoSession { session }) if session == "none"));
        test.store.absorb().unwrap();
    }
    // Of two with one name, the one that has not ended is meant.
    let ended = NewEvent::new(kind::SESSION_STATUS, "s3", Actor::program("test")).with("status", "ended");
    test.store.append_events(&[ended], &()).unwrap();
    assert_eq!(named("both").unwrap(), "s2");
    // A session that gets another name is known by that alone.
    let renamed = NewEvent::new(kind::SESSION_CHANGED, "s2", Actor::program("test")).with("name", "second");
    test.store.append_events(&[renamed], &()).unwrap();
    for _ in 0..2 {
        assert_eq!((named("both").unwrap(), named("second").unwrap()), ("s3".into(), "s2".into()));
        test.store.absorb().unwrap();
    }
}
