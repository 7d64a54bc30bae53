//! The user's settings as a run's launch had them: where the user's own files are found, and what variables set of options. Whoever may descend from the
//! run's agent, and shows nothing of it, has these and no others.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use parhelia_agent::process::{Identity, ancestors};
use parhelia_ledger::{LedgerView as _, Run};
use parhelia_store::{Store, name};

use super::life::{has_recorded, is_above};
use crate::{Host, Result, config::call::user_variables, run::is_hidden};

/// Variables by which a user's folders are found.
pub const PLACES: [&str; 6] = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];

/// The variable that names a configuration file.
pub const CONFIG: &str = "PARHELIA_CONFIG";

/// The field of a run with the user's settings that its launch had.
pub(super) const USER_SETTINGS: &str = "user_settings";

/// The user's settings by variable; one that is not among them was not set.
pub type UserSettings = BTreeMap<String, String>;

/// The settings of a launch by this caller.
pub fn settings_of_caller(host: &dyn Host) -> UserSettings {
    let named = host.named_config().or_else(|| host.variable(CONFIG).map(PathBuf::from));
    let folder = host.folder().unwrap_or_default();
    let config = named.map(|path| folder.join(path).into_os_string());
    let options = user_variables().filter_map(|name| Some((name, host.variable(name)?)));
    let places = PLACES.into_iter().filter_map(|name| Some((name, host.variable(name)?)));
    shown(places.chain(options).chain(config.map(|path| (CONFIG, path))))
}

/// The settings of an agent that was started by hand: variables of options may have come from a file of the project that it reads first.
pub(super) fn settings_of_agent(agent: &Identity) -> Option<UserSettings> {
    let variables = agent.variables().ok()?;
    let value = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    Some(shown(PLACES.into_iter().filter_map(|name| Some((name, value(name)?)))))
}

fn shown<'a>(variables: impl Iterator<Item = (&'a str, OsString)>) -> UserSettings {
    let set = variables.filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| (name.to_owned(), name::display(value.as_encoded_bytes()))).collect()
}

/// The open run of a store that has started this process, or may have done so unseen.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The run that counts as the origin of this process.
    pub run: Run,
    /// The process of the run above this one; none where nothing of the run is seen from here.
    pub seen: Option<Identity>,
    /// True if the run's marker tells of it, and nothing else that can be seen.
    pub is_marked: bool,
}

impl Origin {
    /// The one that counts: that whose process is furthest above this one, else the open one whose marker this process bears, or the `outer` one of
    /// its line; else the newest of those that may hide it. `is_blind`: whether no process can be seen.
    pub fn of(store: &Store, is_blind: bool, (marker, outer): (Option<&OsStr>, Option<&Identity>)) -> Result<Option<Self>> {
        let (line, mut runs) = (ancestors(), store.view().runs()?);
        runs.retain(|_, run| run.is_open() || has_recorded(run, &line) || is_hidden(run));
        let mut above = line.iter().rev().filter_map(|process| {
            let run = runs.values().find(|run| is_above(run, std::slice::from_ref(process)))?;
            Some(Origin { run: run.clone(), seen: Some(process.clone()), is_marked: false })
        });
        let seen = above.next();
        let is_outer = |seen: &Origin| outer.zip(seen.seen.as_ref()).is_some_and(|(outer, seen)| outer.is_same(seen));
        let marked = marker.and_then(OsStr::to_str).and_then(|id| runs.get(id)).filter(|run| run.is_open());
        // The outermost process bears the marker of a run that is not its own: an agent of that run has had it started elsewhere.
        if let Some(run) = marked.filter(|run| seen.as_ref().is_none_or(|seen| is_outer(seen) && seen.run.id != run.id)) {
            return Ok(Some(Origin { run: run.clone(), seen: None, is_marked: true }));
        }
        if seen.is_some() {
            return Ok(seen);
        }
        let hidden = runs.into_values().rfind(|run| is_blind || is_hidden(run));
        Ok(hidden.map(|run| Origin { run, seen: None, is_marked: false }))
    }

    /// A variable that the launch had; none where the launch did not have it, or that is not known.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        let recorded: UserSettings = serde_json::from_value(self.run.extra.get(USER_SETTINGS)?.clone()).ok()?;
        recorded.get(name).map(|value| name::as_path(&name::parse(value)).into())
    }

    /// The folder that a variable named at the launch, where it is there.
    pub fn folder(&self, name: &str) -> Option<OsString> {
        self.variable(name).filter(|path| Path::new(path).is_dir())
    }
}
