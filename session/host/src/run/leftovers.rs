//! Stopping what the dead runs of a session have left behind.

use std::{path::Path, time::Duration};

use parhelia_ledger::{LedgerView as _, Run, Session};
use parhelia_store::Store;

use super::life::{launcher_of, life, roots_in};
use crate::Result;
use parhelia_agent::process::{Identity, Owner, Process, StopReport, found, stop};

/// Processes that are proven to be of a dead run, for whoever starts an agent without us, which stops none.
pub fn left_behind(store: &Store, run: &Run, workspace: &Path) -> Result<Vec<Process>> {
    let mut found = found(&run.id, &roots_in(store, run)?, workspace)?;
    found.retain(|found| found.owner == Owner::Run);
    Ok(found)
}

/// Stops what is proven to be of a session's dead runs. What may change the workspace as well, and is not, is among the others; the
/// supervisor of a run and multiplexers are not, unless they carry the run's marker.
pub fn stop_leftovers(store: &Store, session: &Session, workspace: &Path, patience: Duration) -> Result<StopReport> {
    let view = store.refresh()?;
    let mut all = StopReport::default();
    for id in &session.runs {
        let Some(run) = view.run(id)?.filter(|run| !life(run).is_alive()) else { continue };
        let stopped = stop(&run.id, &roots_in(store, &run)?, workspace, patience)?;
        all.ended.extend(stopped.ended);
        // Another run's are left to that; of what nobody marked the last look tells.
        all.others.retain(|found| found.owner == Owner::Marked);
        all.others.extend(stopped.others.into_iter().filter(|found| found.owner != Owner::AnotherRun));
    }
    let is_same = |one: &Process, other: &Process| one.identity == other.identity;
    let launchers: Vec<Identity> = view.runs()?.values().filter_map(launcher_of).collect();
    let is_supervisor = |found: &Process| launchers.iter().any(|launcher| launcher.is_same(&found.identity));
    all.others.retain(|found| found.owner == Owner::Marked || !found.is_bystander() && !is_supervisor(found));
    let ended = &all.ended;
    all.others.retain(|found| !ended.iter().any(|(gone, _)| is_same(gone, found)));
    all.others.sort_by_key(|found| found.identity.process);
    all.others.dedup_by(|one, other| is_same(one, other));
    Ok(all)
}
