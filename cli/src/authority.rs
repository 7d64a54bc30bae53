//! Whose word counts: this process, as [`parhelia_host::authority`] finds. Where its variables have to be others, the program is started anew.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use parhelia_host::{
    authority::{self, CallAuthority, CommandLine, Process, Values, carrying},
    config::{Call, IgnoredSetting, call::OVERRULED},
    run::{CONFIG, PLACES},
};
use parhelia_store::{OpenOptions, Store};

pub use parhelia_host::authority::default_store;

use crate::{
    caller::{self, environment},
    exit::{Failure, Result},
    global::Global,
    hook_log, limits,
};

/// Reads a command line; none where it is none of ours.
pub type Grammar = fn(&[OsString]) -> Option<CommandLine>;

static GRAMMAR: OnceLock<Grammar> = OnceLock::new();

/// Tells how command lines are read. Called before anything else here.
pub fn read_by(grammar: Grammar) {
    let _ = GRAMMAR.set(grammar);
}

/// Does something with this process as it was started.
fn with_process<T>(work: impl FnOnce(&Process<'_>) -> T) -> T {
    let argv: Vec<OsString> = std::env::args_os().collect();
    work(&Process {
        variable: &environment,
        argv: &argv,
        program: std::env::current_exe().ok(),
        is_hook: caller::is_hook(),
        grammar: &|argv| GRAMMAR.get().and_then(|read| read(argv)),
        open: &opened,
    })
}

/// The authority of this process over options of the user's.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    call: Call,
}

/// True if this process bears the marker of a run that counts: of one that is open in a store which the call concerns, or below an agent. A shell
/// that was begun by an agent keeps the marker when the run is long over, and is a person's by then.
pub fn bears_marker() -> bool {
    static BEARS: OnceLock<bool> = OnceLock::new();
    let bears =
        || with_process(|process| process.marker().is_some_and(|run| IS_BELOW.load(Ordering::Relaxed) || process.is_open(&run)));
    *BEARS.get_or_init(bears)
}

/// A store to look into before the verb opens it itself; none where that cannot be done, which the verb says then.
fn opened(path: &Path) -> Option<Store> {
    limits::ensure_addresses().ok()?;
    parhelia_ledger::open(path, &OpenOptions::default()).ok()
}

/// A variable as this call had it, where it may be a person's: the settings of a run that may hide its agent say where options are found, and nothing of
/// what a person who is not that agent starts or installs.
pub fn original(name: &str) -> Option<OsString> {
    let said = if IS_APART.load(Ordering::Relaxed) { carried() } else { Vec::new() };
    said.into_iter().find(|(known, _)| known == name).map_or_else(|| std::env::var_os(name), |(_, value)| value)
}

/// Gives a program the folders of its user as this call had them.
pub fn with_original_places(command: &mut Command) {
    for name in PLACES {
        let (own, original) = (std::env::var_os(name), original(name));
        let is_own = command.get_envs().find(|(known, _)| *known == name).is_none_or(|(_, value)| value == own.as_deref());
        if !is_own || original == own {
            continue;
        }
        match original {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// True if an agent may have started this process unseen, or a person has.
static IS_APART: AtomicBool = AtomicBool::new(false);
static IS_BELOW: AtomicBool = AtomicBool::new(false);

/// Sentences about settings that this process has told.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl Authority {
    /// Finds out whose word this process has. Starts the program anew where its variables have to be others.
    pub fn settle() -> Result<Self> {
        let CallAuthority { call, is_apart, unseen } = match with_process(|process| process.settle()) {
            authority::Authority::Settled(settled) => *settled,
            authority::Authority::Anew { changed, said } => return start_anew(&changed, &said),
        };
        caller::note_reader(call.is_agents);
        IS_BELOW.store(call.is_below, Ordering::Relaxed);
        IS_APART.store(is_apart, Ordering::Relaxed);
        if let Some(unseen) = unseen {
            tell(&[unseen], caller::is_hook());
        }
        Ok(Authority { call })
    }

    /// Takes the flags' part: a configuration file that a call names is the call's.
    pub fn take(&mut self, global: &mut Global) {
        let launched = std::env::var_os(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
        if self.call.is_agents && global.config.is_some() && global.config != launched {
            self.call.file = std::mem::replace(&mut global.config, launched);
        }
    }

    /// The call of this process, as hosts pass it on.
    pub fn call(&self) -> Call {
        self.call.clone()
    }
}

/// Tells of settings that do not count, each once, and notes it. Where an agent has the terminal, or reads the output, the log of hooks has it.
pub fn tell(settings: &[IgnoredSetting], is_quiet: bool) {
    for IgnoredSetting { place, why, .. } in settings {
        let text = format!("{place} does not count: {why}");
        if !TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
            continue;
        }
        match is_quiet {
            true => hook_log::line(&text),
            false => tell!("parhelia: {text}"),
        }
    }
}

/// The sentences about settings that this process has told.
pub fn told() -> Vec<String> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// Variables that were put back when the program was started anew, with their values before that.
pub fn carried() -> Values {
    authority::carried(&environment)
}

fn start_anew(changed: &Values, said: &Values) -> Result<Authority> {
    let failed = |source| Failure::File { action: "start anew", path: "the program itself".into(), source };
    // Without /proc, the program is the one that was called by its name.
    let called = || std::env::args_os().next().map(PathBuf::from);
    let program = std::env::current_exe().or_else(|e| called().ok_or(e)).map_err(failed)?;
    let mut command = Command::new(program);
    let mut words = std::env::args_os();
    command.arg0(words.next().unwrap_or_else(|| "parhelia".into())).args(words);
    for (name, value) in changed {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env(OVERRULED, carrying(said));
    Err(failed(command.exec()))
}
