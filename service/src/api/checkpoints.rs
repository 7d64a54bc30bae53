//! Checkpoints: listing and showing them, what differs between two, and what is said of them.

use std::{num::NonZeroUsize, time::Duration};

use axum::{
    Extension, Json,
    extract::State,
    routing::{get, post},
};
use parhelia_host::Host as _;
use parhelia_ledger::{Annotation, LedgerView as _, Place, selector};
use parhelia_life::manifest::Manifest;
use parhelia_oversight::{
    changed,
    review::{
        annotation::{self, Text},
        decide::{DecisionRequest, Verdict},
        tag::{self, Tag},
    },
};
use parhelia_store::{
    Error, Store,
    diff::{Summary, TextOptions, file_diff, store_content},
    id::Ulid,
    name,
    pin::Pin,
    record::{self, Outline},
    view::View,
};
use parhelia_wire::{
    checkpoint::{Approval, Checkpoint},
    diff::Change,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    extract::{JsonBody, Parameters, PathParameters},
    operation::{Answer, Operation},
};
use crate::problem::Problem;
use crate::{
    app::{App, note, read},
    caller::{Caller, Peer},
};

/// So many checkpoints are listed at a time, unless fewer are asked for.
const LISTED_MAX: usize = 1000;
/// So many changes are handed out, unless fewer are asked for.
const CHANGES_MAX: usize = 10_000;
/// The shortest difference of a file's lines is looked for no longer; two long files in another order have none that is found soon.
const LINES_TIME: Duration = Duration::from_secs(5);

/// A page of checkpoints.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Page {
    /// At most so many; 1000 is the most.
    limit: Option<NonZeroUsize>,
    /// Only those that were committed before this sequence, which the page before names.
    before: Option<u64>,
}

/// A page of the checkpoints of a session.
#[derive(Debug, Serialize, JsonSchema)]
struct Checkpoints {
    /// Checkpoints, the one that was committed last first.
    checkpoints: Vec<Checkpoint>,
    /// The next page's `before`; null on the last page.
    before: Option<u64>,
}

/// The other side of a comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Against {
    /// Newer checkpoint.
    to: String,
    /// One file, of which the differing lines are wanted as well.
    path: Option<String>,
    /// At most so many changes; 10,000 is the most.
    limit: Option<NonZeroUsize>,
    /// Only changes behind so many, as the page before says.
    #[serde(default)]
    after: usize,
}

/// The differences of two checkpoints.
#[derive(Debug, Serialize, JsonSchema)]
struct Diff {
    /// Older checkpoint.
    old: String,
    /// Newer checkpoint.
    new: String,
    /// Changes of a page, in order of their paths.
    changes: Vec<Change>,
    /// True if there are more changes than were handed out.
    truncated: bool,
    /// The next page's `after`; null on the last page.
    after: Option<usize>,
    /// Numbers of all changes.
    counts: Summary,
}

/// A person's decision about a checkpoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decision {
    /// The reason, for whoever looks at it later.
    #[schemars(length(min = 1))]
    reason: Option<String>,
    /// True to decide otherwise than somebody has before.
    #[serde(default)]
    change: bool,
}

/// A decision that holds.
#[derive(Debug, Serialize, JsonSchema)]
struct DecisionResponse {
    /// The checkpoint.
    id: String,
    /// The decision.
    approval: Approval,
    /// False if somebody had decided the same before.
    recorded: bool,
}

/// Tags to be added.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewTags {
    /// Tags, such as release/1.2.
    #[schemars(inner(length(min = 1, max = 200)))]
    tags: Vec<String>,
}

/// The tags of a checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
struct Tags {
    /// The checkpoint.
    id: String,
    /// Tags that it did not have before.
    added: Vec<String>,
    /// Tags that it bears now, in order of their bytes.
    tags: Vec<String>,
}

/// A remark.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewAnnotation {
    /// Text of the remark, which may have several lines.
    #[schemars(length(min = 1))]
    text: String,
}

/// A remark that was added.
#[derive(Debug, Serialize, JsonSchema)]
struct AnnotationResponse {
    /// The checkpoint.
    id: String,
    /// The remark.
    annotation: Annotation,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/v1/sessions/{session}/checkpoints",
            "listCheckpoints",
            "Checkpoints of a session, newest first, by pages.",
            get(list),
        )
        .query::<Page>()
        .gives::<Checkpoints>(),
        Operation::get(
            "/v1/checkpoints/{checkpoint}",
            "getCheckpoint",
            "The manifest of a checkpoint, by schema 1.2. A checkpoint is named by its id, a part of it, or tag:NAME.",
            get(show),
        )
        .gives::<Value>(),
        Operation::get(
            "/v1/checkpoints/{checkpoint}/diff",
            "diffCheckpoints",
            "What differs between two checkpoints.",
            get(diff),
        )
        .query::<Against>()
        .gives::<Diff>(),
        Operation::post("/v1/checkpoints/{id}/approve", "approveCheckpoint", "Says that a state is good.", post(approve))
            .takes::<Decision>()
            .gives::<DecisionResponse>(),
        Operation::post(
            "/v1/checkpoints/{id}/reject",
            "rejectCheckpoint",
            "Says that nothing shall go on from a state.",
            post(reject),
        )
        .takes::<Decision>()
        .gives::<DecisionResponse>(),
        Operation::post("/v1/checkpoints/{id}/tags", "tagCheckpoint", "Adds tags, all or none.", post(tags))
            .takes::<NewTags>()
            .gives::<Tags>(),
        Operation::post("/v1/checkpoints/{id}/annotations", "annotateCheckpoint", "Adds a remark.", post(annotate))
            .takes::<NewAnnotation>()
            .gives::<AnnotationResponse>(),
    ]
}

/// A checkpoint as other programs see it.
pub fn shown(view: &View, checkpoint: &record::Checkpoint) -> Result<Checkpoint, Problem> {
    Ok(Checkpoint::of(&Outline::from(checkpoint), &view.marks(checkpoint.record.id)?))
}

async fn list(
    State(app): State<App>,
    PathParameters(name): PathParameters<String>,
    Parameters(page): Parameters<Page>,
) -> Answer<Checkpoints> {
    read(&app, move |_, view| {
        let session = view.session_id(&name)?;
        let limit = page.limit.map_or(LISTED_MAX, |limit| limit.get().min(LISTED_MAX));
        let mut found = Vec::new();
        for checkpoint in view.newest_first_of(&session)? {
            let checkpoint = checkpoint?;
            if page.before.is_some_and(|before| checkpoint.sequence >= before) {
                continue;
            }
            found.push(checkpoint);
            if found.len() > limit {
                break;
            }
        }
        let has_more = found.len() > limit;
        found.truncate(limit);
        let before = found.last().filter(|_| has_more).map(|last| last.sequence);
        let checkpoints = found.iter().map(|checkpoint| shown(view, checkpoint)).collect::<Result<_, _>>()?;
        Ok(Json(Checkpoints { checkpoints, before }))
    })
    .await
}

/// A checkpoint that is kept readable as long as the pin is held.
pub fn pinned(store: &Store, selector: &str) -> Result<(record::Checkpoint, Option<Pin>), Problem> {
    let found = selector::find(&*store.refresh()?, selector)?;
    let pin = store.pin_for_reading([found.record.id], "the service", |_| {});
    // It may have been deleted before it was pinned.
    match store.refresh()?.checkpoint(found.record.id)? {
        Some(found) => Ok((found, pin)),
        None => Err(Error::NoCheckpoint { selector: selector.to_owned() }.into()),
    }
}

async fn show(State(app): State<App>, PathParameters(selector): PathParameters<String>) -> Answer<Value> {
    read(&app, move |app, view| {
        let checkpoint = selector::find(view, &selector)?;
        Ok(Json(Manifest::with(&app.store, &checkpoint, &view.marks(checkpoint.record.id)?).to_json()))
    })
    .await
}

async fn diff(
    State(app): State<App>,
    PathParameters(selector): PathParameters<String>,
    Parameters(against): Parameters<Against>,
) -> Answer<Diff> {
    read(&app, move |app, _| {
        let store = &app.store;
        let (old, _old_pin) = pinned(store, &selector)?;
        let (new, _new_pin) = pinned(store, &against.to)?;
        let mut changes = changed::between(store, &old, &new)?;
        let counts = Summary::of(&changes);
        if let Some(path) = &against.path {
            let wanted = name::parse(path);
            changes.retain(|change| change.path == wanted || change.old_path() == wanted);
        }
        let limit = against.limit.map_or(CHANGES_MAX, |limit| limit.get().min(CHANGES_MAX));
        changes.drain(..against.after.min(changes.len()));
        let truncated = changes.len() > limit;
        changes.truncate(limit);
        let after = truncated.then(|| against.after.saturating_add(limit));
        let shown = |change| -> Result<Change, Problem> {
            let shown = Change::from(change);
            if against.path.is_none() {
                return Ok(shown);
            }
            let (old, new) = (store_content(store), store_content(store));
            let difference = file_diff(change, &old, &new, TextOptions { time_max: Some(LINES_TIME), ..TextOptions::default() })?;
            Ok(shown.with_diff(difference.map(|lines| String::from_utf8_lossy(&lines).into_owned())))
        };
        let changes = changes.iter().map(shown).collect::<Result<_, _>>()?;
        Ok(Json(Diff { old: old.id(), new: new.id(), changes, truncated, after, counts }))
    })
    .await
}

/// The id of a checkpoint of which something is to be said: a whole one, so that nobody means another.
pub fn whole(id: &str) -> Result<Ulid, Problem> {
    id.parse().map_err(|_| Problem::usage(format!("'{id}' is no whole id of a checkpoint, which this needs")))
}

async fn approve(
    state: State<App>,
    peer: Extension<Peer>,
    id: PathParameters<String>,
    decision: JsonBody<Decision>,
) -> Answer<DecisionResponse> {
    decide(state, peer, id, decision, Verdict::Approve).await
}

async fn reject(
    state: State<App>,
    peer: Extension<Peer>,
    id: PathParameters<String>,
    decision: JsonBody<Decision>,
) -> Answer<DecisionResponse> {
    decide(state, peer, id, decision, Verdict::Reject).await
}

async fn decide(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(id): PathParameters<String>,
    JsonBody(decision): JsonBody<Decision>,
    verdict: Verdict,
) -> Answer<DecisionResponse> {
    let checkpoint = whole(&id)?;
    if !peer.is_known() {
        return Err(Problem::forbidden(
            "the caller cannot be seen from the service, and may be an agent; decide from where it runs",
        ));
    }
    note(&app, move |app| {
        let reason = decision.reason.as_deref().map(Text::new).transpose()?;
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let view = app.store.refresh()?;
        let session = view.checkpoint(checkpoint)?.map(|found| found.record.session).unwrap_or_default();
        let place = view.session(&session)?.and_then(|session| session.workspace).map(|place| Place::folder(&place));
        let options = caller.config(&place.unwrap_or_else(|| "/".into()))?.approval;
        let changes = decision.change;
        let request = DecisionRequest { checkpoint, verdict, reason: reason.as_ref(), changes, options: &options };
        let decided = parhelia_knowledge::decide::decide(&app.store, &caller, &request, &())?;
        Ok(Json(DecisionResponse { id, approval: (&decided.approval).into(), recorded: !decided.had }))
    })
    .await
}

async fn tags(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(id): PathParameters<String>,
    JsonBody(given): JsonBody<NewTags>,
) -> Answer<Tags> {
    let checkpoint = whole(&id)?;
    note(&app, move |app| {
        let tags = given.tags.iter().map(|tag| tag.parse::<Tag>()).collect::<Result<Vec<_>, _>>()?;
        let tagged = tag::tag(&app.store, &Caller { service: &*app.host, store: &app.store, peer }, checkpoint, &tags, &())?;
        let added = tagged.added.iter().map(ToString::to_string).collect();
        Ok(Json(Tags { id, added, tags: tagged.tags.into_iter().collect() }))
    })
    .await
}

async fn annotate(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(id): PathParameters<String>,
    JsonBody(given): JsonBody<NewAnnotation>,
) -> Answer<AnnotationResponse> {
    let checkpoint = whole(&id)?;
    note(&app, move |app| {
        let text = Text::new(&given.text)?;
        let (annotation, _) =
            annotation::annotate(&app.store, &Caller { service: &*app.host, store: &app.store, peer }, checkpoint, &text, &())?;
        Ok(Json(AnnotationResponse { id, annotation }))
    })
    .await
}
