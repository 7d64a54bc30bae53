//! The lease of a run. Whether a run of this machine lives is asked of its processes; another machine, which shares the store, can only go
//! by when it was heard last.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{
    Store, clock,
    event::{Actor, NewEvent, kind},
    projection::Lease,
};

use super::find::Current;
use crate::error::Result;
use parhelia_agent::process::host_name;

/// The time that a lease lasts for a run that one of our processes watches.
pub const WATCHED: Duration = Duration::from_secs(180);
/// The time between two renewals by that process.
pub const RENEWAL: Duration = Duration::from_secs(60);
/// The time that a lease lasts for a run known from its hooks alone, which are silent while the agent waits for its user.
pub const HOOKED: Duration = Duration::from_secs(3600);

/// The event of taking or renewing a run's lease; without an epoch, that of the session as it is.
pub(super) fn taken(run: &str, epoch: Option<u64>, holds: Duration, actor: Actor) -> NewEvent {
    let event = NewEvent::new(kind::RUN_LEASE, run, actor)
        .with("holder", format!("{}/{}", host_name(), std::process::id()))
        .with("renewed", clock::timestamp().to_string())
        .with("ttl_seconds", holds.as_secs());
    NewEvent { epoch, ..event }
}

/// Renews the lease of a run. Fails with [`parhelia_store::Error::Fenced`] where a newer run has taken over.
pub fn renew(store: &Store, current: &Current, holds: Duration, actor: Actor) -> Result<()> {
    store.append_events(&[taken(&current.run, Some(current.epoch), holds, actor)], &())?;
    Ok(())
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
