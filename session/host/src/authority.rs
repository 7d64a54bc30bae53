//! Whose word counts: a process that an agent started has the user's settings as they were when a person started the agent.
//!
//! An agent, or a file of the project that it reads, can set any variable of the programs that it starts. So where this process descends from
//! an agent, the variables by which the user's own settings are found are put back to what the outermost process of that agent was started with,
//! before anything else reads them. The call's own values go along in a variable of their own, and count only where they make an
//! option stricter.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use parhelia_agent::process::{Identity, RUN_MARKER, sees_all};
use parhelia_ledger::LedgerView as _;
use parhelia_store::{Store, name, store::default_path};

use crate::{
    config::{
        Call, Config, ConfigFiles, IgnoredSetting,
        call::{OVERRULED, user_variables},
        load,
    },
    person,
    run::{CONFIG, Origin, Outer, PLACES},
};

const STORE: &str = "PARHELIA_STORE";
/// Variables of places that steer nothing of what a person has set.
const HARMLESS: [&str; 2] = ["XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];

/// A command line of ours, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// The store that it names.
    pub store: Option<PathBuf>,
    /// The configuration file that it names.
    pub config: Option<PathBuf>,
    /// True if only agents ask for what it does.
    pub is_of_an_agent: bool,
    /// True if it starts an agent, and waits for it.
    pub starts_an_agent: bool,
}

/// Variables with the values that they have, or are to have.
pub type Values = Vec<(String, Option<OsString>)>;

/// A process of ours at its start.
pub struct Process<'a> {
    /// Reads its environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Its command line.
    pub argv: &'a [OsString],
    /// Path of the running executable; none where the kernel does not tell it.
    pub program: Option<PathBuf>,
    /// True if an agent calls it for an event.
    pub is_hook: bool,
    /// Reads a command line, whatever the variables of this process say; none where it is none of ours.
    pub grammar: &'a dyn Fn(&[OsString]) -> Option<CommandLine>,
    /// Opens a store to look into; none where that cannot be done.
    pub open: &'a dyn Fn(&Path) -> Option<Store>,
}

/// The authority of a process over options of the user's.
#[derive(Clone, Debug, Default)]
pub struct CallAuthority {
    /// The call, as hosts pass it on.
    pub call: Call,
    /// True if an agent may have started it unseen, or a person has.
    pub is_apart: bool,
    /// Settings of the call that count less, because nothing shows who has started it.
    pub unseen: Option<IgnoredSetting>,
}

/// The result of asking whose word a process has.
#[derive(Debug)]
pub enum Authority {
    /// Its variables are as they have to be.
    Settled(Box<CallAuthority>),
    /// It has to be started anew, with these variables changed, and what it had said instead.
    Anew {
        /// Variables that have to be others.
        changed: Values,
        /// The values that the call had given.
        said: Values,
    },
}

/// Variables that were put back when the program was started anew, with their values before that. Whoever sets [`OVERRULED`] says no more by it than by
/// the variables themselves.
pub fn carried(variable: &dyn Fn(&str) -> Option<OsString>) -> Values {
    let Some(text) = variable(OVERRULED).and_then(|text| text.into_string().ok()) else { return Vec::new() };
    let found: Vec<(String, Option<String>)> = serde_json::from_str(&text).unwrap_or_default();
    found.into_iter().map(|(name, value)| (name, value.map(|value| name::as_path(&name::parse(&value)).into()))).collect()
}

/// The value of [`OVERRULED`] that says so.
pub fn carrying(said: &Values) -> String {
    let shown = |value: &OsString| name::display(value.as_encoded_bytes());
    let said: Vec<_> = said.iter().map(|(name, value)| (name, value.as_ref().map(shown))).collect();
    serde_json::to_string(&said).unwrap_or_default()
}

/// True if nothing shows what this process descends from.
fn is_unseen() -> bool {
    Identity::of(std::process::id() as i32).is_err()
}

/// The call behind variables that were put back. A configuration file that they name is the call's.
fn call_of(mut said: Values, is_below: bool) -> Call {
    let named = said.iter().position(|(name, _)| name == CONFIG).map(|at| said.remove(at));
    let file = named.and_then(|(_, path)| path).map(PathBuf::from);
    Call { is_agents: true, is_below, is_unseen: is_unseen(), variables: said, file }
}

impl Process<'_> {
    fn variable(&self, name: &str) -> Option<OsString> {
        (self.variable)(name)
    }

    /// Finds out whose word this process has.
    pub fn settle(&self) -> Authority {
        let mut said = carried(self.variable);
        let outer = Outer::above(&|program, argv| self.supervises(program, argv));
        let origin = self.origin(outer.as_ref(), !said.is_empty());
        let is_below = outer.is_some() || origin.as_ref().is_some_and(|origin| origin.seen.is_some());
        let wanted = match (&outer, &origin) {
            (_, Some(origin)) => self.of_origin(origin),
            (Some(outer), None) => self.launched(outer),
            (None, None) if self.is_apart() => self.without_options(),
            (None, None) if said.is_empty() => {
                let call = Call { is_unseen: is_unseen(), ..Call::default() };
                return Authority::Settled(Box::new(CallAuthority { call, ..CallAuthority::default() }));
            }
            (None, None) => Vec::new(),
        };
        let is_other = |(name, value): &(String, Option<OsString>)| {
            let own = self.variable(name);
            let paths = own.as_ref().zip(value.as_ref()).filter(|_| PLACES.contains(&name.as_str()));
            own != *value && !paths.is_some_and(|(own, value)| is_one(Path::new(own), Path::new(value)))
        };
        let changed: Vec<_> = wanted.into_iter().filter(is_other).collect();
        if changed.is_empty() {
            let is_apart = origin.as_ref().is_some_and(|origin| origin.seen.is_none() && !origin.is_marked);
            let has_said = !said.is_empty() || self.names_config();
            let unseen = origin.filter(|origin| has_said && origin.seen.is_none()).map(|hidden| unseen(&hidden));
            return Authority::Settled(Box::new(CallAuthority { call: call_of(said, is_below), is_apart, unseen }));
        }
        for (name, _) in &changed {
            // What only reads otherwise, as a path from another folder, is the user's as it is; so is what was taken away.
            let own = self.variable(name).filter(|value| !value.is_empty());
            let is_users = outer.as_ref().is_some_and(|outer| outer.is_ours && outer.variable(name) == own);
            if own.is_some() && !is_users && !said.iter().any(|(known, _)| known == name) {
                said.push((name.clone(), own));
            }
        }
        Authority::Anew { changed, said }
    }

    /// The marker of a run in the environment.
    pub fn marker(&self) -> Option<OsString> {
        self.variable(RUN_MARKER).filter(|run| !run.is_empty())
    }

    /// True if a run is open in one of the stores that the call concerns.
    pub fn is_open(&self, run: &OsStr) -> bool {
        let Some(run) = run.to_str() else { return false };
        self.stores().into_iter().any(|path| {
            let store = (self.open)(&path);
            store.is_some_and(|store| store.view().run(run).is_ok_and(|run| run.is_some_and(|run| run.is_open())))
        })
    }

    /// The run from whose agent this process comes, or may come unseen, where its launch says more than what is seen above this process: all of that is of
    /// the agent's making. Nobody asks a store where this process says nothing of settings.
    fn origin(&self, outer: Option<&Outer>, has_said: bool) -> Option<Origin> {
        // An agent may have had another server start this process, as tmux does: then the marker alone is left of it.
        let marked = outer.map_or_else(|| self.marker(), |outer| outer.variable(RUN_MARKER));
        // What is seen above this process on a machine of which all is seen is what a person has started, but where its supervisor was killed.
        if !has_said && !self.says_anything() || outer.is_some() && marked.is_none() && sees_all() && !is_unseen() {
            return None;
        }
        let found = self.stores().into_iter().find_map(|path| {
            let store = (self.open)(&path)?;
            Origin::of(&store, is_unseen(), (marked.as_deref(), outer.map(|outer| &outer.process))).ok()?
        })?;
        let is_same = |outer: &Outer| found.seen.as_ref().is_some_and(|seen| seen.is_same(&outer.process));
        (!outer.is_some_and(is_same)).then_some(found)
    }

    /// True if the call says what the user's settings are, or where.
    fn says_anything(&self) -> bool {
        let is_set = |name: &str| self.variable(name).is_some_and(|value| !value.is_empty());
        let is_place = |name: &&str| !HARMLESS.contains(name) && *name != "HOME" && is_set(name);
        of_options().any(is_set)
            || is_set(CONFIG)
            || PLACES.iter().any(is_place)
            || self.variable("HOME") != account_home()
            || self.names_config()
    }

    /// True if the command line may name a configuration file.
    fn names_config(&self) -> bool {
        self.argv.iter().any(|word| word.as_encoded_bytes().starts_with(b"--conf"))
    }

    /// The stores in which a run may be recorded whose agent has started this process: that of the call, and those in the default places.
    fn stores(&self) -> Vec<PathBuf> {
        let flags = (self.grammar)(self.argv);
        let variable = |name: &str| self.variable(name).filter(|value| !value.is_empty());
        let account = |name: &str| if name == "HOME" { account_home() } else { None };
        let named = flags.and_then(|flags| flags.store).or_else(|| variable(STORE).map(PathBuf::from));
        let configured =
            || [own_config(&variable, None), own_config(&account, None)].into_iter().flatten().filter_map(|own| own.store);
        let mut found: Vec<PathBuf> =
            named.into_iter().chain(default_store(&variable)).chain(default_store(&account)).chain(configured()).collect();
        let mut known = BTreeSet::new();
        found.retain(|path| path.canonicalize().is_ok_and(|path| known.insert(path)));
        found
    }

    /// The variables as the launch of a run had them.
    fn of_origin(&self, origin: &Origin) -> Vec<(String, Option<OsString>)> {
        let own = self.variable("HOME");
        let home = match account_home() {
            // The account's is as good as that of the launch.
            home @ Some(_) if home == own => home,
            home => origin.folder("HOME").or(home).or(own),
        };
        let places = PLACES.into_iter().filter(|name| *name != "HOME").map(|name| (name, origin.folder(name)));
        let options = of_options().map(|name| (name, origin.variable(name)));
        let all = [("HOME", home)].into_iter().chain(places).chain(options).chain([(CONFIG, origin.variable(CONFIG))]);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The variables as the outermost process has them, each with the value that this one has to have.
    fn launched(&self, outer: &Outer) -> Vec<(String, Option<OsString>)> {
        let flags = if outer.is_ours { (self.grammar)(&outer.argv) } else { None };
        let absolute = |path: PathBuf| outer.folder.as_ref().map_or(path.clone(), |folder| folder.join(&path)).into_os_string();
        // Who starts an agent by hand may mean these variables for it, and so may a file of the project that it reads first: the user's file counts.
        let of_ours = |name: &str| if outer.is_ours { outer.variable(name) } else { None };
        let flag = flags.as_ref().and_then(|flags| flags.config.clone());
        let config = flag.or_else(|| of_ours(CONFIG).map(PathBuf::from)).map(absolute);
        let mut wanted: Vec<(String, Option<OsString>)> = Vec::new();
        // Two values of one variable would have the program start anew for ever.
        let mut want = |name: &str, value: Option<OsString>| {
            if !wanted.iter().any(|(known, _)| known == name) {
                wanted.push((name.to_owned(), value));
            }
        };
        let place = |name: &str| match (&outer.variables, name) {
            (Some(_), _) => outer.variable(name),
            // The account's, where another user's process shows none.
            (None, "HOME") => account_home(),
            (None, _) => None,
        };
        PLACES.into_iter().for_each(|name| want(name, place(name)));
        user_variables().for_each(|name| want(name, of_ours(name)));
        want(CONFIG, config.clone());
        let files = |name: &str| if name == CONFIG { config.clone() } else { place(name).or_else(|| outer.variable(name)) };
        let own = own_config(&files, config.as_ref().map(PathBuf::from));
        if let Some(own) = &own {
            own.secret_variables().iter().chain(&own.summary.key_variable).for_each(|name| want(name, outer.variable(name)));
        }
        let store = flags.and_then(|flags| flags.store).or_else(|| outer.variable(STORE).map(PathBuf::from)).map(absolute);
        let store = store.or_else(|| Some(own?.store?.into_os_string()));
        let found = self.variable(STORE).filter(|path| !path.is_empty());
        let is_same =
            |path: &Path| found.as_ref().is_some_and(|found| Path::new(found) == path || is_one(Path::new(found), path));
        match store {
            Some(store) if !is_same(Path::new(&store)) => want(STORE, Some(store)),
            // What a supervisor of ours tells its agent is where the default store is.
            None if found.is_some()
                && outer.variables.is_some()
                && !default_store(&files).is_some_and(|store| is_same(&store)) =>
            {
                want(STORE, None);
            }
            _ => {}
        }
        wanted
    }

    /// True if nothing is seen of an agent above this process, but one has called it: it bears the marker of a run, or does what only agents ask for.
    fn is_apart(&self) -> bool {
        let words = self.argv.get(1..).unwrap_or_default();
        let is = |verb: &str| words.iter().any(|word| word == verb);
        if self.is_hook && is("--work") {
            // The hook that started it has gone before, with an agent above it.
            return false;
        }
        let is_of_an_agent = match (self.grammar)(self.argv) {
            Some(line) => line.is_of_an_agent,
            None => is("hook"),
        };
        is_of_an_agent || self.marker().is_some_and(|run| self.is_open(&run))
    }

    /// The variables of the user's options, each taken away.
    fn without_options(&self) -> Vec<(String, Option<OsString>)> {
        of_options().filter(|name| self.variable(name).is_some()).map(|name| (name.to_owned(), None)).collect()
    }

    /// True if a process is a supervisor of ours: it starts an agent, and waits for it. The service starts supervisors, and gives each what its agent may
    /// have.
    fn supervises(&self, program: &Path, argv: &[OsString]) -> bool {
        let is_ours = || {
            let name = program.file_name().unwrap_or_default().as_encoded_bytes();
            // A program that was replaced since has another name.
            name.strip_suffix(b" (deleted)").unwrap_or(name) == b"parhelia" || self.program.as_deref() == Some(program)
        };
        is_ours() && (self.grammar)(argv).is_some_and(|line| line.starts_an_agent)
    }
}

/// The reason for which settings of a call count less where nothing shows who has started it, and what to do about it.
fn unseen(origin: &Origin) -> IgnoredSetting {
    let (run, session) = (&origin.run.id, &origin.run.session);
    let why = match origin.is_marked {
        true => format!(
            "this process bears the marker of run {run} of session {session}, which is open: it counts where it is stricter; call from a terminal of \
             your own, or once that run has ended, for more"
        ),
        false => format!(
            "run {run} of session {session} is open, whose agent may have started this process, which cannot be seen from in here; it counts where it is \
             stricter; call from outside, or once that run has ended, for more"
        ),
    };
    IgnoredSetting { place: "what this call says of its user's settings".into(), why, file: None }
}

/// Every variable that sets an option of the user's, or says as much.
fn of_options() -> impl Iterator<Item = &'static str> {
    user_variables().filter(|name| *name != "PARHELIA_LOCK_TIMEOUT")
}

fn is_one(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
}

/// The user's own options with these variables; none where they cannot be read, which whoever needs them will say.
fn own_config(variable: &dyn Fn(&str) -> Option<OsString>, named: Option<PathBuf>) -> Option<Config> {
    let files = ConfigFiles { project: None, ..ConfigFiles::usual(variable, Path::new("/"), named) };
    Some(load(&files, &|_| None).ok()?.config)
}

/// The place of the store that nothing names, with these variables; none without a home.
pub fn default_store(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    data.map(|data| default_path(&data))
}

/// The home of the account that this process runs as.
fn account_home() -> Option<OsString> {
    Some(person::home_of(rustix::process::getuid().as_raw())?.into_os_string())
}
