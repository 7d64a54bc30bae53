//! Gathers the input of a briefing from the conversation, git and the workspace as they are now. A checkpoint stands in for whatever is
//! missing.

use parhelia_store::name::NameExt as _;
use std::path::Path;

use parhelia_ledger::Session;
use parhelia_store::{Store, diff::TreeChange, name, record::Checkpoint};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Ending, Input, PendingCall, Why, files,
    now::{self, PresentState},
};
use crate::summary;
use parhelia_agent::{briefing::is_ours, git, transcript::story::Approach};
use parhelia_host::{Host, Result, age::age, config::Mode, conversation::transcript, intent, run, state::state_json};

/// The most characters of the last reply that a briefing quotes.
const REPLY_CHARACTERS_MAX: usize = 600;
/// So many approaches that failed are told.
const FAILED_MAX: usize = 20;
/// So much is told of each.
const QUOTE_CHARACTERS_MAX: usize = 380;
/// So many uncommitted files are named.
const UNCOMMITTED_MAX: usize = 100;
/// So many files of another session are named.
const SHARED_MAX: usize = 6;

/// A briefing that is asked for: of which session, from which checkpoint.
pub struct BriefingRequest<'a> {
    /// The session as it is known now.
    pub session: &'a Session,
    /// The checkpoint that is gone on from.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Absolute path of the session's folder.
    pub workspace: &'a Path,
    /// The reason for it.
    pub why: Why,
    /// The run that begins; none where nothing of the session runs.
    pub run: Option<&'a str>,
    /// The conversation that begins, which has nothing to tell of.
    pub but: Option<&'a str>,
    /// The agent's own folder.
    pub config: Option<&'a Path>,
    /// The caller.
    pub host: &'a dyn Host,
}

/// Gathers what a briefing has to tell.
pub fn gather(store: &Store, request: &BriefingRequest<'_>) -> Result<Input> {
    let BriefingRequest { session, checkpoint, workspace, .. } = *request;
    let conversation = session.conversations.iter().rfind(|known| Some(known.id.as_str()) != request.but);
    let transcript = conversation.and_then(|known| transcript(known, request.config));
    let found = now::look(
        store,
        now::LookRequest {
            session,
            checkpoint,
            workspace,
            transcript: transcript.as_deref(),
            git: git::Environment::new(&|name| request.host.variable(name), workspace, &store.layout().cache()),
        },
    );
    let is_first = session.conversations.iter().filter(|known| Some(known.id.as_str()) != request.but).count() < 2;
    let mut input = Input {
        why: request.why,
        session: session.id.clone(),
        folder: workspace.shown(),
        transcript: transcript.as_ref().map(|path| path.shown()),
        // What was asked for in a conversation that was cleared is over.
        task: session.first_prompt.clone().filter(|prompt| is_first && !is_ours(prompt)),
        ..Input::default()
    };
    from_git(&mut input, checkpoint, &found);
    input.notices.extend(checkpoint.and_then(|checkpoint| rolled_back(session, checkpoint)));
    let context = match checkpoint {
        Some(checkpoint) => state_json(store, checkpoint, "context.json")?.unwrap_or_default(),
        None => Value::Null,
    };
    let said = said(store, checkpoint, conversation.map(|known| known.id.as_str()), found.conversation)?;
    if let Some(said) = said.as_ref().filter(|_| context["capture_analysis"] != false) {
        from_conversation(&mut input, said, checkpoint);
    }
    let last = run::last_of(store, session, request.run)?;
    let is_amid = said.is_some_and(|said| said["phase"] == "thinking" || said["phase"] == "in_tool");
    let last = last.as_ref();
    input.ended = match () {
        () if is_amid || !input.pending.is_empty() => Ending::Interrupted,
        () if last.is_some_and(run::ended_unseen) => Ending::Unseen,
        () if last.is_some_and(run::was_killed) => Ending::Interrupted,
        () => Ending::Told,
    };
    let Some(checkpoint) = checkpoint else { return Ok(input) };
    input.checkpoint = checkpoint.id();
    input.age = Some(age(checkpoint.record.created_at, request.host.now()));
    input.ending = checkpoint.record.trigger_detail.as_ref().map(|detail| format!("The checkpoint was made because: {detail}."));
    // Who goes on with the conversation knows what it said.
    if request.why != Why::Resumed && context["capture_analysis"] != false {
        input.by_model = by_model(store, checkpoint, conversation.map(|known| known.id.as_str()))?;
    }
    from_files(store, &mut input, request, &context, found.changes)?;
    Ok(input)
}

/// The words of a model about a conversation, marked as quoted, so that none of them passes for ours.
fn by_model(store: &Store, checkpoint: &Checkpoint, conversation: Option<&str>) -> Result<Option<String>> {
    let model = summary::model::newest(store, checkpoint)?.and_then(|summary| summary.model);
    let model = model.filter(|model| model.is_of(conversation));
    Ok(model.map(|model| model.text.lines().map(|line| format!("> {line}\n")).collect()))
}

/// The summary of the conversation as it is now; if that is gone or empty, the one in the checkpoint.
fn said(store: &Store, checkpoint: Option<&Checkpoint>, conversation: Option<&str>, now: Option<Value>) -> Result<Option<Value>> {
    let count = |said: &Value| said["message_count"].as_u64().unwrap_or_default();
    if let Some(now) = now.filter(|now| count(now) > 0) {
        return Ok(Some(now));
    }
    let kept = checkpoint.map(|checkpoint| state_json(store, checkpoint, "conversation.json")).transpose()?.flatten();
    let kept = kept.map(|mut kept| match kept.get_mut("summary") {
        Some(summary) => summary.take(),
        None => kept,
    });
    // Another conversation of the session, which was cleared since, is none of this one's.
    let is_its =
        |kept: &Value| conversation.is_none() || kept["agent_session_id"].as_str().is_none_or(|id| Some(id) == conversation);
    Ok(kept.filter(is_its))
}

fn from_git(input: &mut Input, checkpoint: Option<&Checkpoint>, found: &PresentState) {
    let then = checkpoint.and_then(|checkpoint| checkpoint.record.git.as_ref());
    let text = |name: &str| then.and_then(|git| git.get(name)).and_then(Value::as_str).map(str::to_owned);
    match &found.git {
        Some(state) => {
            (input.branch, input.commit) = (state.branch.clone(), state.head.clone());
            let shown = |change: &git::GitChange| match change.is_deleted() {
                true => format!("{} (deleted)", change.path),
                false => change.path.clone(),
            };
            input.uncommitted = state.uncommitted().take(UNCOMMITTED_MAX).map(shown).collect();
            input.repository = (state.kind == git::Kind::Workspace).then(|| input.folder.clone());
            input.uncommitted_more = (state.uncommitted_count() as usize).saturating_sub(input.uncommitted.len());
            if let (Some(relation), Some(now), Some(then)) = (&found.head, &state.head, text("head")) {
                let short = |commit: &str| commit.chars().take(12).collect::<String>();
                input.notices.push(format!(
                    "The repository's HEAD ({}) is {relation} the one of the checkpoint ({}), which this conversation may have in mind",
                    short(now),
                    short(&then)
                ));
            }
        }
        None => {
            (input.branch, input.commit) = (text("branch"), text("head"));
            input.repository = Some(input.folder.clone());
            input.uncommitted = texts(then.and_then(|git| git.get("uncommitted_files")));
            if then.is_some() {
                let text = "Git could not be asked in time: branch, commit and uncommitted files are those of the checkpoint";
                input.notices.push(text.into());
            }
            let count = then.and_then(|git| git.get("uncommitted_count")).and_then(Value::as_u64).unwrap_or(0);
            input.uncommitted_more = (count as usize).saturating_sub(input.uncommitted.len());
        }
    }
}

/// A sentence about the last rollback or undo, if it led to this checkpoint; none otherwise.
fn rolled_back(session: &Session, checkpoint: &Checkpoint) -> Option<String> {
    let last = intent::last(session).filter(|last| last.target == checkpoint.record.id)?;
    let (target, safety) = (last.target, last.safety);
    if checkpoint.record.is_safety() {
        return Some(format!(
            "A rollback of the session was undone: the files are as they were before it, in checkpoint {target}. What was there before that \
             is in checkpoint {safety}"
        ));
    }
    let what = match last.with_conversation {
        true => "files and conversation are as they were then; branches and commits of git were left as they are",
        false => {
            "files alone went back, and this conversation may speak of later ones; branches and commits of git were left as they are"
        }
    };
    Some(format!("The session was rolled back to checkpoint {target}: {what}. What was there before is in checkpoint {safety}"))
}

fn from_files(
    store: &Store,
    input: &mut Input,
    request: &BriefingRequest<'_>,
    context: &Value,
    found: Option<now::Changes>,
) -> Result<()> {
    let Some(checkpoint) = request.checkpoint else { return Ok(()) };
    let first = store.view().oldest_of(&request.session.id)?;
    input.first = first.as_ref().map(Checkpoint::id).unwrap_or_default();
    let now::Changes { mut session, mut since, of_others, maybe_of } = match found {
        Some(found) => found,
        None => by_checkpoints(store, request, first.as_ref(), checkpoint)?,
    };
    let edited = files::edited(context);
    let rank = |change: &TreeChange| files::rank(&change.path, &edited);
    session.sort_by_key(|change| rank(change));
    since.sort_by_key(|change| rank(change));
    for (other, paths) in of_others {
        input.notices.push(format!(
            "Not listed below, as the agent of session {other} in this folder has written them (commands of this session may have changed \
             them, too): {}",
            named(&paths)
        ));
    }
    for (other, paths) in maybe_of {
        input
            .notices
            .push(format!("Of the changes below, some may also be those of session {other} in this folder: {}", named(&paths)));
    }
    input.changes = files::told(store, &session);
    input.since = files::told(store, &since);
    if context["mode"] == json!(Mode::Stateful) {
        input.files = files::ranked(store, checkpoint, context, &session, &since, request.workspace);
    }
    Ok(())
}

/// Some paths, and how many more there are.
fn named(paths: &[Vec<u8>]) -> String {
    let mut named: Vec<String> = paths.iter().take(SHARED_MAX).map(|path| name::display(path)).collect();
    named.extend((paths.len() > SHARED_MAX).then(|| format!("{} more", paths.len() - SHARED_MAX)));
    named.join(", ")
}

/// The changes up to the checkpoint, for when the workspace was not read in time.
fn by_checkpoints(
    store: &Store,
    request: &BriefingRequest<'_>,
    first: Option<&Checkpoint>,
    checkpoint: &Checkpoint,
) -> Result<now::Changes> {
    let session = match first.map(|first| (first, files::changes(store, first, checkpoint))) {
        // It was the oldest, and has been removed meanwhile.
        Some((first, Err(_))) if store.refresh()?.checkpoint(first.record.id)?.is_none() => Vec::new(),
        Some((_, changes)) => changes?,
        None => Vec::new(),
    };
    let mut found = now::Changes { session, ..now::Changes::default() };
    found.leave_to_others(store, request.session, request.workspace)?;
    Ok(found)
}

fn from_conversation(input: &mut Input, conversation: &Value, checkpoint: Option<&Checkpoint>) {
    let text = |name: &str| conversation[name].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let asked = |name: &str| text(name).filter(|prompt| !is_ours(prompt));
    input.task = asked("last_prompt").or_else(|| asked("first_prompt")).or(input.task.take());
    input.queued = texts(conversation.get("queued_prompts"));
    let todos = conversation["todos"].as_array().cloned().unwrap_or_default();
    let of = |status: &str| -> Vec<String> {
        let wanted = todos.iter().filter(|todo| todo["status"] == status);
        wanted.filter_map(|todo| todo["content"].as_str().map(str::to_owned)).collect()
    };
    input.decisions = texts(conversation.get("decisions"));
    input.blockers = quotes(texts(conversation.get("blockers")));
    input.failed_approaches = failed_approaches(conversation);
    // Who goes on with the conversation knows what was said.
    if input.why != Why::Resumed {
        let listed = conversation.get("statements");
        input.statements = listed.and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default();
    }
    input.open_questions = texts(conversation.get("open_questions"));
    input.next_steps = of("in_progress").into_iter().chain(of("pending")).collect();
    let done = of("completed");
    let turns = conversation["turn_count"].as_u64().unwrap_or_default();
    // A workspace that was moved since has its files by the same names.
    let then = checkpoint.map(|checkpoint| checkpoint.record.workspace.path.as_str());
    let folders =
        [Some(input.folder.as_str()), then].map(|folder| format!("{}/", folder.unwrap_or_default().trim_end_matches('/')));
    let files = texts(conversation.get("files_modified"));
    let below = |path: &str| {
        folders.iter().filter(|folder| folder.len() > 1).find_map(|folder| path.strip_prefix(folder.as_str()).map(str::to_owned))
    };
    let files: Vec<String> = files.iter().map(|path| below(path).unwrap_or_else(|| path.clone())).collect();
    let mut summary = vec![format!("{turns} {} so far.", if turns == 1 { "turn" } else { "turns" })];
    if let Some(first) = asked("first_prompt").filter(|first| Some(first) != input.task.as_ref()) {
        summary.push(format!("The conversation began with: {}", one_line(&first)));
    }
    if !done.is_empty() {
        summary.push(format!("Done: {}.", one_line(&done.join("; "))));
    }
    if !files.is_empty() {
        summary.push(format!("Files changed with the agent's own tools: {}.", one_line(&files.join(", "))));
    }
    // Who goes on with the conversation knows what it said.
    if input.why != Why::Resumed
        && let Some(reply) = text("last_reply")
    {
        summary.push(format!("The last reply ended with: {}", one_line(end_of(&reply, REPLY_CHARACTERS_MAX))));
    }
    input.summary = summary.join("\n");
    let calls = conversation["pending_tool_calls"].as_array().cloned().unwrap_or_default();
    input.pending = calls
        .iter()
        .map(|call| PendingCall {
            tool: call["name"].as_str().unwrap_or("a tool").to_owned(),
            input: call["input"].as_str().or_else(|| call["path"].as_str()).unwrap_or_default().to_owned(),
        })
        .collect();
}

/// Approaches that failed. Those of commands that still fail are told among what is in the way.
fn failed_approaches(conversation: &Value) -> Vec<String> {
    let listed = conversation.get("approaches").and_then(|list| Vec::<Approach>::deserialize(list).ok()).unwrap_or_default();
    let blockers = texts(conversation.get("blockers"));
    quotes(summary::failed(&listed, &blockers).map(summary::line).take(FAILED_MAX).collect())
}

/// Texts that tools printed may hold secrets.
fn quotes(texts: Vec<String>) -> Vec<String> {
    texts.iter().map(|text| summary::quoted(text, QUOTE_CHARACTERS_MAX)).collect()
}

/// A text in one line: what the model or a tool wrote must not look like a section of ours.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last so many characters.
fn end_of(text: &str, characters_max: usize) -> &str {
    let start = text.char_indices().rev().nth(characters_max - 1).map_or(0, |(at, _)| at);
    &text[start..]
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).cloned().unwrap_or_default();
    list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
