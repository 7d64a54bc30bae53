//! Contents of a checkpoint: its folders, its conversation, and its environment beside that of an older one.

use std::{collections::VecDeque, num::NonZeroUsize};

use axum::{Json, extract::State, routing::get};
use parhelia_agent::{
    environment::{self, diff::EnvironmentChange},
    transcript::messages::Message,
};
use parhelia_host::conversation::added;
use parhelia_life::{environment::packages, review_report::Baseline};
use parhelia_oversight::review::unseen::Exclusions;
use parhelia_store::{name, tree::Kind};
use parhelia_wire::tree::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    checkpoints::pinned,
    extract::{Parameters, PathParameters},
    operation::{Answer, Operation},
};
use crate::app::{App, read};
use crate::problem::Problem;

/// So many entries of a folder are listed at a time, unless fewer are asked for.
const ENTRIES_MAX: usize = 10_000;
/// So much of each message is handed out, unless more is asked for.
const TEXT_BYTES_MAX: usize = 4000;
/// So many messages are, the newest ones.
const MESSAGES_MAX: usize = 5000;
/// So many bytes of texts are handed out at a time, unless one message has more.
const PAGE_BYTES_MAX: usize = 32 << 20;

/// A folder of a checkpoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Folder {
    /// Path of the folder; the workspace itself, if it is left out.
    #[serde(default)]
    path: String,
    /// At most so many; 10,000 is the most.
    limit: Option<NonZeroUsize>,
    /// Only entries behind this path, which the page before names.
    after: Option<String>,
}

/// The entries of a folder.
#[derive(Debug, Serialize, JsonSchema)]
struct Entries {
    /// ULID of the checkpoint that was read.
    checkpoint: String,
    /// Path of the folder; empty for the workspace itself.
    path: String,
    /// What is in it, each with its path in the checkpoint.
    entries: Vec<Entry>,
    /// The next page's `after`; null on the last page.
    after: Option<String>,
}

/// An older checkpoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Later {
    /// Older checkpoint, of which only what came after is wanted.
    since: Option<String>,
    /// Only messages before this one, counted from 0: the `left_out` of a page names the one before it.
    before: Option<u64>,
    /// At most so many, the last ones; 5,000 is the most.
    limit: Option<NonZeroUsize>,
    /// Bytes of a text above which its beginning comes; 4,000 unless given.
    text_bytes: Option<NonZeroUsize>,
}

/// A page of the messages of a checkpoint's conversation.
#[derive(Debug, Serialize, JsonSchema)]
struct ConversationMessages {
    /// ULID of the checkpoint that was read.
    checkpoint: String,
    /// Older checkpoint.
    since: Option<String>,
    /// True if it continues that of the older checkpoint, and only what came after is here.
    continues: bool,
    /// Messages, oldest first; each with the beginning of its text.
    messages: Vec<Message>,
    /// Number of messages before these: the next page's `before`, unless it is 0.
    left_out: u64,
}

/// The difference of two environments.
#[derive(Debug, Serialize, JsonSchema)]
struct Environments {
    /// Older checkpoint.
    old: String,
    /// Newer checkpoint.
    new: String,
    /// Differences.
    changes: Vec<EnvironmentChange>,
    /// Parts that one of them did not capture.
    unknown: Vec<String>,
}

/// Another checkpoint to compare with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffQuery {
    /// Older checkpoint.
    since: String,
}

/// Everything that rules leave out of a checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftOut {
    /// ULID of the checkpoint that was read.
    checkpoint: String,
    /// The last checkpoint before it that a person approved; null if there is none.
    since: Option<String>,
    /// Entries that rules leave out, so that no comparison shows them.
    unseen: Exclusions,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/v1/checkpoints/{checkpoint}/left-out",
            "listLeftOut",
            "List the entries that rules leave out of a checkpoint, and the rules that are new since a person approved one.",
            get(left_out),
        )
        .gives::<LeftOut>(),
        Operation::get(
            "/v1/checkpoints/{checkpoint}/entries",
            "listEntries",
            "The entries of a folder of a checkpoint, by pages.",
            get(entries),
        )
        .query::<Folder>()
        .gives::<Entries>(),
        Operation::get(
            "/v1/checkpoints/{checkpoint}/conversation",
            "getConversation",
            "The conversation of a checkpoint, or what it adds to that of an older one.",
            get(conversation),
        )
        .query::<Later>()
        .gives::<ConversationMessages>(),
        Operation::get(
            "/v1/checkpoints/{checkpoint}/environment",
            "diffEnvironments",
            "What differs in the environment since an older checkpoint.",
            get(environments),
        )
        .query::<DiffQuery>()
        .gives::<Environments>(),
    ]
}

async fn entries(
    State(app): State<App>,
    PathParameters(selector): PathParameters<String>,
    Parameters(Folder { path, limit, after }): Parameters<Folder>,
) -> Answer<Entries> {
    read(&app, move |app, _| {
        let (checkpoint, _pin) = pinned(&app.store, &selector)?;
        let folder = name::parse(&path);
        let node = app.store.node_at(&checkpoint, &folder)?;
        let Kind::Folder { tree, .. } = node.kind else {
            return Err(Problem::usage(format!("{path} is a {}, and no folder", node.kind.name())));
        };
        let nodes = app.store.folder(tree)?;
        let limit = limit.map_or(ENTRIES_MAX, |limit| limit.get().min(ENTRIES_MAX));
        let after = after.map(|after| name::parse(&after));
        let paths = nodes.iter().map(|node| (name::join(&folder, &node.name), node));
        let mut behind = paths.filter(|(path, _)| after.as_ref().is_none_or(|after| path > after));
        let entries: Vec<_> = behind.by_ref().take(limit).map(|(path, node)| Entry::of(&path, node)).collect();
        let after = behind.next().and_then(|_| entries.last().map(|last| last.path.clone()));
        Ok(Json(Entries { checkpoint: checkpoint.id(), path, entries, after }))
    })
    .await
}

async fn left_out(State(app): State<App>, PathParameters(selector): PathParameters<String>) -> Answer<LeftOut> {
    read(&app, move |app, view| {
        let (checkpoint, _pin) = pinned(&app.store, &selector)?;
        let since = Baseline::of(view, &checkpoint)?;
        let approved = since.checkpoint.filter(|_| since.is_approved);
        let unseen = Exclusions::of(&app.store, approved.as_ref(), &checkpoint)?;
        let since = approved.map(|approved| approved.id());
        Ok(Json(LeftOut { checkpoint: checkpoint.id(), since, unseen }))
    })
    .await
}

async fn conversation(
    State(app): State<App>,
    PathParameters(selector): PathParameters<String>,
    Parameters(later): Parameters<Later>,
) -> Answer<ConversationMessages> {
    read(&app, move |app, _| {
        let (new, _new_pin) = pinned(&app.store, &selector)?;
        let older = later.since.map(|since| pinned(&app.store, &since)).transpose()?;
        let old = older.as_ref().map(|(old, _)| old);
        let limit = later.limit.map_or(MESSAGES_MAX, |limit| limit.get().min(MESSAGES_MAX));
        let text_bytes_max = later.text_bytes.map_or(TEXT_BYTES_MAX, |bytes| bytes.get().min(PAGE_BYTES_MAX));
        let (mut messages, mut bytes, mut number, mut left_out) = (VecDeque::<Message>::new(), 0, 0, 0);
        let found = added::read(&app.store, old, &new, text_bytes_max, |message| {
            let is_before = later.before.is_none_or(|before| number < before);
            number += 1;
            if !is_before {
                return;
            }
            bytes += message.text.len();
            messages.push_back(message);
            // The last one comes in any case.
            while messages.len() > limit || bytes > PAGE_BYTES_MAX && messages.len() > 1 {
                bytes -= messages.pop_front().map_or(0, |message| message.text.len());
                left_out += 1;
            }
        })?;
        let Some(found) = found else { return Err(Problem::not_found(format!("checkpoint {} holds no conversation", new.id()))) };
        let (checkpoint, since) = (new.id(), old.map(|old| old.id()));
        Ok(Json(ConversationMessages { checkpoint, since, continues: found.continues, messages: messages.into(), left_out }))
    })
    .await
}

async fn environments(
    State(app): State<App>,
    PathParameters(selector): PathParameters<String>,
    Parameters(DiffQuery { since }): Parameters<DiffQuery>,
) -> Answer<Environments> {
    read(&app, move |app, _| {
        let (new, _new_pin) = pinned(&app.store, &selector)?;
        let (old, _old_pin) = pinned(&app.store, &since)?;
        let freezes = (packages(&app.store, &old), packages(&app.store, &new));
        let (before, after) = (old.record.environment.as_ref(), new.record.environment.as_ref());
        let found = environment::diff::diff(before, after, (freezes.0.as_deref(), freezes.1.as_deref()));
        let changes = found.changes;
        let unknown = found.unknown.iter().map(|part| (*part).to_owned()).collect();
        Ok(Json(Environments { old: old.id(), new: new.id(), changes, unknown }))
    })
    .await
}
