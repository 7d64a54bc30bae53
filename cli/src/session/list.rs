//! `session list`: what there is: sessions that need a person, and then the others, the one that changed last first.

use parhelia_store::name::NameExt as _;
use std::collections::HashMap;

use jiff::Timestamp;
use parhelia_host::run::FailureStreak;
use parhelia_ledger::{LedgerView as _, Session, Status};
use parhelia_life::overview::{Overview, UnsupervisedAgent, observed::AgentState};
use parhelia_oversight::labels::Selector;
use parhelia_screen::human;
use parhelia_store::{clock, id::Ulid, name};
use parhelia_wire::{Line, Summary, session as wire};

use crate::{
    context::Context,
    exit::{Code, Result},
    layout::Table,
    when,
};

/// So much of a prompt is shown in a table, in characters.
const PROMPT_CHARACTERS_MAX: usize = 40;
/// So much of a reason.
const WHY_CHARACTERS_MAX: usize = 48;

/// Flags of `session list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave out sessions that have ended
    #[arg(long)]
    open: bool,
    /// Only the N that changed last
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Only those that changed since then: a time such as 2026-01-16, or an age such as 2h or 3d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Only those with such labels, such as env=prod,team: KEY=VALUE, KEY!=VALUE, KEY, !KEY, with `,` between them
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    label: Option<Selector>,
}

/// Prints the list.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let view = store.view();
    let mut sessions = view.all_sessions()?;
    sessions.retain(|session| !args.open || session.status != Status::Ended);
    sessions.retain(|session| args.since.is_none_or(|since| session.changed_at >= since));
    sessions.retain(|session| args.label.as_ref().is_none_or(|selector| selector.matches(session)));
    sessions.sort_by_key(|session| std::cmp::Reverse(session.changed_sequence));
    sessions.truncate(args.limit.unwrap_or(usize::MAX));
    let mut counts: HashMap<String, u64> = HashMap::new();
    for outline in view.outlines()? {
        *counts.entry(outline.session).or_default() += 1;
    }
    let mut listed = Vec::new();
    for session in sessions {
        let overview = Overview::of(&store, &session)?;
        let count = counts.get(&session.id).copied().unwrap_or(0);
        listed.push(SessionRow { session, overview, count });
    }
    // What needs a person comes first; the order of changes is kept among the others.
    listed.sort_by_key(|one| one.overview.needs(&one.session).map_or(u8::MAX, |need| need as u8));
    if context.out.json {
        for one in &listed {
            let shown = wire::Session::of(&one.session, &one.overview, one.count);
            context.out.object(Line::Session(Box::new(shown)))?;
        }
        context.out.summary(Summary::SessionList { sessions: listed.len() as u64 })?;
        return Ok(Code::Done);
    }
    if listed.is_empty() && args.limit != Some(0) {
        let of_label = args.label.as_ref().map_or("", |_| " with such labels");
        context.out.remark(format!("No sessions{of_label} in {}.", store.path().shown()))?;
        return Ok(Code::Done);
    }
    if !listed.is_empty() {
        print(context, &listed)?;
    }
    for one in &listed {
        for text in warnings(&one.session, &one.overview) {
            tell!("parhelia: {text}");
        }
    }
    Ok(Code::Done)
}

/// A session as it is listed.
struct SessionRow {
    session: Session,
    overview: Overview,
    count: u64,
}

/// The state of a session in a word: of one that shall not run, what was asked for.
pub fn state(session: &Session, overview: &Overview) -> &'static str {
    match overview.state(session) {
        state if state == AgentState::None.name() => "–",
        state => state,
    }
}

/// Sentences about all that is wrong with a session.
pub fn warnings(session: &Session, overview: &Overview) -> Vec<String> {
    let mut texts = failing_texts(&session.id, overview);
    texts.extend(open_text(&session.id, overview));
    texts.extend(overview.unseen.as_ref().map(|text| unseen_text(&session.id, text)));
    texts.extend(overview.unsupervised.as_ref().map(|found| unsupervised_text(session, found)));
    texts.extend(overview.hooks_silent.as_ref().map(|text| hooks_text(&session.id, text)));
    texts.extend(overview.another_folder.clone());
    texts.extend(overview.set_aside.as_ref().map(|why| set_aside_text(&session.id, why)));
    texts.extend(overview.interrupted_rollback.map(|target| interrupted_text(&session.id, target)));
    texts
}

/// The sentence about a session of whose agent's hooks no event has come.
pub fn hooks_text(session: &str, text: &str) -> String {
    format!("session {session}: {text}; `parhelia hooks status` shows each layer of settings")
}

/// The sentence about a session that a policy has set aside.
pub fn set_aside_text(session: &str, why: &str) -> String {
    format!(
        "Session {session} waits for you: {why}; `parhelia session recover {}` says what can be done.",
        human::shell(session.as_bytes())
    )
}

/// Lines about checkpoints that fail.
pub fn failing_texts(session: &str, overview: &Overview) -> Vec<String> {
    let failed = overview.failing.as_ref().map(|FailureStreak { since, count, reason, .. }| {
        let since = human::ago(*since, clock::timestamp());
        format!("session {session}: {} failed since {since}: {reason}", human::count(*count, "checkpoint"))
    });
    let text = || format!("session {session}: the store's filesystem is read-only, and no checkpoint of it can be made");
    let full =
        || format!("session {session}: the store's filesystem is full, and a checkpoint of it that has something new fails");
    failed.into_iter().chain(overview.store_is_read_only.then(text)).chain(overview.store_is_full.then(full)).collect()
}

/// A sentence about somebody who has the conversation of a session open whose agent is dead, or not known.
pub fn open_text(session: &str, overview: &Overview) -> Option<String> {
    let process = overview.open_in?;
    let which = match overview.observed {
        AgentState::Dead => "which is not its agent",
        _ => "which may be its agent",
    };
    Some(format!(
        "session {session}: its conversation is open in process {process}, {which}; nothing is resumed while that lives"
    ))
}

/// A sentence about somebody outside of this container who may have the conversation of a dead session open.
pub fn unseen_text(session: &str, text: &str) -> String {
    format!("session {session}: {text}; nothing is resumed in here without --take-over")
}

/// A sentence about a rollback that was interrupted, and the next step.
pub fn interrupted_text(session: &str, target: Ulid) -> String {
    format!(
        "session {session}: a rollback to {target} was interrupted, and files of two states are in its workspace; \
         `parhelia checkpoint rollback {target}` finishes it"
    )
}

/// A sentence about a session that lives without its supervisor, and the next step.
pub fn unsupervised_text(session: &Session, found: &UnsupervisedAgent) -> String {
    let (id, process) = (&session.id, found.process);
    let why = found.silent.as_ref().map(|silent| format!(", as {silent}")).unwrap_or_default();
    let made = match (found.service_interval_seconds, found.has_hooks) {
        (None, true) => "checkpoints of it are made by its hooks alone".to_owned(),
        (None, false) => format!("no checkpoints of it are made any more{why}"),
        (Some(seconds), has_hooks) => {
            let by = if has_hooks { "by its hooks, and by the service" } else { "by the service alone" };
            format!("checkpoints of it are made {by} every {seconds} s where something has changed{why}")
        }
    };
    let folder = session.workspace.as_ref().map(|place| human::shell(&name::parse(&place.path))).unwrap_or_default();
    format!(
        "session {id}: it has no supervisor, and {made}; `parhelia checkpoint create {id} --workspace {folder}` makes one, and \
         `parhelia session resume {id}` supervises it again when its process {process} has ended"
    )
}

fn print(context: &mut Context, listed: &[SessionRow]) -> Result<()> {
    let now = clock::timestamp();
    let none = || "–".to_owned();
    let place = |one: &SessionRow| one.session.workspace.as_ref().map(|place| place.path.clone());
    let has_many_places = listed.iter().any(|one| place(one) != place(&listed[0]));
    let mut names = vec!["SESSION", "STATE", "CHECKPOINT", "COUNT", "COST", "WHY", "LAST PROMPT"];
    let has_reviews = listed.iter().any(|one| one.overview.review.is_some());
    names.extend(has_reviews.then_some("REVIEW"));
    names.extend(has_many_places.then_some("WORKSPACE"));
    let mut rows = vec![names.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    rows.extend(listed.iter().map(|one| {
        let (session, overview) = (&one.session, &one.overview);
        let name = if session.name == session.id { String::new() } else { format!(" ({})", session.name) };
        let mut state = state(session, overview).to_owned();
        let is_alone = overview.unsupervised.is_some();
        let is_gone = !overview.workspace_exists && session.status != Status::Ended;
        for (is_so, mark) in [(overview.is_failing(), ", FAILING"), (is_alone, ", UNSUPERVISED"), (is_gone, ", FOLDER GONE")] {
            state.push_str(if is_so { mark } else { "" });
        }
        let mut row = vec![
            human::path(format!("{}{name}", session.id).as_bytes()),
            state,
            overview.last_checkpoint.as_ref().map_or_else(none, |saved| human::age(saved.created_at, now)),
            human::number(one.count),
            session.totals.cost_usd.map_or_else(none, human::cost),
            overview.reason().map_or_else(none, |why| cut(why, WHY_CHARACTERS_MAX)),
            overview.last_prompt.as_deref().map_or_else(none, |prompt| cut(prompt, PROMPT_CHARACTERS_MAX)),
        ];
        row.extend(has_reviews.then(|| overview.review.map_or(String::new(), |status| status.name().to_owned())));
        row.extend(has_many_places.then(|| place(one).unwrap_or_else(none)));
        row
    }));
    context.out.table(&Table { rows: &rows, right: &[3, 4], dropped: &["WORKSPACE", "COST", "COUNT", "WHY", "LAST PROMPT"] })
}

/// A text on one line, with everything escaped that steers a terminal.
fn cut(text: &str, characters_max: usize) -> String {
    let shown: String = text.chars().take(characters_max).collect();
    let shown = human::path(shown.as_bytes());
    if text.chars().nth(characters_max).is_some() { format!("{shown}…") } else { shown }
}
