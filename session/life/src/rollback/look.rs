//! Looking before a rollback: what stands against it, and what it would do.

use parhelia_store::name::step::Step;
use std::{
    iter,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_ledger::{LedgerView as _, Place, Run, Session, Status, known};
use parhelia_store::{Store, check, name, progress::Progress, record::Checkpoint};

use super::{Options, leave::Places, spoken::ConversationEffect};
use crate::workspace::place::ensure_place;
use parhelia_agent::{environment, git, process::canonical};
use parhelia_host::{
    Error, Host, Refusal, Result,
    config::Config,
    conversation::{held, position},
    notice::{self, Notice},
    run::{self, Life, has_agent},
};

const GIT_LIMIT: Duration = Duration::from_secs(30);

/// A rollback that is asked for.
pub struct RollbackRequest<'a> {
    /// The checkpoint.
    pub target: &'a Checkpoint,
    /// The extent, and the safeties that are switched off.
    pub options: Options,
    /// The agent's folder, where there is one.
    pub config: Option<PathBuf>,
    /// The places to look at for the agent's environment, for the safety checkpoint; none where no agent has worked in the session.
    pub environment: Option<environment::Request>,
    /// The configuration in force for the session's workspace.
    pub settings: &'a Config,
    /// The caller.
    pub host: &'a dyn Host,
}

/// The findings of a look at a session before its rollback.
#[derive(Debug)]
pub struct Look {
    /// The session as it was when it was looked at.
    pub session: Session,
    /// Absolute path of the folder that is rolled back.
    pub workspace: PathBuf,
    /// True if the conversation is not rolled back.
    pub files_only: bool,
    /// The conversation that goes back.
    pub conversation: Option<(String, PathBuf)>,
    /// The run whose agent is to be stopped first.
    pub stops: Option<Run>,
    /// Repositories below the workspace that the checkpoint does not have, and what other sessions work in; they are kept.
    pub nested: Vec<Vec<u8>>,
    /// Paths that are left as they are because that was asked for.
    pub left: Vec<Vec<u8>>,
    /// Things that the user should know.
    pub notices: Vec<Notice>,
}

/// Paths as an intent keeps them.
pub(super) fn hex(paths: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = String> {
    paths.map(|path| path.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Folders below a workspace that belong to other sessions that have not ended, moved there or not: paths from it, and the sessions. A folder
/// in which no program was ever seen, and which the target has, is not among them: one `checkpoint create` in a subfolder does not keep it
/// from being rolled back with the rest, and the safety checkpoint has it.
pub(super) fn sessions_below(
    store: &Store,
    workspace: &Path,
    session: &str,
    target: Option<&Checkpoint>,
) -> Result<Vec<(Vec<u8>, String)>> {
    let mut others = store.view().sessions()?;
    others.retain(|other| other.id != session && other.status != Status::Ended);
    let recorded = |other: &Session| other.workspace.as_ref().map(Place::folder).filter(|place| place.is_dir());
    let recorded = others.iter().filter_map(|other| Some((canonical(&recorded(other)?), other)));
    let mut found: Vec<(Vec<u8>, String)> = Vec::new();
    for (place, other) in recorded.chain(known::below(&others, iter::once(workspace))) {
        let Ok(below) = place.strip_prefix(workspace) else { continue };
        let below = (below.as_os_str().as_bytes().to_vec(), other.id.clone());
        let is_part = |target| !has_agent(other) && store.node_at(target, &below.0).is_ok();
        if !below.0.is_empty() && !found.contains(&below) && !target.is_some_and(is_part) {
            found.push(below);
        }
    }
    Ok(found)
}

fn refuse<T>(refusal: Refusal) -> Result<T> {
    Err(refusal.into())
}

/// Looks at everything but the checkpoint's own content ([`whole`]). Changes nothing.
pub fn look(store: &Store, wanted: &RollbackRequest<'_>) -> Result<Look> {
    let target = wanted.target;
    let Some(session) = store.view().session(&target.record.session)? else {
        return refuse(Refusal::OfNoSession { checkpoint: target.record.id });
    };
    if !wanted.options.recreate_workspace {
        ensure_place(store, &session)?;
    }
    let place = session.workspace.as_ref().map(Place::folder).unwrap_or_default();
    let workspace = place.canonicalize().map_err(|source| Error::Io { action: "open the workspace", path: place, source })?;
    let places = Places { store, target, workspace: &workspace, folder: wanted.host.folder() };
    let left = wanted.options.leave.iter().map(|path| places.inside(path)).collect::<Result<Vec<_>>>()?;
    let mut look = Look {
        session,
        workspace,
        left,
        files_only: wanted.options.files_only,
        conversation: None,
        stops: None,
        nested: Vec::new(),
        notices: Vec::new(),
    };
    look.agent(store, wanted)?;
    look.others(store, target, wanted.options.dry_run)?;
    look.git(store, wanted)?;
    look.conversation(store, wanted)?;
    Ok(look)
}

/// Refuses a checkpoint that is damaged. With `now`, a checkpoint of the workspace as it is: what that has as well is not looked at, as
/// nothing of it will be read.
pub fn whole(store: &Store, target: &Checkpoint, now: Option<&Checkpoint>, progress: &dyn Progress) -> Result<()> {
    let report = match now {
        Some(now) => check::verify_new(store, target, Some(now), progress)?,
        None => check::verify(store, target, false, progress)?,
    };
    match report.is_ok() {
        true => Ok(()),
        false => Err(Error::Damaged(format!(
            "checkpoint {} is damaged, and nothing was changed; {} says where",
            target.id(),
            Step::Verify(target.id())
        ))),
    }
}

impl Look {
    /// A live agent would go on with what it remembers, and overwrite what is restored.
    fn agent(&mut self, store: &Store, wanted: &RollbackRequest<'_>) -> Result<()> {
        let view = store.view();
        let run = view.newest_run(&self.session)?;
        let Some(run) = run else { return Ok(()) };
        if run::is_inside(&run, wanted.host) {
            if !self.files_only {
                self.notices.push(Notice::CalledInside);
            }
            self.files_only = true;
            return Ok(());
        }
        let left = run::left_alive(&run).filter(|_| !wanted.options.stop);
        match left.map_or_else(|| run::life(&run), Life::Agent) {
            Life::Over => {}
            Life::Elsewhere { host, .. } if wanted.options.take_over => {
                self.notices.push(Notice::MayStillHave { host });
            }
            Life::Elsewhere { host, until } if wanted.options.dry_run => {
                let session = self.session.id.clone();
                self.notices.push(Notice::WouldRefuse(Refusal::LiveElsewhere { session, host, until }));
            }
            Life::Starting(process) if wanted.options.dry_run => {
                let session = self.session.id.clone();
                self.notices.push(Notice::WouldRefuse(Refusal::Starting { session, process: process.process }));
            }
            Life::Elsewhere { host, until } => {
                return refuse(Refusal::LiveElsewhere { session: self.session.id.clone(), host, until });
            }
            Life::Starting(process) => {
                return refuse(Refusal::Starting { session: self.session.id.clone(), process: process.process });
            }
            Life::Agent(_) if wanted.options.stop => self.stops = Some(run),
            Life::Agent(_) if self.files_only => {
                self.notices.push(Notice::AgentNotTold);
            }
            Life::Agent(process) if wanted.options.dry_run => {
                let session = self.session.id.clone();
                self.notices.push(Notice::WouldRefuse(Refusal::MustStop { session, process: process.process }));
            }
            Life::Agent(process) => {
                return refuse(Refusal::MustStop { session: self.session.id.clone(), process: process.process });
            }
        }
        Ok(())
    }

    fn others(&mut self, store: &Store, target: &Checkpoint, is_shown: bool) -> Result<()> {
        self.spare_sessions_below(store, target)?;
        match run::live_in(store, &self.workspace, &self.session.id)?.first() {
            None => Ok(()),
            Some((other, _)) if is_shown => {
                self.notices.push(Notice::WouldRefuse(Refusal::OtherAlive { session: other.id.clone() }));
                Ok(())
            }
            Some((other, _)) => refuse(Refusal::OtherAlive { session: other.id.clone() }),
        }
    }

    /// Spares the folders below the workspace in which other sessions work.
    fn spare_sessions_below(&mut self, store: &Store, target: &Checkpoint) -> Result<()> {
        for (path, other) in sessions_below(store, &self.workspace, &self.session.id, Some(target))? {
            self.notices.push(Notice::OtherWorksThere { path: name::display(&path), session: other });
            self.nested.push(path);
        }
        Ok(())
    }

    fn git(&mut self, store: &Store, wanted: &RollbackRequest<'_>) -> Result<()> {
        let environment = git::Environment::new(&|name| wanted.host.variable(name), &self.workspace, &store.layout().cache());
        let state = match git::state(&self.workspace, &environment, GIT_LIMIT) {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(()),
            Err(e) if wanted.options.any_git_state => {
                self.notices.push(Notice::Git(notice::Git::Silent { why: e.to_string() }));
                return Ok(());
            }
            Err(parhelia_agent::Error::StrangersRepository { root, uid }) => {
                return refuse(Refusal::GitOfAnother { root, uid });
            }
            Err(e) => {
                return refuse(Refusal::GitUnknown { why: e.to_string() });
            }
        };
        let against = |reason: String| match wanted.options.any_git_state {
            true => Ok(()),
            false => refuse(Refusal::GitState { why: reason }),
        };
        if let Some(operation) = state.operation {
            let text =
                serde_json::to_value(operation).ok().and_then(|v| v.as_str().map(|s| s.replace('_', "-"))).unwrap_or_default();
            against(format!("git is in the middle of a {text}"))?;
        }
        let then = wanted.target.record.git.as_ref().and_then(|git| git.get("branch")?.as_str().map(str::to_owned));
        if let Some(then) = then.filter(|then| state.branch.as_ref() != Some(then)) {
            let now = state.branch.clone().unwrap_or_else(|| "no branch".into());
            against(format!("the checkpoint was made on branch {then}, and {now} is checked out"))?;
        }
        let head = wanted.target.record.git.as_ref().and_then(|git| git.get("head")?.as_str());
        if let (Some(then), Some(now)) = (head, &state.head)
            && let Some(relation) = git::compared(&self.workspace, &environment, then, now, GIT_LIMIT)
        {
            let (then, now) = (&then[..then.len().min(12)], &now[..now.len().min(12)]);
            let (now, then, relation) = (now.to_owned(), then.to_owned(), relation.to_string());
            self.notices.push(Notice::Git(notice::Git::HeadStays { now, then, relation }));
        }
        for below in state.below.iter().filter(|below| below.kind == git::Kind::Nested) {
            let path = name::parse(&below.path);
            if store.node_at(wanted.target, &path).is_err() {
                self.notices.push(Notice::Git(notice::Git::RepositoryKept { path: below.path.clone() }));
                self.nested.push(path);
            }
        }
        Ok(())
    }

    fn conversation(&mut self, store: &Store, wanted: &RollbackRequest<'_>) -> Result<()> {
        if self.files_only {
            return Ok(());
        }
        let held = held(wanted.target);
        // Whoever has the session's newest conversation open works in these files, whatever the checkpoint has.
        let newest = self.session.conversations.last().map(|newest| newest.id.clone());
        for id in held.iter().chain(newest.iter().filter(|newest| held.as_ref() != Some(newest))) {
            let holders = wanted.config.as_ref().map(|config| run::strangers_in(store, &self.session, config, id)).transpose()?;
            let open = holders
                .unwrap_or_default()
                .first()
                .map(|holder| Refusal::OpenInStranger { conversation: id.clone(), holder: holder.text() });
            let unseen =
                wanted.config.as_ref().map(|config| run::unseen_in(store, &self.session, config, id)).transpose()?.flatten();
            match (open, unseen.map(|text| Refusal::MayBeOpen { text })) {
                (Some(refusal), _) | (None, Some(refusal)) if wanted.options.dry_run => {
                    self.notices.push(Notice::WouldRefuse(refusal))
                }
                (Some(refusal), _) => return refuse(refusal),
                (None, Some(refusal)) if wanted.options.take_over => self.notices.push(Notice::WouldRefuse(refusal)),
                (None, Some(refusal)) => return refuse(refusal),
                (None, None) => {}
            }
        }
        match (held, &wanted.config, position(store, wanted.target)?) {
            (Some(id), Some(config), Some(_)) => self.conversation = Some((id, config.clone())),
            // Where no agent has worked, nobody expects one.
            _ if self.session.runs.is_empty() && self.session.conversations.is_empty() => {}
            _ => self.notices.push(Notice::FilesAlone),
        }
        Ok(())
    }

    /// The spared paths in hex, as an intent keeps them.
    pub(super) fn spare(&self, omitted: impl Iterator<Item = Vec<u8>>) -> Vec<String> {
        hex(self.nested.iter().chain(&self.left).cloned().chain(omitted)).collect()
    }

    /// The effect on the conversation of going back to a checkpoint; none if no conversation goes back.
    pub fn spoken(&self, store: &Store, target: &Checkpoint) -> Result<Option<ConversationEffect>> {
        let goes_back = self.conversation.as_ref();
        goes_back.map(|(id, config)| ConversationEffect::of(store, target, &self.session, id, config)).transpose()
    }

    /// The workspace, for messages.
    pub fn shown(&self) -> String {
        name::display(self.workspace.as_os_str().as_bytes())
    }
}
