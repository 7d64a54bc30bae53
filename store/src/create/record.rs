//! The record of a new checkpoint.

use std::path::Path;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    Options,
    exclude::Excluder,
    roots::{Roots, count_omissions},
    state::CapturedState,
    walk::WalkOutcome,
};
use crate::{
    clock::{self, Uptime},
    id::Ulid,
    name,
    record::{ANOTHER_FOLDER, Part, RECORD_SCHEMA, Record, Rules, UPTIME, Workspace},
};

pub(super) fn new_id(created_at: Timestamp) -> Ulid {
    Ulid::from_parts(created_at.as_millisecond().max(0) as u64, Ulid::generate().random())
}

/// The fields that not every record has.
fn extra(options: &Options) -> Map<String, Value> {
    let another = options.of_another_folder.then(|| (ANOTHER_FOLDER.to_owned(), true.into()));
    let uptime = Uptime::now().and_then(|uptime| Some((UPTIME.to_owned(), serde_json::to_value(uptime).ok()?)));
    another.into_iter().chain(uptime).collect()
}

pub(super) fn new_record(
    options: &Options,
    excluder: &Excluder,
    path: &Path,
    walked: &WalkOutcome,
    started_at: Timestamp,
    roots: Roots,
    captured: CapturedState,
) -> Record {
    use std::os::unix::ffi::OsStrExt;
    let created_at = clock::timestamp();
    let totals = walked.root.node.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    Record {
        schema: RECORD_SCHEMA,
        id: new_id(created_at),
        session: options.session.clone(),
        run: options.run.clone(),
        epoch: options.epoch,
        fenced: false,
        parent: None,
        depth: 1,
        trigger: options.trigger,
        told_cause: Some(options.cause),
        trigger_detail: options.trigger_detail.clone(),
        message: options.message.clone(),
        root: roots.tree,
        links: roots.links,
        parts: captured.parts.into_iter().chain([("workspace".to_owned(), Part::Captured)]).collect(),
        consistency: captured.consistency,
        started_at,
        created_at,
        workspace: Workspace {
            path: name::display(path.as_os_str().as_bytes()),
            files: totals.files,
            folders: totals.folders,
            entries: totals.entries,
            bytes: totals.bytes,
        },
        rules: Rules { listed_only: options.listed.is_some(), ..excluder.rules().clone() },
        omitted: count_omissions(roots, &walked.omissions),
        conversation: captured.conversation,
        git: captured.git,
        environment: captured.environment,
        usage: captured.usage,
        extra: extra(options),
    }
}
