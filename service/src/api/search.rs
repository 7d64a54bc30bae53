//! Searching checkpoints by words.

use parhelia_ledger::LedgerView as _;
use std::num::NonZeroUsize;

use axum::{Json, extract::State, routing::get};
use parhelia_oversight::search::{self, Query, SearchRequest};
use parhelia_wire::checkpoint::SearchHit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    extract::Parameters,
    operation::{Answer, Operation},
};
use crate::app::{App, read};

/// So many are handed out, unless another number is asked for.
const HITS: usize = 20;
/// The most that may be asked for.
const HITS_MAX: usize = 1000;

/// A search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Words {
    /// Words that a checkpoint must have, all of them; a phrase in double quotes; a beginning as word*.
    q: String,
    /// Id or name of the session.
    session: Option<String>,
    /// At most so many, the best ones; 20 unless given, 1000 at most.
    limit: Option<NonZeroUsize>,
}

/// The result of a search.
#[derive(Debug, Serialize, JsonSchema)]
struct Results {
    /// Checkpoints, the best first.
    found: Vec<SearchHit>,
    /// Number of checkpoints that match.
    matching: u64,
    /// Number of checkpoints that were searched.
    searched: u64,
    /// Number of those of which only a part is searched.
    partial: u64,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/search", "searchCheckpoints", "Checkpoints that have some words, ranked, with excerpts.", get(run))
            .query::<Words>()
            .gives::<Results>(),
    ]
}

async fn run(State(app): State<App>, Parameters(words): Parameters<Words>) -> Answer<Results> {
    read(&app, move |app, view| {
        let query: Query = words.q.parse()?;
        let session = words.session.as_ref().map(|name| view.session_id(name)).transpose()?;
        let limit = words.limit.map_or(HITS, |limit| limit.get().min(HITS_MAX));
        let request = SearchRequest { query: &query, session: session.as_deref(), since: None, limit };
        let found = search::search(&app.store, &*app.host, &request, &())?;
        Ok(Json(Results {
            found: found.hits.iter().map(SearchHit::of).collect(),
            matching: found.matching,
            searched: found.searched,
            partial: found.partial,
        }))
    })
    .await
}
