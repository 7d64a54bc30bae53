//! `session show`: everything about one session.

use parhelia_ledger::{EndKind, Goal, LedgerView as _, Place, Run, Session, Status};
use parhelia_life::{
    overview::{Overview, observed::AgentState},
    workspace::{beside, worktrees},
};
use parhelia_oversight::review::link;
use parhelia_screen::human;
use parhelia_store::{Store, clock, view::View};
use parhelia_wire::{Line, Summary, session as wire};

use super::list::{failing_texts, hooks_text, interrupted_text, open_text, set_aside_text, unseen_text, unsupervised_text};
use crate::{
    complete,
    context::Context,
    elsewhere,
    exit::{Code, Result},
};

/// Flags of `session show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its id, or its name; of several of that name, the one that is wanted running
    #[arg(add = complete::sessions())]
    session: String,
}

/// Prints it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    print(context, &store, &session)
}

/// Prints everything about a session.
pub fn print(context: &mut Context, store: &Store, session: &Session) -> Result<Code> {
    let view = store.view();
    let runs: Vec<Run> = session.runs.iter().filter_map(|id| view.run(id).transpose()).collect::<Result<_, _>>()?;
    let overview = Overview::of(store, session)?;
    let checkpoints = view.newest_first_of(&session.id)?.count() as u64;
    if context.out.json {
        context.out.object(Line::Session(Box::new(wire::Session::of(session, &overview, checkpoints))))?;
        for run in &runs {
            context.out.object(Line::Run(Box::new(run.into())))?;
        }
        let (id, runs) = (session.id.clone(), runs.len() as u64);
        context.out.summary(Summary::SessionShow { id, runs, checkpoints })?;
        return Ok(Code::Done);
    }
    context.out.page()?;
    let asked = link::of_session(&view, &session.id)?.into_iter().filter(|(_, is_asked)| *is_asked);
    let asked = asked.map(|(issue, _)| ("Asks for", format!("{}: no person has linked it", human::path(issue.url.as_bytes()))));
    let runs = asked.chain(runs.iter().map(|run| ("Run", run_text(run))));
    context.out.facts(facts(&view, session, &overview, checkpoints)?.into_iter().chain(runs), 14)?;
    Ok(Code::Done)
}

fn facts(view: &View, session: &Session, overview: &Overview, checkpoints: u64) -> Result<Vec<(&'static str, String)>> {
    let text = |text: &str| human::path(text.as_bytes());
    let now = clock::timestamp();
    let why = session
        .status_reason
        .as_ref()
        .filter(|reason| *reason != session.status.name())
        .map(|reason| format!(" ({})", text(reason)))
        .unwrap_or_default();
    let mut facts = vec![("Session", text(&session.id))];
    if session.name != session.id {
        facts.push(("Name", text(&session.name)));
    }
    facts.push(("Status", format!("{}{why}", status_word(session, overview))));
    let because = overview
        .why
        .as_ref()
        .filter(|why| *why != session.status.name())
        .map(|why| format!(" ({})", text(why)))
        .unwrap_or_default();
    facts.extend(overview.wanted.map(|wanted| ("Wanted", wanted.name().to_owned())));
    facts.push(("Found", format!("{}{because}", overview.observed.name())));
    facts.extend(failing_texts(&session.id, overview).iter().map(|failing| ("Failing", text(failing))));
    facts.extend(open_text(&session.id, overview).map(|text| ("Beware", text)));
    facts.extend(overview.unseen.as_ref().map(|text| ("Beware", unseen_text(&session.id, text))));
    facts.extend(overview.unsupervised.as_ref().map(|found| ("Beware", unsupervised_text(session, found))));
    facts.extend(overview.hooks_silent.as_ref().map(|said| ("Beware", text(&hooks_text(&session.id, said)))));
    facts.push(("Created", format!("{} ({})", human::local(session.created_at), human::ago(session.created_at, now))));
    facts.push(("Changed", human::ago(session.changed_at, now)));
    if let Some(place) = &session.workspace {
        let gone = if overview.workspace_exists { "" } else { ", which is not there" };
        facts.push(("Workspace", format!("{}{gone}", place.path)));
    }
    if let Some(place) = &session.workspace {
        let outside = worktrees::outside(&place.folder(), session.created_at.into());
        for path in &outside.folders {
            let shown = human::path(path.as_os_str().as_encoded_bytes());
            if beside::kept(view, path)?.is_none() {
                facts.push(("Beware", format!("the working tree {shown} is in no checkpoint")));
            }
        }
        if outside.is_cut {
            facts.push(("Beware", "the repository has more working trees, which were not looked at".to_owned()));
        }
    }
    for tree in beside::trees_of(view, &session.id)? {
        let Some(place) = tree.workspace.as_ref().map(Place::folder) else { continue };
        let gone = if place.is_dir() { "" } else { ", which is gone" };
        let shown = human::path(place.as_os_str().as_encoded_bytes());
        let kept = elsewhere::kept_text(view, &place)?.unwrap_or_else(|| "and is in no checkpoint".to_owned());
        facts.push(("Working tree", format!("{shown}{gone}, {kept}")));
    }
    let seen = beside::worked_in(session);
    facts.extend(seen.iter().map(|folder| ("Seen in", human::path(folder.as_os_str().as_encoded_bytes()))));
    facts.extend(beside::beside(session).map(|other| ("Beside", format!("session {}", text(other)))));
    facts.extend(overview.another_folder.as_ref().map(|said| ("Beware", text(said))));
    facts.extend(overview.set_aside.as_ref().map(|why| ("Beware", set_aside_text(&session.id, why))));
    facts.extend(overview.interrupted_rollback.map(|target| ("Beware", interrupted_text(&session.id, target))));
    facts.push(("Checkpoints", format!("{checkpoints}, of {} made", session.totals.checkpoints)));
    if let Some(head) = session.head {
        facts.push(("Head", head.to_string()));
    }
    facts.extend(overview.review.map(|status| {
        ("Review", format!("{}: `parhelia session review {}`", status.name(), human::shell(session.id.as_bytes())))
    }));
    facts.push(("Epoch", session.epoch.to_string()));
    for (label, value) in [("Policy", &session.policy), ("Project", &session.project), ("First prompt", &session.first_prompt)] {
        facts.extend(value.as_ref().map(|value| (label, text(value.lines().next().unwrap_or_default()))));
    }
    facts.extend(overview.last_prompt.as_ref().map(|prompt| ("Last prompt", text(prompt))));
    let unknown = || "unknown: the agent has not told it, and `cost.prices` has no price of its model".to_owned();
    if session.totals.cost_usd.is_some() || !overview.conversations.is_empty() {
        facts.push(("Cost", session.totals.cost_usd.map_or_else(unknown, human::cost)));
    }
    if session.totals.active_seconds > 0 {
        facts.push(("Worked in", human::span(session.totals.active_seconds)));
    }
    if session.totals.errors > 0 {
        facts.push(("Errors", session.totals.errors.to_string()));
    }
    for conversation in &overview.conversations {
        let turns = conversation.turn_count.map(|turns| format!(", {}", human::count(turns, "turn"))).unwrap_or_default();
        facts.push(("Conversation", format!("{}{turns}", text(&conversation.id))));
    }
    Ok(facts)
}

/// The status for people: an agent that died by itself was not paused, though a run that ends so leaves its session in that state.
fn status_word(session: &Session, overview: &Overview) -> &'static str {
    let is_dead = session.status == Status::Paused && overview.wanted == Some(Goal::Running) && !overview.observed.is_alive();
    if is_dead { AgentState::Dead.name() } else { session.status.name() }
}

fn run_text(run: &Run) -> String {
    let mut parts = vec![format!("{} (epoch {})", human::path(run.id.as_bytes()), run.epoch)];
    parts.push(format!("began {}", human::local(run.started_at)));
    parts.extend(run.resumed_from.as_ref().map(|from| format!("resumed from {from}")));
    parts.extend(run.pid.filter(|_| run.is_open()).map(|pid| format!("process {pid}")));
    if let Some(ended) = run.ended_at {
        let why = run.exit_reason.as_deref().map(|why| format!(": {}", human::path(why.as_bytes()))).unwrap_or_default();
        // Of an end that nobody saw, that is all that is known.
        let is_unseen = run.ending().is_some_and(|end| end.kind == EndKind::Unknown);
        parts.push(format!("{} {}{why}", if is_unseen { "last heard of" } else { "ended" }, human::local(ended)));
    }
    parts.join(", ")
}
