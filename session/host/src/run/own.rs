//! The run that a caller belongs to, as the kernel shows it and as it says itself.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use parhelia_agent::process::{RUN_MARKER, boot_id, sees_all};
use parhelia_ledger::{EndKind, LedgerView as _, Run};
use parhelia_store::{Store, clock};

use super::{is_above, is_inside, is_silent, roots_of};
use crate::{Host, Result};

/// The run that the caller belongs to, by its environment.
pub fn own_run(store: &Store, host: &dyn Host) -> Result<Option<Run>> {
    let Some(id) = host.variable(RUN_MARKER).and_then(|id| id.into_string().ok()).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    Ok(store.view().run(&id)?)
}

/// The run of whose agent the caller is a descendant, or says to be. A process that drops the marker from its environment still descends from
/// it. The marker of an open run is enough: the agent may have had another program start the caller, as a server of tmux does. That of a run that is over
/// is in many a person's shell, and counts only below the agent.
pub fn one_of(store: &Store, host: &dyn Host, runs: &BTreeMap<String, Run>) -> Result<Option<Run>> {
    let line = host.line();
    let descends = |run: &&Run| is_above(run, &line);
    if let Some(run) = runs.values().find(descends) {
        return Ok(Some(run.clone()));
    }
    Ok(own_run(store, host)?.filter(|run| run.is_open() || is_inside(run, host)))
}

/// The open run of whose agent the caller is a descendant, or says to be.
pub fn belongs_to(store: &Store, host: &dyn Host) -> Result<Option<Run>> {
    let mut runs = store.view().runs()?;
    runs.retain(|_, run| run.is_open());
    one_of(store, host, &runs)
}

/// True if a run is at work on this machine where this process cannot see who started it: outside of the container that it is in. A run in another
/// container of which nothing was heard since its lease ran out is none; of one outside of all containers, whoever is there sees whether it lives.
pub fn is_hidden(run: &Run) -> bool {
    let is_here = |boot: &str| boot_id().is_ok_and(|own| own == boot);
    let may_be = || roots_of(run).all().any(|root| !root.is_visible() && is_here(&root.boot_id));
    (run.is_open() && !is_silent(run) || may_be_left(run)) && !sees_all() && may_be()
}

/// So long an agent may be alive that has said itself that its session ends, which nobody saw.
const LEFT_HOURS: i64 = 1;

/// True of a run that is over by its agent's word alone.
fn may_be_left(run: &Run) -> bool {
    let is_said = run.ending().is_some_and(|end| end.kind == EndKind::SessionEnd);
    let since = SignedDuration::from_hours(LEFT_HOURS);
    is_said && run.ended_at.is_some_and(|ended| clock::timestamp().duration_since(ended) < since)
}
