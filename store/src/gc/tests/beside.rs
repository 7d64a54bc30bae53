//! Readers, writers and other collections beside a collection.

use super::*;

#[test]
fn a_reader_that_was_open_before_catches_up() {
    let test = TestStore::new();
    let (a, b) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    let (reader, kept) = (test.open(), test.get(b));
    test.delete(a);
    run(&test.store, &everything(), &()).unwrap();
    assert_eq!(content_of(&reader, &kept).unwrap(), files(2, 9));
}

#[test]
fn a_running_writer_delays_the_unlinking_only() {
    let test = TestStore::new();
    let a = test.checkpoint(&files(1, 9));
    let writer = Pin::take(&test.store.layout().pins(), true, "test").unwrap();
    test.delete(a);
    let report = run(&test.store, &GcOptions::default(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.dropped_packs, report.waiting_packs), (1, 0, 1));
    assert_eq!(
        report.waiting_bytes,
        std::fs::read_dir(test.store.layout().packs()).unwrap().map(|p| p.unwrap().metadata().unwrap().len()).sum::<u64>()
    );
    assert_eq!(report.waits_for, [writer.op]);
    assert_eq!(pack_files(&test), 1);
    // A writer that began afterwards is not waited for.
    let later = Pin::take(&test.store.layout().pins(), true, "test").unwrap();
    drop(writer);
    let report = run(&test.store, &GcOptions::default(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.dropped_packs), (0, 1));
    assert_eq!(pack_files(&test), 0);
    drop(later);
}

#[test]
fn a_pin_keeps_a_deleted_checkpoint() {
    let test = TestStore::new();
    let kept = test.get(test.checkpoint(&files(1, 9)));
    test.checkpoint(&files(2, 9));
    let mut pin = Pin::take(&test.store.layout().pins(), false, "mount").unwrap();
    pin.add([kept.record.id]).unwrap();
    test.delete(kept.record.id);
    test.store.absorb().unwrap();
    let report = run(&test.store, &everything(), &()).unwrap();
    assert_eq!(report.plan.checkpoints, 2);
    assert_eq!(test.content(&kept).unwrap(), files(1, 9));
    drop(pin);
    run(&test.store, &everything(), &()).unwrap();
    assert!(test.content(&kept).is_err());
    assert_eq!(test.ids().len(), 1);
}

#[test]
fn what_another_gc_has_taken_since_is_not_missing() {
    let test = TestStore::new();
    let dead = test.checkpoint(&files(1, 9));
    test.delete(dead);
    let pin = Pin::take(&test.store.layout().pins(), true, "gc").unwrap();
    let mut survey = Survey::take(&test.store, &()).unwrap();
    let condemned = survey.choose(&GcOptions::no_repack()).delete;
    assert!(!condemned.is_empty());
    let other = test.another();
    let passing = other.checkpoint(&files(2, 9));
    other.delete(passing);
    run(&other.store, &everything(), &()).unwrap();
    let (mut numbers, mut room) = (0, Room::new(test.store.layout()));
    let added = NewPacks::new(&test.store, pin.op, &mut numbers);
    let published = publish::publish(&test.store, pin.op, &mut survey, condemned, added, &mut room, &());
    assert!(matches!(published, Err(Error::Overtaken { .. })), "{:?}", published.map(|p| p.condemned));
}

#[test]
fn a_commit_that_reuses_condemned_packs_is_refused() {
    let test = TestStore::new();
    let a = test.checkpoint(&files(1, 9));
    let draft = test.draft("test", &files(1, 9));
    test.delete(a);
    run(&test.store, &GcOptions::default(), &()).unwrap();
    assert!(matches!(test.commit(draft), Err(Error::Overtaken { .. })));
    let again = test.checkpoint(&files(1, 9));
    assert_eq!(test.content(&test.get(again)).unwrap(), files(1, 9));
}

#[test]
fn what_is_committed_between_survey_and_publication_is_spared() {
    for options in [GcOptions::no_repack(), everything()] {
        let test = TestStore::new();
        let a = test.checkpoint(&files(1, 12));
        test.checkpoint(&files(2, 12));
        test.delete(a);
        let pin = Pin::take(&test.store.layout().pins(), true, "gc").unwrap();
        let mut survey = Survey::take(&test.store, &()).unwrap();
        let mut choice = survey.choose(&options);
        let mut number = 0;
        let mut added = NewPacks::new(&test.store, pin.op, &mut number);
        repack::copy(&test.store, &mut survey, &mut choice, &mut added, &()).unwrap();
        // Now somebody commits what was dead.
        let draft = test.draft("test", &files(1, 12));
        let back = test.commit(draft).unwrap();
        let condemned = choice.delete.union(&choice.repack).copied().collect();
        publish::publish(&test.store, pin.op, &mut survey, condemned, added, &mut Room::new(test.store.layout()), &()).unwrap();
        sweep::sweep(&test.store, pin.op, &mut Room::new(test.store.layout()), &mut GcReport::default(), &()).unwrap();
        assert_eq!(test.content(&test.get(back)).unwrap(), files(1, 12));
        assert_eq!(content_of(&test.open(), &test.get(back)).unwrap(), files(1, 12));
    }
}

#[test]
fn the_writer_lock_is_free_while_the_index_is_brought_up_to_date() {
    /// Tries to take the writer lock whenever something is said.
    struct Looks(std::path::PathBuf, std::sync::Mutex<Vec<(String, bool)>>);
    impl Progress for Looks {
        fn notice(&self, text: &str) {
            let is_free = crate::lock::WriterLock::take(&self.0, std::time::Duration::ZERO, &()).is_ok();
            self.1.lock().unwrap().push((text.to_owned(), is_free));
        }
    }
    let test = TestStore::new();
    let dead = test.checkpoint(&files(1, 9));
    test.checkpoint(&files(2, 9));
    test.delete(dead);
    // The index's lock cannot be opened, which is said where the index would be brought up to date.
    let lock = test.store.path().join("lock.index");
    let _ = std::fs::remove_file(&lock);
    std::fs::create_dir(&lock).unwrap();
    let looks = Looks(test.store.path().to_owned(), Default::default());
    assert!(run(&test.store, &everything(), &looks).unwrap().condemned_packs > 0);
    let said = looks.1.into_inner().unwrap();
    assert!(!said.is_empty() && said.iter().all(|(text, is_free)| *is_free && text.contains("up to date later")), "{said:?}");
}

#[test]
fn a_pin_that_came_too_late_does_not_stop_gc() {
    let test = TestStore::new();
    let (late, kept) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    test.delete(late);
    run(&test.store, &everything(), &()).unwrap();
    let mut pin = Pin::take(&test.store.layout().pins(), false, "mount").unwrap();
    pin.add([late]).unwrap();
    let other = test.checkpoint(&files(3, 9));
    test.delete(other);
    let report = run(&test.store, &everything(), &()).unwrap();
    assert_eq!((report.plan.checkpoints, report.dropped_packs), (1, 1));
    assert_eq!(test.content(&test.get(kept)).unwrap(), files(2, 9));
}

#[test]
fn creators_deleters_readers_and_gc_at_once() {
    let test = TestStore::new();
    let until = std::time::Instant::now()
        + std::time::Duration::from_secs(std::env::var("PARHELIA_STRESS_SECONDS").map_or(4, |s| s.parse().unwrap()));
    let busy = || std::time::Instant::now() < until;
    let tests: Vec<TestStore> = (0..6).map(|_| test.another()).collect();
    std::thread::scope(|scope| {
        for (n, own) in tests.into_iter().enumerate() {
            let work = move || {
                let mut kept: Vec<(Ulid, Files)> = Vec::new();
                for round in (n as u64).. {
                    if !busy() {
                        return;
                    }
                    if n < 2 {
                        match run(&own.store, &everything(), &()) {
                            Ok(_) | Err(Error::Overtaken { .. }) => continue,
                            Err(e) => panic!("gc: {e}"),
                        }
                    }
                    own.cut.set(if round % 2 == 0 { 1000 } else { 2000 });
                    let files = files(round % 5, 8);
                    let draft = own.draft("test", &files);
                    match own.commit(draft) {
                        Ok(id) => kept.push((id, files)),
                        Err(Error::Overtaken { .. }) => {}
                        Err(e) => panic!("commit: {e}"),
                    }
                    if kept.len() > 3 {
                        let (id, files) = kept.remove((round % 3) as usize);
                        assert_eq!(own.content(&own.get(id)).unwrap(), files);
                        own.delete(id);
                    }
                }
            };
            scope.spawn(work);
        }
    });
    run(&test.store, &everything(), &()).unwrap();
    for checkpoint in test.store.refresh().unwrap().checkpoints().unwrap() {
        assert_eq!(test.content(checkpoint).unwrap().len(), 8);
    }
    let report =
        crate::check::run(test.store.layout(), &crate::check::CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn gc_and_who_reads_beside_it_let_go_of_what_is_removed() {
    let test = TestStore::new();
    let gone = test.checkpoint(&files(1, 10));
    let reader = test.another();
    for each in [&test, &reader] {
        each.content(&each.get(gone)).unwrap();
    }
    let deleted = || {
        let packs = test.store.layout().packs();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        open.filter(|file| file.starts_with(&packs) && file.to_string_lossy().ends_with(" (deleted)")).count()
    };
    test.delete(gone);
    run(&test.store, &everything(), &()).unwrap();
    assert!(deleted() > 0);
    reader.store.close_removed_packs();
    assert_eq!(deleted(), 0);
}
