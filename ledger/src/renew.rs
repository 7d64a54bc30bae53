//! Renewing a lease.

use parhelia_store::{Error, Result, Store};

use crate::{
    lease::Lease,
    lease_file::{file, write},
    view::LedgerView as _,
};

/// Renews the lease of a run in an epoch. One that has ended has none, and needs none. Fails with [`Error::NoRun`], and with
/// [`Error::Fenced`] where a newer run has taken over.
pub fn renew(store: &Store, run: &str, epoch: u64, lease: &Lease) -> Result<()> {
    store.check_writable()?;
    let view = store.refresh()?;
    let found = view.run(run)?.ok_or_else(|| Error::NoRun { run: run.to_owned() })?;
    let current = view.session(&found.session)?.map_or(0, |session| session.epoch);
    if epoch < current {
        return Err(Error::Fenced { action: "renewing a lease".into(), session: found.session, epoch, current });
    }
    match file(store.layout(), run).filter(|_| found.is_open()) {
        Some(path) => write(store.layout(), &path, lease),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use parhelia_store::{
        clock,
        event::{Actor, NewEvent},
        files, gc,
    };

    use crate::{kind, testing::TestStore};

    fn lease(holder: &str) -> Lease {
        Lease { holder: holder.into(), renewed: Some(clock::timestamp()), ttl_seconds: 90, said: None }
    }

    fn begun(test: &TestStore, run: &str) -> u64 {
        let new = |kind, subject| NewEvent::new(kind, subject, Actor::default());
        let events = [new(kind::RUN_STARTED, run).with("session", "s"), new(kind::RUN_LEASE, run).with("holder", "first")];
        let created = new(kind::SESSION_CREATED, "s");
        let created = test.store.view().session("s").unwrap().is_none().then_some(created);
        let events: Vec<NewEvent> = created.into_iter().chain(events).collect();
        test.store.append_events(&events, &()).unwrap().last().unwrap().event.epoch
    }

    #[test]
    fn renewals_are_seen_by_everyone_and_leave_the_journal_as_it_is() {
        let test = TestStore::new();
        let epoch = begun(&test, "r1");
        let other = test.open();
        let (end, of) =
            (test.store.view().end().sequence, |store: &Store| store.view().run("r1").unwrap().unwrap().lease.unwrap());
        assert_eq!(of(&other).holder, "first");
        for holder in ["a-rather-long-name-of-a-machine", "b"] {
            renew(&test.store, "r1", epoch, &lease(holder)).unwrap();
            assert_eq!(of(&other).holder, holder);
            assert_eq!(other.view().runs().unwrap()["r1"].lease.as_ref().unwrap().holder, holder);
        }
        assert_eq!(test.open().view().end().sequence, end);
        // What is no lease renews nothing.
        fs::write(test.store.layout().leases().join("r1.lease"), "{").unwrap();
        assert_eq!(of(&other).holder, "first");
        let long = Lease { said: Some("x".repeat(70_000).into()), ..lease("b") };
        assert!(renew(&test.store, "r1", epoch, &long).is_err());
        assert!(matches!(renew(&test.store, "r7", 1, &lease("b")), Err(Error::NoRun { .. })));
    }

    #[test]
    fn nobody_renews_what_a_newer_run_has_taken_over_or_what_is_over() {
        let test = TestStore::new();
        let first = begun(&test, "r1");
        renew(&test.store, "r1", first, &lease("a")).unwrap();
        let second = begun(&test, "r2");
        let late = renew(&test.store, "r1", first, &lease("a"));
        assert!(matches!(late, Err(Error::Fenced { epoch, current, .. }) if (epoch, current) == (first, second)), "{late:?}");
        renew(&test.store, "r2", second, &lease("b")).unwrap();
        let names = || files::list(&test.store.layout().leases()).unwrap().len();
        assert_eq!(names(), 2);
        let ended = |run: &str| NewEvent::new(kind::RUN_ENDED, run, Actor::default());
        test.store.append_events(&[ended("r1"), ended("r2")], &()).unwrap();
        renew(&test.store, "r2", second, &lease("b")).unwrap();
        assert_eq!(test.store.view().run("r2").unwrap().unwrap().lease, None);
        let open = begun(&test, "r3");
        renew(&test.store, "r3", open, &lease("c")).unwrap();
        gc::run(&test.store, &Default::default(), &()).unwrap();
        assert_eq!(files::list(&test.store.layout().leases()).unwrap(), [test.store.layout().leases().join("r3.lease")]);
    }
}
