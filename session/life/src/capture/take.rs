//! Taking a checkpoint: the first step of its making.

use std::{collections::BTreeMap, iter};

use parhelia_agent::git;
use parhelia_ledger::{LedgerView as _, PRINTED, Session};
use parhelia_store::{
    Store,
    create::{self, FullWalk, Options},
    record::Checkpoint,
};

use super::{Capture, CaptureParts, session_state, tmux_job};
use crate::{
    mcp::{self, Around},
    workspace::place::FolderIdentity,
};
use parhelia_host::{
    Host, Observer, Result,
    draft::{CheckpointRequest, Draft},
    job::{Job, environment_job, git_job},
    notice::Notice,
    run,
};
use parhelia_knowledge::{phase, summary};
use parhelia_oversight::scan;

/// Captures a workspace with everything beside it, and tells the observer what there is to say of it. The book is for the scan.
pub(crate) fn take<'a>(
    store: &'a Store,
    host: &'a dyn Host,
    request: &'a CheckpointRequest<'a>,
    observer: &'a dyn Observer,
) -> Result<(Draft<'a>, scan::BookResult)> {
    let session = store.view().session(request.session)?;
    let standing = FolderIdentity::of_captured(session.as_ref(), request.workspace);
    let (judge, book) = scan::open(store, &request.config.secrets)?;
    let options = Options { judge, ..options(host, request, session.as_ref(), &standing) };
    let mut capture = Capture::new(wanted(store, host, request, session.as_ref()));
    let outcome = create::run_with(store, &options, &FullWalk, &mut capture, observer)?;
    let notice = session.as_ref().and_then(|session| standing.text(session)).filter(|_| !outcome.skipped);
    let warnings = capture.warnings().iter().filter(|_| !outcome.skipped);
    outcome.notices.iter().chain(&notice).chain(warnings).for_each(|text| observer.notice(text));
    let state = Box::new(capture);
    let (verified, scan, findings) = (None, None, Vec::new());
    Ok((Draft { store, host, request, observer, session, options, state, outcome, notice, verified, scan, findings }, book))
}

/// Warns of a checkpoint that takes more of the store than the user has said.
pub(crate) fn warn_if_large(draft: &Draft<'_>) {
    let (stored, limit) = (draft.outcome.stored_bytes, draft.request.config.capture.warn_bytes);
    if limit > 0 && stored > limit {
        draft.observer.warn(&Notice::Large { checkpoint: draft.checkpoint().record.id, mebibytes: stored >> 20 });
    }
}

/// No more checkpoints before one are looked at for its conversation.
const ANCESTORS_MAX: usize = 32;

/// Warns of a conversation that has less than the checkpoint before has of it: its file may be an older copy, as of an agent's folder that was moved.
pub(crate) fn warn_if_shorter(draft: &Draft<'_>) {
    let length = |checkpoint: &Checkpoint| {
        let conversation = checkpoint.record.conversation.as_ref()?;
        Some((conversation.get("agent_session_id")?.as_str()?.to_owned(), conversation.get("transcript_bytes")?.as_u64()?))
    };
    let Some((id, now)) = length(draft.checkpoint()) else { return };
    let view = draft.store.view();
    let parent = |of: &Checkpoint| view.checkpoint(of.record.parent?).ok().flatten();
    // Checkpoints between may have been made without the conversation.
    let mut ancestors = iter::successors(parent(draft.checkpoint()), parent).take(ANCESTORS_MAX);
    let before = ancestors.find_map(|before| length(&before).filter(|(of, _)| *of == id).map(|(_, then)| (then, before)));
    if let Some((then, before)) = before
        && now < then
    {
        draft.observer.warning(&format!(
            "conversation {id} has {now} bytes, and had {then} in checkpoint {}, which keeps them: the agent's file of it may be an older copy",
            before.id()
        ));
    }
}

fn options(host: &dyn Host, request: &CheckpointRequest<'_>, known: Option<&Session>, standing: &FolderIdentity) -> Options {
    // Somebody who restores into a workspace that was moved has not said that the session goes on there.
    let is_elsewhere = known.and_then(|known| known.workspace.as_ref()).is_some_and(|place| place.folder() != request.workspace);
    let is_safety = request.cause.is_safety();
    Options {
        workspace: request.workspace.to_owned(),
        session: request.session.to_owned(),
        run: request.run.map(|(run, _)| run.to_owned()),
        epoch: request.run.map_or(0, |(_, epoch)| epoch),
        actor: host.actor(),
        trigger: request.trigger,
        cause: request.cause,
        trigger_detail: request.detail.clone(),
        message: request.message.clone(),
        rules: request.rules.clone().unwrap_or_else(|| request.config.capture.rules()),
        listed: request.listed.clone(),
        refuses_empty: request.listed.is_some(),
        skip_if_unchanged: request.skip_if_unchanged,
        thorough: request.thorough || request.deep,
        read_all_after_secs: request.config.capture.read_all_after_secs(),
        keeps_place: standing.is_another() || (is_safety && is_elsewhere),
        of_another_folder: standing.is_another(),
        ..Options::default()
    }
}

/// The agent's MCP servers.
fn servers_job(store: &Store, host: &dyn Host, request: &CheckpointRequest<'_>, known: Option<&Session>) -> Option<Job> {
    let environment = request.environment.clone()?;
    let view = store.view();
    let run = match request.run {
        Some((run, _)) => view.run(run).ok().flatten(),
        None => view.newest_run(known?).ok().flatten(),
    };
    let agents = run.iter().flat_map(|run| run::hooked_agent_of(run).into_iter().chain(run::agent_of(run))).collect();
    let (store, settings, client) = (store.layout().root.clone(), request.config.mcp.clone(), host.mcp_client());
    mcp::job(Around { environment, store, session: request.session.to_owned(), agents, settings, client })
}

/// Everything that is captured beside the workspace.
fn wanted(store: &Store, host: &dyn Host, request: &CheckpointRequest<'_>, known: Option<&Session>) -> CaptureParts {
    let (workspace, cache) = (request.workspace, store.layout().cache());
    let git = git::Environment::new(&|name| host.variable(name), workspace, &cache);
    let mut jobs = vec![git_job(workspace.to_owned(), git, request.config.capture.git_timeout())];
    jobs.extend(request.environment.clone().map(environment_job));
    jobs.extend(request.tmux.clone().map(|place| tmux_job(place, workspace)));
    jobs.extend(servers_job(store, host, request, known));
    let conversation = request.conversation.source(known);
    let is_agents = conversation.is_some() || request.is_agents(known);
    if let (true, Some(home), Some(known)) = (is_agents, phase::Home::of(host), known) {
        jobs.extend(phase::job(home, known.created_at));
    }
    let last = known.and_then(|known| Some((known.run.as_deref()?, known.epoch)));
    // What an older run captures does not come from the session's head.
    let is_current = request.run.is_none_or(|(_, epoch)| known.is_none_or(|known| epoch >= known.epoch));
    let by_model = (is_agents && is_current).then(|| summary::model::for_next(store, &request.config.summary, request.session));
    CaptureParts {
        by_model: by_model.flatten(),
        conversation,
        printed: known.map(printed).unwrap_or_default(),
        cost: request.config.cost.clone(),
        session_state: is_agents.then(|| session_state(request.session, workspace, request.run.or(last), known)),
        jobs,
        context: request.environment.as_ref().map(|_| (workspace.to_owned(), request.config.context.clone())),
        cache,
    }
}

/// The costs that the agents of a session have printed, by conversation.
fn printed(known: &Session) -> BTreeMap<String, f64> {
    let printed = known.conversations.iter().filter(|one| one.cost_source.as_deref() == Some(PRINTED));
    printed.filter_map(|one| Some((one.id.clone(), one.cost_usd?))).collect()
}
