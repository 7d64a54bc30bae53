//! The context of every verb: the store that the flags name, its output, its progress.

use parhelia_store::name::NameExt as _;
use std::{
    cell::RefCell,
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_host::config::{self, Config, ConfigFiles};
use parhelia_ledger::{LedgerView as _, selector};
use parhelia_life::secrets::secrets;
use parhelia_oversight::overrides;
use parhelia_screen::human;
use parhelia_store::{
    Error, OpenOptions, Store,
    event::Actor,
    id::Ulid,
    journal::{Journal, Position},
    pin::Pin,
    progress::Progress,
    record::Checkpoint,
    view::View,
};
use tempfile::TempDir;

use crate::{
    authority::{self, Authority},
    caller::{self, environment},
    exit::{Failure, Result},
    global::Global,
    hook_log,
    host::{Shell, actor},
    interrupt::Cancel,
    limits,
    output::Output,
    progress::Bar,
    told_settings,
    workspace::current_folder,
};

/// The variable that names the store.
const STORE: &str = "PARHELIA_STORE";

/// The context of every verb.
#[derive(Debug)]
pub struct Context {
    /// Flags that every verb takes.
    pub global: Global,
    /// Output for results.
    pub out: Output,
    cancel: Cancel,
    /// True if an older copy in the store's place is worth a word. A verb that refuses to run in one says so itself.
    pub warns_of_older: bool,
    /// The store that was opened, as it was then.
    opened: RefCell<Option<StorePosition>>,
    authority: Authority,
}

/// The store's folder.
#[derive(Clone, Debug)]
pub struct StorePlace {
    /// Path of the folder, which may not exist yet.
    pub path: PathBuf,
    /// True if a flag, a variable or a configuration file names it. The default store makes itself; one that is named is made by `init` alone.
    pub is_named: bool,
}

/// Cases in which a store is made where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// In no case.
    Never,
    /// Unless this user had a store there, whose disk may not be mounted.
    First,
    /// In any case.
    Anew,
}

/// A store at some time.
#[derive(Clone, Debug)]
pub struct StorePosition {
    /// Its folder.
    pub path: PathBuf,
    end: Position,
}

impl StorePosition {
    fn of(store: &Store) -> Self {
        StorePosition { path: store.path().to_owned(), end: store.view().end().clone() }
    }

    /// True if something was recorded since.
    pub fn has_grown(&self) -> bool {
        !self.journal().ends_at(&self.end).unwrap_or(true)
    }

    /// The same store now.
    pub fn now(&self) -> Self {
        let end = self.journal().read(&self.end).map_or_else(|_| self.end.clone(), |tail| tail.end);
        StorePosition { path: self.path.clone(), end }
    }

    fn journal(&self) -> Journal {
        Journal::of(&parhelia_ledger::layout(&self.path))
    }
}

impl Context {
    /// From the global flags, for a process of this authority.
    pub fn new(global: &Global, cancel: Cancel, authority: Authority) -> Self {
        let (out, opened) = (Output::new(global.json, global.quiet), RefCell::new(None));
        Context { global: global.clone(), out, cancel, warns_of_older: true, opened, authority }
    }

    /// The store's folder: as named, or the default. Fails where this process may not have what opening it takes.
    pub fn store_path(&self) -> Result<PathBuf> {
        Ok(self.store_place()?.path)
    }

    /// The same, with the way in which it was found.
    pub fn store_place(&self) -> Result<StorePlace> {
        let place = self.chosen_store()?;
        match limits::ensure_addresses() {
            Ok(()) => Ok(place),
            Err(source) => Err(Failure::File { action: "open the store", path: place.path, source }),
        }
    }

    fn chosen_store(&self) -> Result<StorePlace> {
        let named = |path| StorePlace { path, is_named: true };
        if let Some(path) = &self.global.store {
            return Ok(named(path.clone()));
        }
        if let Some(path) = self.own_config()?.store {
            return Ok(named(path));
        }
        match authority::default_store(&environment) {
            Some(path) => Ok(StorePlace { path, is_named: false }),
            None => Err(Failure::Usage("no store: give --store DIR, or set PARHELIA_STORE or HOME".into())),
        }
    }

    /// Opens the store; it must exist.
    pub fn open(&self) -> Result<Store> {
        self.open_with(Make::Never)
    }

    /// Opens the store for a verb that records something. The default store makes itself, and this is said whatever else is not. A store that
    /// was named must exist: one that is missing may lie on a disk that is not mounted, and a new one in its place would hide that.
    pub fn open_or_make(&self) -> Result<Store> {
        let place = self.store_place()?;
        let store = self.open_with(if place.is_named { Make::Never } else { Make::First })?;
        if store.was_made() {
            tell!("parhelia: no store was at {}; a new one is made there", human::path(place.path.as_os_str().as_bytes()));
        }
        Ok(store)
    }

    /// Opens the store for a look. Where there is no default store, and never was one, it is an empty one, which goes with the folder beside it.
    pub fn open_or_empty(&self) -> Result<(Store, Option<TempDir>)> {
        match self.open() {
            Err(Failure::Store(Error::NoStore { .. })) if !self.store_place()?.is_named => {
                if let Some(earlier) = Store::missing_at(&self.store_path()?, seen_folder().as_deref()) {
                    return Err(Error::StoreMissing(Box::new(earlier)).into());
                }
                let failed = |source| Failure::File { action: "create a folder in", path: std::env::temp_dir(), source };
                let folder = tempfile::tempdir().map_err(failed)?;
                let options = OpenOptions { create: true, ..OpenOptions::default() };
                Ok((parhelia_ledger::open(&folder.path().join("store"), &options)?, Some(folder)))
            }
            opened => Ok((opened?, None)),
        }
    }

    /// Opens the store, making it where `make` says so and there is none. The agent's credentials never enter it.
    pub fn open_with(&self, make: Make) -> Result<Store> {
        let secrets = secrets(&environment);
        let (lock_timeout, memory) = (self.lock_timeout()?, seen_folder());
        let (create, anew) = (make != Make::Never, make == Make::Anew);
        let options = OpenOptions { create, anew, lock_timeout, secrets, memory, ..OpenOptions::default() };
        let store = parhelia_ledger::open(&self.store_path()?, &options)?;
        if let Some(younger) = store.younger().filter(|_| self.opened.borrow().is_none() && self.warns_of_older) {
            tell!("parhelia: {younger}");
        }
        if let Some(damage) = store.view().damage() {
            let damage = damage.fault();
            self.progress()
                .notice(&format!("{damage}; it is read around, and nothing is written until `parhelia check --repair` mends it"));
        }
        if let Some(warning) = store.view().cut_warning() {
            self.progress().notice(&warning);
        }
        if let Some((copy, fault)) = store.settings_fault() {
            let copy = copy.display();
            self.progress().notice(&format!(
                "{copy}: {fault}; the other copy of the settings is used until `parhelia check --repair` mends this one"
            ));
        }
        for unreadable in store.view().unreadable()? {
            self.progress().notice(&unreadable.to_string());
        }
        self.opened.borrow_mut().get_or_insert_with(|| StorePosition::of(&store));
        Ok(store)
    }

    /// Opens the store in a folder for a verb that has told of its state; none where it cannot be opened.
    pub fn open_untold(&self, root: &Path) -> Option<Store> {
        let (lock_timeout, memory) = (self.lock_timeout().ok()?, seen_folder());
        parhelia_ledger::open(root, &OpenOptions { lock_timeout, memory, ..OpenOptions::default() }).ok()
    }

    /// The store that the flags and the configuration name, for a look before the verb opens it itself; none where it cannot be opened.
    pub fn open_quietly(&self) -> Option<Store> {
        self.open_untold(&self.chosen_store().ok()?.path)
    }

    /// The store that was opened first, as it was then.
    pub fn opened(&self) -> Option<StorePosition> {
        self.opened.borrow().clone()
    }

    /// The first words of a command for a store, for people who may be elsewhere by then. What this process has in its variables and flags, their
    /// shells may not have: a run tells its agent in `PARHELIA_STORE` which store it has.
    pub fn command_words(&self, store: &Path) -> String {
        let variable = |name: &str| environment(name).filter(|_| name != STORE);
        let files =
            ConfigFiles { project: None, call: self.authority.call(), ..ConfigFiles::usual(&variable, Path::new("/"), None) };
        let usual = config::load(&files, &variable).ok().and_then(|loaded| loaded.config.store);
        match usual.or_else(|| authority::default_store(&variable)) {
            Some(usual) if usual == store => "parhelia".into(),
            _ => format!("parhelia --store {}", human::shell(store.as_os_str().as_bytes())),
        }
    }

    /// This process as the host of workflows.
    pub fn host(&self) -> Result<Shell> {
        self.named_config()?;
        Ok(Shell::new(self.global.clone(), self.authority.call()))
    }

    /// The same for a hook. A configuration file that is not there keeps no agent from being answered.
    pub fn hook_host(&self) -> Shell {
        Shell::of_hook(self.global.config.clone(), self.authority.call())
    }

    /// The person at the command line.
    pub fn actor(&self) -> Actor {
        actor()
    }

    /// The configuration in force for a workspace.
    pub fn config(&self, workspace: &Path) -> Result<Config> {
        Ok(self.loaded_config(workspace)?.config)
    }

    /// The configuration in force for a workspace, and where each value came from.
    pub fn loaded_config(&self, workspace: &Path) -> Result<config::LoadedConfig> {
        let files = ConfigFiles::usual(&environment, workspace, self.named_config()?);
        self.loaded(ConfigFiles { call: self.authority.call(), ..files })
    }

    /// The user's own configuration. No project has a say in it, so that a broken file in a workspace stands in no verb's way.
    pub fn own_config(&self) -> Result<Config> {
        let files = ConfigFiles::usual(&environment, Path::new("/"), self.named_config()?);
        Ok(self.loaded(ConfigFiles { project: None, call: self.authority.call(), ..files })?.config)
    }

    /// Reads configuration, and tells of what does not count in it.
    fn loaded(&self, files: ConfigFiles) -> Result<config::LoadedConfig> {
        let loaded = config::load(&files, &environment)?;
        told_settings::tell(&loaded.ignored, caller::is_hook());
        Ok(loaded)
    }

    /// Records which settings did not count, where this process belongs to an agent's run, for whoever reads what happened in it. Nothing fails
    /// because this cannot be recorded.
    pub fn record_ignored(&self) {
        let told = authority::told();
        if told.is_empty() {
            return;
        }
        let Some(opened) = self.opened() else { return };
        if let (Some(store), Ok(host)) = (self.open_untold(&opened.path), self.host()) {
            overrides::ignored(&store, &host, &told);
        }
    }

    /// The configuration file that the flags name; it must be there.
    fn named_config(&self) -> Result<Option<PathBuf>> {
        let Some(path) = &self.global.config else { return Ok(None) };
        match std::fs::metadata(path) {
            Err(source) if source.kind() == ErrorKind::NotFound => {
                Err(Failure::File { action: "read", path: path.clone(), source })
            }
            _ => Ok(Some(path.clone())),
        }
    }

    /// The longest wait for another process's commit, checkpoint or rollback.
    pub fn lock_timeout(&self) -> Result<Duration> {
        match self.global.lock_timeout {
            Some(timeout) => Ok(timeout),
            None => Ok(Duration::from_secs_f64(self.own_config()?.lock_timeout_seconds)),
        }
    }

    /// Set once the user asked to stop.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Shows progress to whoever looks on as an agent is started, also under `--json`.
    pub fn supervisor(&self) -> Bar {
        Bar::new(true, self.global.quiet, Cancel::default())
    }

    /// Shows progress of what takes long.
    pub fn progress(&self) -> Bar {
        Bar::new(!self.global.quiet && !self.global.json, self.global.quiet, self.cancel.clone())
    }

    /// Says so where the store lies on a network filesystem: locks and syncs are not to be relied on there.
    pub fn warn_of_network(&self, store: &Store, progress: &dyn Progress) {
        const NETWORK: [(u32, &str); 5] =
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x517b, "SMB"), (0x0102_1997, "9p")];
        let Ok(found) = rustix::fs::statfs(store.path()) else { return };
        if let Some((_, name)) = NETWORK.iter().find(|(magic, _)| *magic == found.f_type as u32) {
            let path = store.path().shown();
            progress
                .notice(&format!("the store at {path} is on {name}; keep it on a local disk, or let one machine alone use it"));
        }
    }

    /// The checkpoint that a selector names, for a verb that only reads. `latest` is that of the current folder's sessions, or of the store
    /// where it has none.
    pub fn find(&self, store: &Store, selector: &str) -> Result<Checkpoint> {
        let view = store.view();
        let found = match current_folder() {
            Some(folder) => selector::find_here(&view, selector, &folder),
            None => selector::find(&view, selector),
        };
        found.map_err(|error| explained(&view, selector, error))
    }

    /// The id of the checkpoint that a selector names. A whole id is taken as it is, so that one that was deleted is called that.
    pub fn find_id(&self, store: &Store, selector: &str) -> Result<Ulid> {
        match selector.parse() {
            Ok(id) => Ok(id),
            Err(_) => Ok(self.find(store, selector)?.record.id),
        }
    }

    /// The same for a verb that says something about the checkpoint: `latest` is that of this folder, and no stranger's.
    pub fn find_id_to_mark(&self, store: &Store, selector: &str) -> Result<Ulid> {
        match selector.parse() {
            Ok(id) => Ok(id),
            Err(_) => Ok(self.find_to_overwrite(store, selector, None)?.record.id),
        }
    }

    /// The same for a verb that overwrites or deletes: `latest` is that of the sessions of the current folder, or else of the folder `to`
    /// that is changed. Where neither has one it is refused.
    pub fn find_to_overwrite(&self, store: &Store, selector: &str, to: Option<&Path>) -> Result<Checkpoint> {
        let view = store.view();
        if !selector::is_relative(selector) {
            return selector::find(&view, selector).map_err(|error| explained(&view, selector, error));
        }
        let folders: Vec<PathBuf> = current_folder().into_iter().chain(to.and_then(|to| to.canonicalize().ok())).collect();
        for folder in &folders {
            let sessions = selector::sessions_at(&view, folder)?;
            if !sessions.is_empty() {
                return selector::find_among(&view, selector, &sessions).map_err(|error| explained(&view, selector, error));
            }
        }
        let found = selector::find(&view, selector).map_err(|error| explained(&view, selector, error))?;
        let here = folders.last().map(|folder| human::path(folder.as_os_str().as_bytes()));
        let (id, record) = (found.id(), &found.record);
        Err(Failure::Refused(format!(
            "no session works in {}, so that '{selector}' names nothing here; the newest of the store is {id}, of session {session} in {}: \
             give {session}@{selector} if that is meant",
            here.as_deref().unwrap_or("this folder"),
            record.workspace.path,
            session = record.session,
        )))
    }

    /// The checkpoint that a selector names as by [`Context::find`], kept readable as long as the pin is held.
    pub fn pinned(&self, store: &Store, selector: &str, purpose: &str) -> Result<(Checkpoint, Option<Pin>)> {
        self.pin(store, &self.find(store, selector)?, purpose)
    }

    /// A checkpoint, kept readable as long as the pin is held.
    pub fn pin(&self, store: &Store, found: &Checkpoint, purpose: &str) -> Result<(Checkpoint, Option<Pin>)> {
        let pin = store.pin_for_reading([found.record.id], purpose, |text| self.progress().notice(text));
        // It may have been deleted before it was pinned.
        match store.refresh()?.checkpoint(found.record.id)? {
            Some(found) => Ok((found, pin)),
            None => Err(Error::NoCheckpoint { selector: found.id() }.into()),
        }
    }
}

/// The failure where a selector names no checkpoint, with what it names instead.
fn explained(view: &View, selector: &str, error: Error) -> Failure {
    if !matches!(error, Error::NoCheckpoint { .. } | Error::Invalid(_)) {
        return error.into();
    }
    if let Ok(session) = view.session_named(selector) {
        let word = human::shell(selector.as_bytes());
        return match session.head {
            Some(_) => Failure::NotFound(format!("'{selector}' is a session; {word}@latest is its newest checkpoint")),
            None => Failure::NotFound(format!("'{selector}' is a session, and has no checkpoint yet")),
        };
    }
    if view.tags_beginning(selector).is_ok_and(|tags| tags.contains_key(selector)) {
        return Failure::NotFound(format!("'{selector}' is a tag; tag:{selector} is the newest checkpoint that bears it"));
    }
    match selector::split(selector) {
        (checkpoint, Some(_)) if selector::find(view, checkpoint).is_ok() => Failure::Usage(format!(
            "'{selector}' names a path in a checkpoint, and a whole checkpoint is expected; leave out the path behind the colon"
        )),
        _ => error.into(),
    }
}

/// The folder in which it is noted how far this user's stores go; none without a home.
pub fn seen_folder() -> Option<PathBuf> {
    Some(hook_log::path()?.parent()?.join("stores"))
}
