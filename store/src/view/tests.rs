use std::{cell::Cell, collections::HashSet};

use super::*;
use crate::{
    OpenOptions, Store,
    event::{Actor, NewEvent},
    gc,
    id::{OpId, Ulid},
    journal::Entry,
    pack::PackInfo,
    testing::{TestStore, files},
};

mod index;

thread_local! {
    /// True if this thread is told the lengths of the journal's files from a cache, as a network filesystem may do.
    pub(super) static LENGTHS_ARE_CACHED: Cell<bool> = const { Cell::new(false) };
}

/// Does something on this thread while no file seems to grow.
pub(crate) fn with_cached_lengths<T>(work: impl FnOnce() -> T) -> T {
    LENGTHS_ARE_CACHED.set(true);
    let done = work();
    LENGTHS_ARE_CACHED.set(false);
    done
}

fn ids<T>(found: impl IntoIterator<Item = T>, id: impl Fn(T) -> Ulid) -> Vec<Ulid> {
    found.into_iter().map(id).collect()
}

/// Every object is found where the view places it.
fn assert_finds_its_objects(view: &View) {
    let mut keys = Vec::new();
    view.each_object(|key, at| {
        assert_eq!(view.locate_key(&key).unwrap(), Some(at));
        keys.push(key);
        Ok(())
    })
    .unwrap();
    keys.sort_unstable();
    assert_eq!(view.object_keys().unwrap(), keys);
    assert!(!keys.is_empty());
    if view.tail_records() as u64 == view.end().sequence {
        assert_eq!(view.objects_estimate().unwrap(), keys.len() as u64);
    }
}

#[test]
fn every_question_has_one_answer_however_much_the_index_has_taken_in() {
    let test = TestStore::new();
    let commit = |session: &str, seed| test.commit(test.draft(session, &files(seed, 6))).unwrap();
    let append = |event: NewEvent| test.store.append_events(&[event], &()).unwrap();
    let event = |kind: &str, subject: String| NewEvent::new(kind, subject, Actor::program("test"));
    let (a, b, c) = (commit("one", 1), commit("one", 2), commit("two", 3));
    append(event("run.started", "run".into()).with("session", "one"));
    append(event("checkpoint.tagged", b.to_string()).with("tag", "stable"));
    // All in the tail, some in RocksDB, all in it, and none of it of use.
    let expect = |wanted: &[Ulid], of_one: &[Ulid], gone: &[Ulid]| {
        let none = Store::open_without_index(test.store.path(), &OpenOptions::default()).unwrap();
        for view in [test.store.refresh().unwrap(), test.open().view(), none.view()] {
            assert_eq!(ids(view.checkpoints().unwrap(), |c| c.record.id), wanted);
            assert_eq!(ids(view.outlines().unwrap(), |outline| outline.id), wanted);
            let back = wanted.iter().rev().copied().collect::<Vec<_>>();
            assert_eq!(ids(view.newest_first().unwrap(), |c| c.unwrap().record.id), back);
            assert_eq!(view.oldest_of("one").unwrap().map(|c| c.record.id), of_one.first().copied());
            assert_eq!(view.oldest_of("two").unwrap().map(|c| c.record.id), Some(c));
            assert!(view.oldest_of("three").unwrap().is_none());
            let of = |session: &str| ids(view.newest_first_of(session).unwrap(), |c| c.unwrap().record.id);
            let one_back = of_one.iter().rev().copied().collect::<Vec<_>>();
            // Of a session whose id begins another one's, nothing else is found.
            assert_eq!((of("one"), of("two"), of("on"), of("three")), (one_back, vec![c], vec![], vec![]));
            assert_eq!(view.head("one").unwrap().map(|c| c.record.id), of_one.last().copied());
            assert!(view.head("three").unwrap().is_none());
            wanted.iter().for_each(|id| assert_eq!(view.checkpoint(*id).unwrap().unwrap().record.id, *id));
            gone.iter().for_each(|id| assert!(view.checkpoint(*id).unwrap().is_none()));
            assert_eq!(view.last_event().unwrap().map(|hash| hash.len()), Some(64));
            assert_finds_its_objects(&view);
            assert!(!view.lacks_records() && view.torn_bytes == 0 && !view.is_stale().unwrap());
        }
    };
    expect(&[a, b, c], &[a, b], &[]);
    test.store.absorb().unwrap();
    expect(&[a, b, c], &[a, b], &[]);
    let d = commit("one", 4);
    expect(&[a, b, c, d], &[a, b, d], &[]);
    [a, d].into_iter().for_each(|id| test.delete(id));
    expect(&[b, c], &[b], &[a, d]);
    gc::run(&test.store, &gc::GcOptions::default(), &()).unwrap();
    expect(&[b, c], &[b], &[a, d]);
    test.store.absorb().unwrap();
    expect(&[b, c], &[b], &[a, d]);
    assert_eq!(test.store.view().tail_records(), 0);
}

#[test]
fn a_long_tail_and_a_heavy_one_are_taken_in() {
    let test = TestStore::new();
    test.store.absorb().unwrap();
    let append = |entries: &[Entry]| {
        let lock = test.store.lock(&()).unwrap();
        test.store.append(&lock, entries).unwrap();
    };
    let opened = |with_index: bool| match with_index {
        true => Store::open_with_index(test.store.path(), &OpenOptions::default()).unwrap().view(),
        false => Store::open_without_index(test.store.path(), &OpenOptions::default()).unwrap().view(),
    };
    let nothing = Entry::Dropped { packs: Vec::new() };
    for (records, wants, is_long) in
        [(TAIL_RECORDS - 1, false, false), (1, true, false), (TAIL_RECORDS - 1, true, false), (1, true, true)]
    {
        append(&vec![nothing.clone(); records]);
        let view = opened(true);
        assert_eq!((view.wants_absorbing(), view.has_long_tail()), (wants, is_long), "{}", view.tail_records());
        // Without RocksDB, everything is the tail.
        assert!(!opened(false).has_long_tail());
    }
    assert!(Store::open_without_index(test.store.path(), &OpenOptions::default()).unwrap().view().wants_absorbing());
    test.store.absorb().unwrap();
    assert!(!opened(true).wants_absorbing());
    for (bytes, wants) in [(TAIL_BYTES - 1, false), (1, true)] {
        let op = OpId::generate();
        let pack = PackInfo { id: PackId::new(op, 0), bytes, digest: String::new() };
        append(&[Entry::Condemn { op, added: vec![pack], condemned: Vec::new(), waits_for: Vec::new() }]);
        assert_eq!(opened(true).wants_absorbing(), wants);
    }
}

#[test]
fn packs_that_are_condemned_dropped_or_unknown_are_lost() {
    let test = TestStore::new();
    // The packs go by themselves.
    test.builds.set(false);
    let (a, b) = (test.checkpoint(&files(1, 6)), test.checkpoint(&files(2, 6)));
    let packs: HashSet<PackId> = test.store.view().packs().unwrap().into_keys().collect();
    assert_eq!((packs.len(), test.store.view().lost(&packs).unwrap().len()), (2, 0));
    assert!(test.store.view().lost(&HashSet::new()).unwrap().is_empty());
    let unknown = PackId::new(OpId::generate(), 0);
    assert_eq!(test.store.view().lost(&[unknown].into()).unwrap(), [unknown]);
    // A writer keeps the bytes of what is condemned now.
    let writer = test.another();
    let draft = writer.draft("test", &files(3, 6));
    let options = gc::GcOptions::below(70);
    test.delete(a);
    gc::run(&test.store, &options, &()).unwrap();
    for _ in 0..2 {
        let view = test.store.refresh().unwrap();
        let condemned: Vec<PackId> =
            view.packs().unwrap().into_iter().filter(|(_, state)| state.condemned.is_some()).map(|(id, _)| id).collect();
        assert_eq!((condemned.len(), view.lost(&packs).unwrap()), (1, condemned.clone()));
        assert_eq!(view.packs().unwrap()[&condemned[0]].condemned, Some(vec![draft.pin.op]));
        test.store.absorb().unwrap();
    }
    drop(draft);
    gc::run(&test.store, &options, &()).unwrap();
    for _ in 0..2 {
        let view = test.store.refresh().unwrap();
        // The other one, and what was copied.
        assert_eq!((view.packs().unwrap().len(), view.lost(&packs).unwrap().len()), (2, 1));
        test.store.absorb().unwrap();
    }
    assert_eq!(test.ids(), [b]);
}

/// As a release would do it that can read the record.
fn delete_unread(test: &TestStore, id: crate::id::Ulid) {
    let lock = test.store.lock(&()).unwrap();
    let event = crate::event::Event {
        id: crate::id::Ulid::generate(),
        at: crate::clock::timestamp(),
        host: "h".into(),
        schema: 1,
        kind: crate::event::kind::CHECKPOINT_DELETED.into(),
        subject: id.to_string(),
        actor: Default::default(),
        epoch: 0,
        idempotency_key: None,
        previous: test.store.refresh().unwrap().last_event().unwrap(),
        data: Default::default(),
        extra: Default::default(),
    };
    test.store.append(&lock, &[Entry::Event(Box::new(event))]).unwrap();
}

#[test]
fn a_record_that_does_not_decode_hides_one_checkpoint_and_nothing_else() {
    use crate::{check, gc};
    for (old, new) in [(r#""schema":1"#, r#""schema":2"#), (r#""depth":1"#, r#""depth":"one""#)] {
        let test = TestStore::new();
        let kept = test.checkpoint(&files(1, 9));
        let hidden = test.checkpoint_with(&files(2, 9), |record| record.replace(old, new));
        let deleted = test.checkpoint(&files(3, 9));
        let last = test.checkpoint(&files(4, 9));
        test.delete(deleted);
        for is_absorbed in [false, true] {
            if is_absorbed {
                test.store.absorb().unwrap();
            }
            let store = test.open();
            assert_eq!(test.ids(), [kept, last]);
            assert_eq!(store.view().outlines().unwrap().len(), 2);
            assert_eq!(store.view().head("test").unwrap().unwrap().record.id, last);
            let unreadable = store.view().unreadable().unwrap();
            assert_eq!(unreadable.iter().map(|one| one.id).collect::<Vec<_>>(), [Some(hidden)]);
            let said = unreadable[0].to_string();
            assert!(said.contains(&hidden.to_string()) && said.contains("newer parhelia"), "{said}");
            let report = check::run(test.store.layout(), &check::CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
            let found: Vec<_> = report.findings.iter().map(|found| (found.kind, found.touches[0].checkpoint)).collect();
            assert_eq!(found, [(check::FindingKind::Record, hidden)], "{:?}", report.findings);
            // What it needs cannot be told from garbage.
            let collected = gc::run(&store, &gc::GcOptions::default(), &()).unwrap();
            assert_eq!((collected.condemned_packs, collected.dropped_packs), (0, 0));
        }
        delete_unread(&test, hidden);
        for is_absorbed in [false, true] {
            if is_absorbed {
                test.store.absorb().unwrap();
            }
            assert_eq!(test.open().view().unreadable().unwrap(), []);
            assert!(check::run(test.store.layout(), &Default::default(), &()).unwrap().is_clean());
        }
        let collected = gc::run(&test.open(), &gc::GcOptions::default(), &()).unwrap();
        assert!(collected.dropped_packs > 0, "{collected:?}");
        assert_eq!(test.content(&test.get(kept)).unwrap(), files(1, 9));
    }
}

#[test]
fn an_event_of_another_schema_is_named_and_nothing_else_is_lost() {
    use crate::check;
    let test = TestStore::new();
    let id = test.checkpoint(&files(1, 9));
    let event = NewEvent::new("note", "n", crate::event::Actor::program("test"));
    test.store.append_events(std::slice::from_ref(&event), &()).unwrap();
    let lock = test.store.lock(&()).unwrap();
    let Entry::Event(mut later) = Journal::of(test.store.layout()).read(&Position::start()).unwrap().records.pop().unwrap().entry
    else {
        panic!("no event")
    };
    (later.schema, later.kind, later.subject) = (2, crate::event::kind::CHECKPOINT_DELETED.into(), id.to_string());
    later.previous = test.store.view().last_event().unwrap();
    test.store.append(&lock, &[Entry::Event(later)]).unwrap();
    drop(lock);
    // It is a link of the chain all the same.
    test.store.append_events(&[event], &()).unwrap();
    for is_absorbed in [false, true] {
        if is_absorbed {
            test.store.absorb().unwrap();
        }
        assert_eq!(test.ids(), [id]);
        let report = check::run(test.store.layout(), &Default::default(), &()).unwrap();
        let found: Vec<_> = report.findings.iter().map(|found| found.kind).collect();
        assert_eq!(found, [check::FindingKind::Record], "{:?}", report.findings);
    }
}
