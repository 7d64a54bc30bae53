//! Capturing a workspace with the session's state of the same moment, verifying it, and thinning older checkpoints.

use std::{collections::BTreeMap, sync::Arc};

use parhelia_agent::git;
use parhelia_ledger::{LedgerView as _, PRINTED, Scan, Session};
use parhelia_store::{
    Store,
    check::VerifyReport,
    create::{self, FullWalk, Options, Outcome},
    event::NewEvent,
    record::{Checkpoint, Part},
};

use super::CheckpointRequest;
use crate::{
    capture::{self, Capture, session_state, tmux_job},
    mcp::{self, Around},
    place::Standing,
    retention, verification,
};
use parhelia_host::{
    Host, Observer, Result,
    config::OnFinding,
    job::{Job, environment_job, git_job},
    notice::Notice,
    run,
};
use parhelia_knowledge::{phase, summary};
use parhelia_oversight::{approval::automatic, review::decide::is_persons_word, scan};

/// A checkpoint that was made, and whether it is whole.
#[derive(Debug)]
pub struct Made {
    /// The checkpoint, or where nothing had changed the last one.
    pub outcome: Outcome,
    /// The finding of its verification, or why it could not be verified; it is committed all the same. None where nothing had changed, and
    /// nothing was made.
    pub verified: Option<Result<VerifyReport>>,
    /// The scan of its new content for secrets. None where nothing was new, nothing was to be scanned, or that failed, of which the observer
    /// has been told.
    pub scan: Option<Scan>,
    /// The captured folder, compared with the session's own.
    pub standing: Standing,
    /// A sentence about that, where there is something to say; the observer has been told.
    pub notice: Option<String>,
    /// The older checkpoints that retention has removed.
    pub thinned: Option<retention::RetentionReport>,
}

impl Made {
    /// The parts that could not be captured, each with why.
    pub fn failed(&self) -> impl Iterator<Item = String> {
        let parts = (!self.outcome.skipped).then_some(&self.outcome.checkpoint.record.parts);
        let parts = parts.into_iter().flatten().filter_map(|(name, part)| match part {
            Part::Failed { error } => Some(format!("{name} could not be captured: {error}")),
            _ => None,
        });
        parts.chain(self.unverified().map(|e| format!("it could not be verified: {e}")))
    }

    /// The report of its verification.
    pub fn report(&self) -> Option<&VerifyReport> {
        self.verified.as_ref()?.as_ref().ok()
    }

    /// The reason why it could not be verified.
    pub fn unverified(&self) -> Option<&parhelia_host::Error> {
        self.verified.as_ref()?.as_ref().err()
    }

    /// True if something was made that is damaged.
    pub fn is_damaged(&self) -> bool {
        self.report().is_some_and(|report| !report.is_ok())
    }

    /// True if everything is there that belongs to it, and was verified.
    pub fn is_complete(&self) -> bool {
        let is_complete = self.outcome.checkpoint.is_complete() && self.unverified().is_none();
        is_complete && self.report().is_none_or(VerifyReport::is_complete)
    }

    /// True if older checkpoints may go in its favour: it is whole, and of the session's own folder.
    pub fn is_sound(&self) -> bool {
        !self.standing.is_another() && !self.is_damaged() && self.unverified().is_none()
    }
}

/// Makes a checkpoint, and verifies it. What could not be captured beside the workspace is a failed part of it.
///
/// A folder that has taken the place of the session's is captured, which is said; the session's recorded folder stays, so that resuming and rolling
/// back go on to refuse it.
pub fn make(store: &Store, host: &dyn Host, request: &CheckpointRequest<'_>, observer: &dyn Observer) -> Result<Made> {
    let known = store.view().session(request.session)?;
    let standing = Standing::of_captured(known.as_ref(), request.workspace);
    let mut options = options(host, request, known.as_ref(), &standing)?;
    let leaves_out = request.config.secrets.on_finding == OnFinding::LeaveOut;
    let book = match scan::Book::new(store, &request.config.secrets) {
        // Of files that are to be left out, none may be stored unseen.
        Err(e) if leaves_out => return Err(e),
        book => book,
    };
    options.judge = book.as_ref().ok().and_then(|book| Some(book.as_ref()?.judge(leaves_out)));
    let mut capture = Capture::new(captured(store, host, request, known.as_ref()));
    let mut outcome = create::run_with(store, &options, &FullWalk, &mut capture, observer)?;
    let notice = known.as_ref().and_then(|session| standing.text(session)).filter(|_| !outcome.skipped);
    let warnings = capture.warnings().iter().filter(|_| !outcome.skipped);
    outcome.notices.iter().chain(&notice).chain(warnings).for_each(|text| observer.notice(text));
    let verify = |outcome: &Outcome| match outcome.skipped {
        true => None,
        false => Some(verification::of_new(store, &outcome.checkpoint, request.deep, observer)),
    };
    let actor = host.actor();
    let mut verified = verify(&outcome);
    if request.deep && verified.as_ref().is_some_and(|found| found.as_ref().is_ok_and(|report| !report.is_ok())) {
        // It is known by now what is damaged.
        verified.iter().flatten().for_each(|report| verification::note(store, report, &actor, observer));
        observer.notice(&Notice::ReusesDamage { checkpoint: outcome.checkpoint.record.id }.to_string());
        match create::run_with(store, &options, &FullWalk, &mut capture, observer) {
            Ok(again) if again.skipped => {}
            Ok(again) => (verified, outcome) = (verify(&again), again),
            Err(e) => observer.notice(&Notice::NotStoredAgain { why: e.to_string() }.to_string()),
        }
    }
    let (checkpoint, stored, limit) = (outcome.checkpoint.record.id, outcome.stored_bytes, request.config.capture.warn_bytes);
    if !outcome.skipped && limit > 0 && stored > limit {
        observer.warn(&Notice::Large { checkpoint, mebibytes: stored >> 20 });
    }
    let scan = scanned(store, &outcome, book, request.config.secrets.on_finding, observer);
    let mut findings: Vec<NewEvent> = verified.iter().flatten().map(|report| verification::event(report, &actor)).collect();
    findings.extend(scan.as_ref().map(|scan| scan::event(outcome.checkpoint.record.id, scan, &actor)));
    // Where it cannot be told who asks, nobody counts as a person.
    let is_judged = request.is_judged
        || is_agents(request, known.as_ref())
        || !is_persons_word(store, host, request.session).unwrap_or(false);
    if !outcome.skipped && is_judged && !outcome.checkpoint.record.fenced {
        findings.extend(decision(store, &outcome.checkpoint, request, scan.as_ref(), observer));
    }
    if !findings.is_empty() {
        // One append for all: each of them waits for the disk.
        verification::record(store, &findings, observer);
    }
    if !outcome.skipped && is_agents(request, known.as_ref()) {
        summary::kept::renew(store, request.session, observer);
        summary::model::begin(store, host, &request.config.summary, &outcome.checkpoint, observer);
    }
    let mut made = Made { outcome, verified, scan, standing, notice, thinned: None };
    if request.thins && made.is_sound() {
        made.thinned =
            retention::after(store, &made.outcome, &request.config.retention, (&actor, host.call().is_agents), observer);
    }
    Ok(made)
}

/// The decision of the session's policy about a new checkpoint. It counts as made whether this succeeds or not.
fn decision(
    store: &Store,
    made: &Checkpoint,
    request: &CheckpointRequest<'_>,
    scan: Option<&Scan>,
    observer: &dyn Observer,
) -> Vec<NewEvent> {
    let asks = request.config.secrets.scan && request.config.secrets.on_finding == OnFinding::Review;
    let found = asks.then(|| scan.map_or((0, 0), |scan| (scan.found, scan.unscanned.not_reached)));
    automatic::decision(store, made, &request.config.approval, found).unwrap_or_else(|e| {
        observer.warn(&Notice::NotRecorded { what: "no policy has decided about the checkpoint", why: e.to_string() });
        Vec::new()
    })
}

/// Says what a new checkpoint has of secrets, by what the capture has entered in the book. It is committed by now: a scan that fails does it no
/// harm.
fn scanned(
    store: &Store,
    outcome: &Outcome,
    book: Result<Option<Arc<scan::Book>>>,
    on_finding: OnFinding,
    observer: &dyn Observer,
) -> Option<Scan> {
    if outcome.skipped {
        return None;
    }
    let scan = |book: Option<Arc<scan::Book>>| match book {
        Some(book) => scan::of_new(store, &outcome.checkpoint, &book, on_finding, observer),
        None => Ok(None),
    };
    let scanned = book.and_then(scan).unwrap_or_else(|e| {
        observer.warn(&Notice::NotRecorded { what: "the checkpoint was not scanned for secrets", why: e.to_string() });
        None
    })?;
    scan::notices(outcome.checkpoint.record.id, &scanned).iter().for_each(|notice| observer.warn(notice));
    Some(scanned.scan)
}

fn options(host: &dyn Host, request: &CheckpointRequest<'_>, known: Option<&Session>, standing: &Standing) -> Result<Options> {
    // Somebody who restores into a workspace that was moved has not said that the session goes on there.
    let is_elsewhere = known.and_then(|known| known.workspace.as_ref()).is_some_and(|place| place.folder() != request.workspace);
    let is_safety = request.cause.is_safety();
    Ok(Options {
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
    })
}

/// True if an agent works in the session: of a folder that none works in there is nothing to say, and nothing to decide.
fn is_agents(request: &CheckpointRequest<'_>, known: Option<&Session>) -> bool {
    request.run.is_some() || known.is_some_and(|known| known.run.is_some())
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
fn captured(store: &Store, host: &dyn Host, request: &CheckpointRequest<'_>, known: Option<&Session>) -> capture::Wanted {
    let (workspace, cache) = (request.workspace, store.layout().cache());
    let git = git::Environment::new(&|name| host.variable(name), workspace, &cache);
    let mut jobs = vec![git_job(workspace.to_owned(), git, request.config.capture.git_timeout())];
    jobs.extend(request.environment.clone().map(environment_job));
    jobs.extend(request.tmux.clone().map(|place| tmux_job(place, workspace)));
    jobs.extend(servers_job(store, host, request, known));
    let conversation = request.conversation.source(known);
    let is_agents = conversation.is_some() || is_agents(request, known);
    if let (true, Some(home), Some(known)) = (is_agents, phase::Home::of(host), known) {
        jobs.extend(phase::job(home, known.created_at));
    }
    let last = known.and_then(|known| Some((known.run.as_deref()?, known.epoch)));
    // What an older run captures does not come from the session's head.
    let is_current = request.run.is_none_or(|(_, epoch)| known.is_none_or(|known| epoch >= known.epoch));
    let by_model = (is_agents && is_current).then(|| summary::model::for_next(store, &request.config.summary, request.session));
    capture::Wanted {
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
