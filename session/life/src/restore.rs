//! A restore from its plan to its end. In place, what is replaced in a session's folder is in a safety checkpoint first.

mod ahead;
mod said;
mod single;

use std::{
    collections::BTreeSet,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use parhelia_store::{
    ErrorKind, Store, clock, name,
    record::{Cause, Checkpoint},
    restore::{self, Options, Plan, RestoreReport, SkippedEntry, Why},
};

use self::said::NoticeFilter;
pub use self::single::into_new_folder;
use crate::{
    checkpoint::Conversation,
    environment::request_for_safety,
    overwrite::{
        LiveAgent, Overwritten, SafetyRequest, UnsecuredEntries, display, folders, live_agents, others_below, overwritten,
        refuse_another, secure, unsecured,
    },
    rollback,
};
use parhelia_host::{
    Error, Host, Observer, Result,
    intent::{self, Turn},
    notice::Notice,
    run,
    safety::{Safety, made_since},
};
use parhelia_oversight::{overrides, review::acts, scan};

/// A restore that is asked for.
pub struct RestoreRequest<'a> {
    /// The checkpoint. The caller keeps it readable.
    pub checkpoint: &'a Checkpoint,
    /// The target, and the extent.
    pub options: Options,
    /// The safeties of a restore in place; none for one into a new folder.
    pub in_place: Option<InPlace>,
}

/// The safeties of a restore in place.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlace {
    /// True if a folder may be overwritten with a checkpoint of another one.
    pub other_folder: bool,
    /// True if no safety checkpoint is made.
    pub no_safety: bool,
    /// True if the selector named no session: then a session's folder takes its own checkpoints alone.
    pub is_relative: bool,
}

/// A restore that is planned.
pub struct Restore<'a> {
    request: RestoreRequest<'a>,
    plan: Plan,
    reached: Vec<Overwritten>,
    live: Vec<LiveAgent>,
    unsecured: UnsecuredEntries,
    said: NoticeFilter,
}

/// A restore that was done.
#[derive(Debug)]
pub struct RestoreOutcome {
    /// The folder.
    pub target: PathBuf,
    /// Everything that was restored.
    pub report: RestoreReport,
    /// The safety checkpoints that were made.
    pub safeties: Vec<Safety>,
    /// Agents that are alive in folders that were changed.
    pub live: Vec<LiveAgent>,
    /// Entries that were overwritten and that no safety checkpoint holds.
    pub unsecured: UnsecuredEntries,
}

impl<'a> Restore<'a> {
    /// Plans. Changes nothing. What is refused is refused here.
    pub fn new(store: &Store, host: &dyn Host, mut request: RestoreRequest<'a>, observer: &dyn Observer) -> Result<Self> {
        let (checkpoint, said) = (request.checkpoint, NoticeFilter::default());
        let mut plan = said.plan(store, checkpoint, &request.options, observer)?;
        let Some(safeties) = request.in_place else {
            let (reached, live, unsecured) = Default::default();
            return Ok(Restore { request, plan, reached, live, unsecured, said });
        };
        let mut found = reached(store, &plan)?;
        if !safeties.other_folder {
            let restored = (checkpoint, &*request.options.subpath);
            refuse_another(store, &found, &plan, restored, safeties.is_relative)?;
            request.options.spare = kept(store, &plan, restored, observer)?;
            if !request.options.spare.is_empty() {
                plan = said.plan(store, checkpoint, &request.options, observer)?;
                found = reached(store, &plan)?;
            }
        }
        for found in found.iter().filter(|found| !found.paths.is_empty()) {
            let folder = (&*found.folder.path, &*found.folder.sessions);
            acts::ensure_may_overwrite(store, host, "checkpoint restore", folder, observer)?;
        }
        let live = live_agents(store, host, &plan.base(), &overwritten(&plan)?)?;
        let changed = found.iter().filter(|found| !found.paths.is_empty());
        for (text, _) in changed.filter_map(|found| found.folder.standing(checkpoint)) {
            observer.notice(&text);
        }
        let unsecured = unsecured(&plan, &found, safeties.no_safety)?;
        if let Some(text) = unsecured.text(&plan.target()).filter(|_| !safeties.no_safety) {
            observer.notice(&text);
        }
        for agent in &live {
            observer.notice(&format!("{}; it is not told that its files change", agent.text()));
        }
        if safeties.no_safety {
            found.clear();
        }
        found.iter().try_for_each(|found| ahead::ensure_readable(&found.paths, &plan.target()))?;
        Ok(Restore { request, plan, reached: found, live, unsecured, said })
    }

    /// Fails where nothing would be restored.
    pub fn ensure_of_use(&self) -> Result<()> {
        let skipped: Vec<SkippedEntry> = self.plan.blocked().collect();
        ahead::ensure_of_use(self.request.checkpoint, &self.plan.target(), &self.plan.summary.counts, &skipped)
    }

    /// The changes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Agents that are alive in folders that are changed.
    pub fn live(&self) -> &[LiveAgent] {
        &self.live
    }

    /// Entries that are overwritten and that no safety checkpoint will hold.
    pub fn unsecured(&self) -> UnsecuredEntries {
        self.unsecured
    }

    /// The folders of which safety checkpoints will be made, each with the session that gets it.
    pub fn secured(&self) -> impl Iterator<Item = (&Path, &str)> {
        let changed = self.reached.iter().filter(|found| !found.paths.is_empty());
        changed.map(|found| (found.folder.path.as_path(), found.session(self.request.checkpoint)))
    }

    /// Waits for the turn of the sessions whose folders are changed, and plans once more where it has one: others may have changed the folders
    /// meanwhile. The turns are held until the value is dropped.
    pub fn take_turns(&mut self, store: &Store, host: &dyn Host, observer: &dyn Observer) -> Result<Vec<Turn>> {
        let mut turns = Vec::new();
        let changed = self.reached.iter().filter(|found| !found.paths.is_empty());
        for session in changed.filter_map(|found| found.folder.keeper(self.request.checkpoint)) {
            let turn = rollback::take_turn(store, host, &session.id, store.lock_timeout(), observer)
                .inspect_err(|e| tell_not_secured(observer, e, None))?;
            turns.push(turn.ok_or_else(|| intent::busy(&session.id))?);
        }
        if !turns.is_empty() {
            self.plan = self.said.plan(store, self.request.checkpoint, &self.request.options, observer)?;
            self.reached = reached(store, &self.plan)?;
        }
        Ok(turns)
    }

    /// Makes the safety checkpoints, and restores.
    pub fn execute(self, store: &Store, host: &dyn Host, observer: &dyn Observer) -> Result<RestoreOutcome> {
        let Restore { request, mut plan, reached, live, unsecured, said } = self;
        let (checkpoint, target) = (request.checkpoint, plan.target());
        let mut safeties: Vec<Safety> = Vec::new();
        let since = clock::next();
        let say = |safeties: &[Safety]| safeties.iter().for_each(|safety| observer.warn(&Notice::SafetyMade(safety.clone())));
        let changed: BTreeSet<PathBuf> = overwritten(&plan)?.into_iter().collect();
        let (mut spared, mut kept): (Vec<Vec<u8>>, Vec<Vec<u8>>) = Default::default();
        for found in &reached {
            let (made, left_out) = found.secure(store, host, checkpoint, observer).inspect_err(|_| say(&safeties))?;
            safeties.extend(made);
            for path in &left_out {
                let Ok(from_target) = path.strip_prefix(&target) else { continue };
                let from_target = from_target.as_os_str().as_bytes().to_vec();
                if path.ancestors().any(|above| changed.contains(above)) {
                    kept.push(from_target.clone());
                }
                spared.push(from_target);
            }
        }
        if !spared.is_empty() {
            spared.retain(|path| !path.is_empty());
            if kept.iter().any(Vec::is_empty) {
                say(&safeties);
                let reason = "it may hold a secret, so that no safety checkpoint has it (secrets.on_finding)".into();
                return Err(Error::NotRestored { path: display(&target), reason, entries: 1 });
            }
            let mut options = request.options.clone();
            options.spare.extend(spared);
            plan = said.plan(store, checkpoint, &options, observer)?;
        }
        if !safeties.is_empty() {
            // What is changed from here on is in none of them.
            plan.guard(since);
        }
        self::overridden(store, host, &request, observer);
        if request.in_place.is_some() {
            // Before the first file is changed: whoever dies in between has overwritten some.
            let ids: Vec<_> = safeties.iter().map(|safety| safety.id.clone()).collect();
            let of = (checkpoint.record.id, checkpoint.record.session.as_str());
            overrides::overwritten(store, host, of, &target, &ids, observer);
        }
        let (mut plan, mut done) = (Some(plan), None);
        host.by_umask(&mut || done = plan.take().map(|plan| restore::execute(store, checkpoint, plan, observer)));
        let mut report = done.unwrap_or(Err(parhelia_store::Error::Cancelled)).inspect_err(|error| {
            safeties.iter().for_each(|safety| observer.warn(&Notice::SafetyHolds(safety.clone())));
            if error.is_damage() {
                observer.warn(&Notice::RestoreMetDamage { checkpoint: checkpoint.record.id });
            }
        })?;
        report.skipped.extend(kept.into_iter().map(left_as_it_is));
        if request.in_place.is_none() {
            scan::left_out_of(store, checkpoint)?.iter().for_each(|notice| observer.warn(notice));
        }
        Ok(RestoreOutcome { target, report, safeties, live, unsecured })
    }
}

impl RestoreOutcome {
    /// Fails where nothing was restored.
    pub fn ensure_of_use(&self, checkpoint: &Checkpoint) -> Result<()> {
        ahead::ensure_of_use(checkpoint, &self.target, &self.report.counts, &self.report.skipped)
    }
}

/// Notes the safeties that somebody switched off.
fn overridden(store: &Store, host: &dyn Host, request: &RestoreRequest<'_>, observer: &dyn Observer) {
    let record = &request.checkpoint.record;
    let off = request.in_place.map(|safeties| [("no-safety", safeties.no_safety), ("other-folder", safeties.other_folder)]);
    overrides::overridden(store, host, (record.id, &record.session), &off.unwrap_or_default(), observer);
}

/// The part of each session's folder that a plan reaches.
fn reached(store: &Store, plan: &Plan) -> Result<Vec<Overwritten>> {
    let paths = overwritten(plan)?;
    let folders = folders(&store.view(), &plan.base(), &paths)?;
    Ok(folders.into_iter().map(|folder| Overwritten { paths: folder.paths(&paths), folder }).collect())
}

/// The folders below a plan's target that it would change and in which other sessions work, as paths from the target. They are kept as they are,
/// which is said.
fn kept(store: &Store, plan: &Plan, restored: (&Checkpoint, &[u8]), observer: &dyn Observer) -> Result<Vec<Vec<u8>>> {
    if plan.base() != plan.target() {
        return Ok(Vec::new());
    }
    let others = others_below(store, &plan.base(), &overwritten(plan)?, restored)?;
    for (path, session) in &others {
        observer.note(&Notice::FolderKept { path: display(path), session: session.clone() });
    }
    Ok(others.into_iter().map(|(path, _)| path.into_os_string().into_vec()).collect())
}

impl Overwritten {
    /// Makes safety checkpoints that hold what is overwritten; none where nothing is. Beside them, the files that they leave out because of
    /// possible secrets.
    fn secure(
        &self,
        store: &Store,
        host: &dyn Host,
        restored: &Checkpoint,
        observer: &dyn Observer,
    ) -> Result<(Vec<Safety>, Vec<PathBuf>)> {
        let Some(session) = self.folder.keeper(restored).filter(|_| !self.paths.is_empty()) else {
            return Ok(Default::default());
        };
        let settings = host.config(&self.folder.path)?;
        let request = SafetyRequest {
            session,
            workspace: &self.folder.path,
            cause: Cause::RestoreSafety,
            message: format!("before the restore of {}", restored.id()),
            rules: None,
            conversation: Conversation::of(Some(session), None, run::config_for(store, host, session)?.map(|config| config.path)),
            environment: request_for_safety(host, store, &self.folder.path, session)?,
            settings: &settings,
        };
        let before = store.view().newest_first()?.next().transpose()?.map_or(0, |newest| newest.sequence);
        let made = secure(store, host, request, &self.paths, observer)
            .inspect_err(|e| tell_not_secured(observer, e, made_since(store, session, before)))?;
        let safety = |(i, made): (usize, &Checkpoint)| Safety {
            id: made.id(),
            session: session.id.clone(),
            folder: self.folder.path.clone(),
            is_rest: i > 0,
        };
        let mut left_out: Vec<PathBuf> = Vec::new();
        for checkpoint in &made {
            let omissions = store.omissions(checkpoint)?.into_iter().filter(scan::is_left_out);
            left_out.extend(omissions.map(|omission| self.folder.path.join(name::as_path(&omission.path))));
        }
        Ok((made.iter().enumerate().map(safety).collect(), left_out))
    }
}

/// A file that is not overwritten because no safety checkpoint has it.
fn left_as_it_is(path: Vec<u8>) -> SkippedEntry {
    let error = "kept as it is: it may hold a secret, so that no safety checkpoint has it (secrets.on_finding)".into();
    SkippedEntry { path, error, why: Why::Withheld }
}

/// Tells that a safety checkpoint failed. `made` is one that was committed before that. Whoever interrupted it knows that nothing was made.
fn tell_not_secured(observer: &dyn Observer, failed: &Error, made: Option<Checkpoint>) {
    let (is_interrupted, made) = (failed.kind() == ErrorKind::Cancelled, made.map(|made| made.record.id));
    if !is_interrupted || made.is_some() {
        observer.warn(&Notice::NotSecured { is_interrupted, made });
    }
}
