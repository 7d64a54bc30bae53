//! Deliveries of notifications: those that wait, and those that failed for good.

use std::num::NonZeroUsize;

use axum::{Json, extract::State, routing::get};
use parhelia_wire::notification::Delivery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    extract::Parameters,
    operation::{Answer, Operation},
};
use crate::problem::Problem;
use crate::{
    app::{App, read},
    outbox::{Backlog, Folder},
};

/// So many deliveries are listed at most.
const LISTED_MAX: usize = 1000;

/// The deliveries that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutboxQuery {
    /// Only those that are not tried again by themselves.
    #[serde(default)]
    failed: bool,
    /// At most so many; 1000 is the most.
    limit: Option<NonZeroUsize>,
    /// Only those behind this one, as the page before names it.
    after: Option<String>,
}

/// A page of deliveries, and numbers of all of them.
#[derive(Debug, Serialize, JsonSchema)]
struct Deliveries {
    /// Number of those that wait.
    waiting: u64,
    /// Number of those that are not tried again by themselves.
    failed: u64,
    /// Time since which the oldest waits.
    #[schemars(extend("format" = "date-time"))]
    oldest: Option<String>,
    /// Deliveries, the oldest first.
    deliveries: Vec<Delivery>,
    /// True if there are more than were handed out.
    truncated: bool,
    /// The next page's `after`; null on the last page.
    after: Option<String>,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/outbox", "listOutbox", "Messages that wait to be delivered, and those that could not be.", get(list))
            .query::<OutboxQuery>()
            .gives::<Deliveries>(),
    ]
}

async fn list(State(app): State<App>, Parameters(listed): Parameters<OutboxQuery>) -> Answer<Deliveries> {
    read(&app, move |app, _| {
        let mut deliveries = Folder::of(&app.store).list().map_err(|e| Problem::failed(e.to_string()))?;
        let Backlog { waiting, failed, oldest } = Backlog::of(&deliveries);
        deliveries.retain(|delivery| delivery.has_failed || !listed.failed);
        deliveries.retain(|delivery| listed.after.as_ref().is_none_or(|after| delivery.id > *after));
        let limit = listed.limit.map_or(LISTED_MAX, |limit| limit.get().min(LISTED_MAX));
        deliveries.sort_by(|one, other| one.id.cmp(&other.id));
        let truncated = deliveries.len() > limit;
        deliveries.truncate(limit);
        let after = deliveries.last().filter(|_| truncated).map(|last| last.id.clone());
        let oldest = oldest.map(|oldest| oldest.to_string());
        Ok(Json(Deliveries { waiting, failed, oldest, deliveries, truncated, after }))
    })
    .await
}
