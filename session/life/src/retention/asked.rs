//! Retention that a person asks for, by rules of their own.

use parhelia_host::{Host, Observer, Result};
use parhelia_oversight::review;
use parhelia_store::{Store, clock, event::Actor};

use super::{Forecast, Policy, RetentionReport, forecast, prune};

impl Policy {
    /// The same as the rules that a person has given.
    pub fn as_asked(self) -> Self {
        Policy { thins_by_clock: true, ..self }
    }

    /// Has it keep so many newest checkpoints of a session. Somebody who asks for the last five wants five; as a default it only guards them.
    pub fn keeping(self, last: u64) -> Self {
        Policy { keep_last: last, only_kept: last > 0, ..self }
    }
}

/// Removes what a policy does not keep, for the caller.
pub fn prune_for(
    store: &Store,
    host: &dyn Host,
    policy: &Policy,
    session: Option<&str>,
    observer: &dyn Observer,
) -> Result<RetentionReport> {
    review::ensure_may_prune(store, host, false, observer)?;
    let actor = Actor { via: "retention".into(), ..host.actor() };
    prune(store, policy, session, &actor, clock::timestamp(), observer)
}

/// The report of a [`prune_for`] that changes nothing. Whoever may not remove does not get it.
pub fn forecast_for(
    store: &Store,
    host: &dyn Host,
    policy: &Policy,
    session: Option<&str>,
    observer: &dyn Observer,
) -> Result<Forecast> {
    review::ensure_may_prune(store, host, true, observer)?;
    forecast(store, policy, session, clock::timestamp(), observer)
}
