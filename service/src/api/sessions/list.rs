//! Lists of sessions, by pages, by labels, and of those that changed.

use std::num::NonZeroUsize;

use axum::{Json, extract::State, routing::get};
use parhelia_ledger::Status;
use parhelia_oversight::labels::Selector;
use parhelia_wire::session as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::{
    api::{
        cursor::{Cursor, page},
        extract::Parameters,
        operation::{Answer, Operation},
    },
    app::{App, read},
    outbox::Backlog,
};

/// So many sessions are listed at a time, unless fewer are asked for.
const LISTED_MAX: usize = 1000;

/// A page of sessions, and the place in the journal that it is true of.
#[derive(Debug, Serialize, JsonSchema)]
struct Sessions {
    /// Sessions, the one that changed last first; behind them, those that changed since the first page was read, as they are now.
    sessions: Vec<wire::Session>,
    /// The next page's `before`; null on the last page.
    before: Option<u64>,
    /// Journal sequence up to which this is true: `changed_after` gives what changes later.
    sequence: u64,
    /// Messages about sessions that were not delivered, as of a few seconds ago.
    outbox: OutboxCounts,
}

/// Messages that were not delivered.
#[derive(Debug, Serialize, JsonSchema)]
struct OutboxCounts {
    /// Number of those that wait.
    waiting: u64,
    /// Number of those that are not tried again by themselves.
    failed: u64,
}

/// The sessions that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionsQuery {
    /// True to leave out sessions that have ended.
    #[serde(default)]
    open: bool,
    /// At most so many; 1000 is the most.
    limit: Option<NonZeroUsize>,
    /// The next page, as the page before names it.
    before: Option<u64>,
    /// Only those that changed after this journal sequence, in the order in which they changed.
    changed_after: Option<u64>,
    /// Only those with such labels: `KEY=VALUE`, `KEY!=VALUE`, `KEY`, `!KEY`, with `,` between them.
    label: Option<String>,
}

/// Route and description of `listSessions`.
pub fn operation() -> Operation {
    Operation::get("/v1/sessions", "listSessions", "Sessions, the one that changed last first, by pages.", get(list))
        .query::<SessionsQuery>()
        .gives::<Sessions>()
}

async fn list(State(app): State<App>, Parameters(listed): Parameters<SessionsQuery>) -> Answer<Sessions> {
    let cursor = match (listed.changed_after, listed.before.map(Cursor::of_number)) {
        (Some(_), Some(_)) => return Err(Problem::usage("give either `before` or `changed_after`")),
        (Some(sequence), None) => Some(Cursor::Since { sequence }),
        (None, cursor) => cursor,
    };
    let selector = listed.label.as_deref().map(str::parse::<Selector>).transpose()?;
    read(&app, move |app, view| {
        let mut sessions = app.listing.sessions(&app.store, view)?;
        sessions.retain(|session| selector.as_ref().is_none_or(|selector| selector.matches(session)));
        sessions.retain(|session| !listed.open || session.status != Status::Ended);
        let limit = listed.limit.map_or(LISTED_MAX, |limit| limit.get().min(LISTED_MAX));
        let (sessions, next) = page(sessions, |session| session.changed_sequence, cursor, limit, view.end().sequence);
        let seen = app.listing.seen(&app.store, view, &sessions)?;
        let sessions = seen.iter().map(|(seen, count)| wire::Session::of(&seen.session, &seen.overview, *count)).collect();
        let (before, sequence) = (next.map(Cursor::number), view.end().sequence);
        let Backlog { waiting, failed, .. } = app.verdicts.backlog();
        let outbox = OutboxCounts { waiting, failed };
        Ok(Json(Sessions { sessions, before, sequence, outbox }))
    })
    .await
}
