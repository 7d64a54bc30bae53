//! Checks of the whole store that nobody asked for: a share of its data each day, and what was found.

use parhelia_store::name::step::Step;
use std::collections::HashMap;

use jiff::Timestamp;
use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    Store,
    check::{self, CheckOptions, CheckReport, LastCheck},
    clock,
    event::{Actor, NewEvent},
    id::Ulid,
    progress::Progress,
    record::Checkpoint,
};

use crate::verification;
use parhelia_host::Result;

/// Two shares are read at least so far apart, in seconds: somewhat less than a day, as nobody is as punctual.
const APART_SECONDS: i64 = 22 * 3600;

/// The last check, by whomever.
pub fn last(store: &Store) -> Option<LastCheck> {
    check::last(store.layout())
}

/// True if something was done less than a day ago. A clock that was set back is no reason to wait.
fn is_recent(at: Timestamp) -> bool {
    (0..APART_SECONDS).contains(&clock::timestamp().duration_since(at).as_secs())
}

/// Checks the store and reads the next share of its data, unless the last one was read today. Records what was found.
pub fn share(store: &Store, percent: u64, actor: &Actor, progress: &dyn Progress) -> Result<Option<CheckReport>> {
    let was_read = last(store).is_some_and(|last| last.read_data() && is_recent(last.at));
    if percent == 0 || was_read {
        return Ok(None);
    }
    run(store, Some(u8::try_from(percent.min(100)).unwrap_or(100)), actor, progress).map(Some)
}

/// Checks the store without reading data, because something has come upon damage, unless the findings of today tell of some. Records what was
/// found.
pub fn of_damage(store: &Store, actor: &Actor, progress: &dyn Progress) -> Result<Option<CheckReport>> {
    match last(store).is_some_and(|last| last.findings > 0 && is_recent(last.found_at())) {
        true => Ok(None),
        false => run(store, None, actor, progress).map(Some),
    }
}

fn run(store: &Store, read_data_percent: Option<u8>, actor: &Actor, progress: &dyn Progress) -> Result<CheckReport> {
    let mut report = check::run(store.layout(), &CheckOptions { read_data_percent }, progress)?;
    if let Some(younger) = store.younger() {
        report.add_older(younger);
    }
    let event = NewEvent::new(kind::STORE_CHECKED, "store", actor.clone())
        .with("percent", read_data_percent.unwrap_or(0))
        .with("bytes_read", report.bytes_read)
        .with("findings", report.findings_count())
        .with("ok", report.is_clean());
    verification::record(store, &[event], progress);
    note_checkpoints(store, &report, read_data_percent == Some(100), actor, progress);
    Ok(report)
}

/// Records of each checkpoint that it is damaged, as a check found, unless that is its last verification's result already; and that it is whole, if it
/// was damaged before and the check has read all data. Nothing is recorded in a store whose journal is damaged or older than it was.
pub fn note_checkpoints(store: &Store, report: &CheckReport, read_all: bool, actor: &Actor, progress: &dyn Progress) {
    let view = store.view();
    if view.damage().is_some()
        || view.lacks_records()
        || store.younger().is_some()
        || report.hurt.is_empty() && !(read_all && report.is_clean())
    {
        return;
    }
    let hurt: HashMap<Ulid, u64> = report.hurt.iter().map(|hurt| (hurt.checkpoint, hurt.paths)).collect();
    let was_ok = |id| view.marks(id).ok().and_then(|marks| marks.verification).map(|verification| verification.ok);
    let event = |checkpoint: &Checkpoint| {
        let id = checkpoint.record.id;
        let paths = hurt.get(&id).copied();
        let is_new = match was_ok(id) {
            Some(was_ok) => was_ok == paths.is_some() && (paths.is_some() || read_all),
            None => paths.is_some(),
        };
        let event = NewEvent::new(kind::CHECKPOINT_VERIFIED, id.to_string(), actor.clone());
        is_new.then(|| event.with("level", "index").with("ok", paths.is_none()).with("problems", paths.unwrap_or(0)))
    };
    let events: Vec<NewEvent> = view.checkpoints().unwrap_or_default().iter().filter_map(event).collect();
    if !events.is_empty() {
        verification::record(store, &events, progress);
    }
}

/// The sentence that warns of what was found last.
pub fn warning(last: &LastCheck) -> Option<String> {
    let (at, found) = (last.found_at().strftime("%Y-%m-%d"), last.findings);
    let problems = if found == 1 { "1 problem was".to_owned() } else { format!("{found} problems were") };
    (found > 0).then(|| format!("{problems} found in the store on {at}; run {}", Step::Check))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parhelia_store::OpenOptions;

    #[test]
    fn a_share_is_read_once_a_day_and_its_result_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let store = parhelia_ledger::open(&folder.path().join("store"), &options).unwrap();
        let actor = Actor::program("service");
        assert!(last(&store).is_none() && share(&store, 0, &actor, &()).unwrap().is_none());
        assert!(share(&store, 5, &actor, &()).unwrap().unwrap().is_clean());
        assert!(share(&store, 5, &actor, &()).unwrap().is_none());
        let mut last = last(&store).unwrap();
        assert_eq!((last.percent, last.findings, warning(&last)), (5, 0, None));
        last.findings = 2;
        assert!(warning(&last).unwrap().contains("2 problems"));
    }
}
