use super::{Checkpoint, Outline, Part, Record};
use crate::{
    Store,
    delete::delete_checkpoints,
    testing::{TestStore, files},
};

#[test]
fn values_of_a_later_release_are_no_reason_to_read_nothing() {
    let test = TestStore::new();
    let sealed = test.get(test.checkpoint(&files(1, 2))).sealed;
    let later = sealed.replace(r#""trigger":"manual""#, r#""trigger":"mood""#);
    let later = later.replace(r#""consistency":"unknown""#, r#""consistency":"trance""#);
    let later = later.replace(r#""parts":{"#, r#""parts":{"git":{"status":"deferred","until":1},"#);
    let read = Checkpoint::decode(1, later.clone(), &crate::testing::ids()).unwrap();
    assert_eq!((read.record.trigger.name(), read.record.consistency.name()), ("mood", "trance"));
    assert_eq!((&read.record.parts["git"], read.sealed), (&Part::Unknown, later.clone()));
    assert_eq!(Outline::decode(1, later.as_bytes()).unwrap().trigger.name(), "mood");
}

#[test]
fn a_record_of_another_schema_is_refused() {
    let test = TestStore::new();
    let sealed = test.get(test.checkpoint(&files(1, 2))).sealed;
    for other in [r#""schema":0"#, r#""schema":2"#, r#""schema":4294967297"#, r#""schema":"1""#, r#""other":1"#] {
        let other = sealed.replace(r#""schema":1"#, other);
        assert!(Record::decode(&other).is_err() && Outline::decode(1, other.as_bytes()).is_err(), "{other}");
    }
}

#[test]
fn an_outline_says_whether_a_part_has_failed() {
    let test = TestStore::new();
    let sealed = test.get(test.checkpoint(&files(1, 2))).sealed;
    let is_complete = |sealed: &str| Outline::decode(1, sealed.as_bytes()).unwrap().is_complete();
    assert!(is_complete(&sealed));
    assert!(!is_complete(&sealed.replace(r#""parts":{"#, r#""parts":{"git":{"status":"failed","error":"x"},"#)));
}

#[test]
fn outlines_are_the_same_from_the_journal_and_from_the_view() {
    let shown = |store: &Store| -> Vec<String> {
        store.refresh().unwrap().outlines().unwrap().iter().map(|outline| format!("{outline:?}")).collect()
    };
    let test = TestStore::new();
    let ids: Vec<_> = (0..3).map(|seed| test.checkpoint(&files(seed, 2))).collect();
    let from_journal = shown(&test.store);
    test.store.absorb().unwrap();
    assert_eq!(shown(&test.open()), from_journal);
    assert!(from_journal.iter().zip(&ids).all(|(outline, id)| outline.contains(&format!("{id:?}"))));
    delete_checkpoints(&test.store, &ids[1..2], None, &()).unwrap();
    assert_eq!(shown(&test.store), [from_journal[0].clone(), from_journal[2].clone()]);
}

#[test]
fn a_record_of_another_machine_is_read_as_its_own_and_its_session_bears_the_machine() {
    let test = TestStore::new();
    let own = test.get(test.checkpoint(&files(1, 2)));
    let stored = super::of_machine("0123456789abcdef", &own.sealed);
    let read = Checkpoint::decode(1, stored.clone(), &crate::testing::ids()).unwrap();
    assert_eq!((&read.sealed, read.digest, read.machine.as_deref()), (&own.sealed, own.digest, Some("0123456789abcdef")));
    assert_eq!((read.record.session.clone(), &*read.stored()), (format!("{}+01234567", own.record.session), stored.as_str()));
    assert_eq!(Outline::decode(1, stored.as_bytes()).unwrap().session, read.record.session);
    let nested = "@a\n".repeat(100_000) + &own.sealed;
    for bad in ["@", "@no line", "@\n", "@a\n@b\n{}", "@é", nested.as_str()] {
        assert!(Record::decode(bad).is_err() && Outline::decode(1, bad.as_bytes()).is_err());
        assert!(Checkpoint::decode(1, bad.to_owned(), &crate::testing::ids()).is_err());
    }
    assert!(Outline::decode(1, b"@\xff\n{}").is_err());
}
