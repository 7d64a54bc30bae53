//! The lease of a run. Whether a run of this machine lives is asked of its processes; another machine, which shares the store, can only go
//! by when it was heard last.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parhelia_ledger::{Lease, LedgerView as _, kind};
use parhelia_store::{
    Store, clock,
    event::{Actor, NewEvent},
};

use serde_json::Value;

use super::current::Current;
use crate::{Result, RunRefusal};
use parhelia_agent::process::host_name;

/// The time that a lease lasts for a run that one of our processes watches.
pub const WATCHED: Duration = Duration::from_secs(90);
/// The time between two renewals by that process.
pub const RENEWAL: Duration = Duration::from_secs(30);
/// The time that a lease lasts for a run known from its hooks alone, which are silent while the agent waits for its user.
pub const HOOKED: Duration = Duration::from_secs(3600);

/// The event of taking a run's lease; without an epoch, that of the session as it is.
pub(super) fn taken(run: &str, epoch: Option<u64>, holds: Duration, actor: Actor) -> NewEvent {
    taken_by(&holder(), run, epoch, holds, actor)
}

/// The same, by a holder that is not this process.
pub(super) fn taken_by(holder: &str, run: &str, epoch: Option<u64>, holds: Duration, actor: Actor) -> NewEvent {
    let event = NewEvent::new(kind::RUN_LEASE, run, actor)
        .with("holder", holder)
        .with("renewed", clock::timestamp().to_string())
        .with("ttl_seconds", holds.as_secs());
    NewEvent { epoch, ..event }
}

/// Renews the lease of a run. Fails with [`parhelia_store::Error::Fenced`] where a newer run has taken over.
pub fn renew(store: &Store, current: &Current, holds: Duration) -> Result<()> {
    Ok(parhelia_ledger::renew_lease(store, &current.run, current.epoch, &now(holder(), holds))?)
}

/// This process, as the holder of a lease.
fn holder() -> String {
    format!("{}/{}", host_name(), std::process::id())
}

fn now(holder: String, holds: Duration) -> Lease {
    Lease { holder, renewed: Some(clock::timestamp()), ttl_seconds: holds.as_secs(), said: None }
}

/// Renews the lease of a run that this machine does not see, for [`WATCHED`], and keeps what its holder says of it. Fails where it has ended, and with
/// [`parhelia_store::Error::Fenced`] where a newer run has taken over.
pub fn heard(store: &Store, run: &str, epoch: u64, said: Value) -> Result<Lease> {
    let found = store.refresh()?.run(run)?.ok_or_else(|| parhelia_store::Error::NoRun { run: run.to_owned() })?;
    if !found.is_open() {
        return Err(RunRefusal::IsOver { run: found.id }.into());
    }
    let holder = found.lease.map(|lease| lease.holder).unwrap_or_default();
    let lease = Lease { said: Some(said), ..now(holder, WATCHED) };
    parhelia_ledger::renew_lease(store, run, epoch, &lease)?;
    Ok(lease)
}

/// Time at which a lease runs out; none of one whose renewal [is ahead](is_ahead).
pub(super) fn runs_out(lease: &Lease, now: Timestamp) -> Option<Timestamp> {
    lease.renewed.filter(|_| !is_ahead(lease, now))?.checked_add(holds(lease)).ok()
}

/// True if a lease was renewed further in the future than it holds: by a clock that was wrong, so that nothing tells how long ago that was.
/// A smaller difference may be one between the clocks of two machines.
pub(super) fn is_ahead(lease: &Lease, now: Timestamp) -> bool {
    lease.renewed.is_some_and(|renewed| renewed.duration_since(now) > holds(lease))
}

fn holds(lease: &Lease) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(lease.ttl_seconds).unwrap_or(i64::MAX))
}
