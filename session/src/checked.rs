//! Checks of the whole store that nobody asked for: a share of its data each day, and what came of it.

use parhelia_store::{
    Store,
    check::{self, CheckOptions, CheckReport, LastCheck},
    clock,
    event::{Actor, NewEvent, kind},
    progress::Progress,
};

use crate::{Result, verification};

/// Two shares are read at least so far apart, in seconds: somewhat less than a day, as nobody is as punctual.
const APART_SECONDS: i64 = 22 * 3600;

/// The last check that read data, by whomever.
pub fn last(store: &Store) -> Option<LastCheck> {
    check::last(store.layout())
}

/// Checks the store and reads the next share of its data, unless the last one was read today. Records what was found.
pub fn share(store: &Store, percent: u64, actor: &Actor, progress: &dyn Progress) -> Result<Option<CheckReport>> {
    let since = last(store).map(|last| clock::timestamp().duration_since(last.at).as_secs());
    // A clock that was set back is no reason to wait.
    if percent == 0 || since.is_some_and(|since| (0..APART_SECONDS).contains(&since)) {
        return Ok(None);
    }
    let read_data_percent = Some(u8::try_from(percent.min(100)).unwrap_or(100));
    let report = check::run(store.layout(), &CheckOptions { read_data_percent }, progress)?;
    let event = NewEvent::new(kind::STORE_CHECKED, "store", actor.clone())
        .with("percent", percent.min(100))
        .with("bytes_read", report.bytes_read)
        .with("findings", report.findings.len() as u64 + report.findings_more)
        .with("ok", report.is_clean());
    verification::record(store, &[event], progress);
    Ok(Some(report))
}

/// The sentence that warns of what the last check found.
pub fn warning(last: &LastCheck) -> Option<String> {
    let (at, found) = (last.at.strftime("%Y-%m-%d"), last.findings);
    let problems = if found == 1 { "1 problem".to_owned() } else { format!("{found} problems") };
    (found > 0).then(|| format!("the check of the store of {at} found {problems}; run `parhelia check`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parhelia_store::OpenOptions;

    #[test]
    fn a_share_is_read_once_a_day_and_its_result_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let store = Store::open(&folder.path().join("store"), &options).unwrap();
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
