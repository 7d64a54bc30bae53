//! Making a summary of a conversation and of git, as they are at a checkpoint.

use std::{collections::BTreeMap, path::Path};

use parhelia_agent::{
    briefing::is_ours,
    git::State,
    transcript::{
        Conversation, FileUse, Summary as Said,
        statements::{Cue, Speaker, Statement},
        story::{Approach, Command, Package},
    },
};

use super::{FileChange, GeneratedBy, SCHEMA, Summary, quote::quoted};

/// The most items of a list.
const ITEMS_MAX: usize = 20;
/// The most files that are listed.
const FILES_MAX: usize = 40;
/// Sentences of the user among the decisions, and the least weight of one.
const SETTLED_MAX: usize = 10;
const SETTLED_WEIGHT_MIN: u8 = 3;
/// Files that are named in a sentence.
const FILES_NAMED: usize = 8;
/// Longest text of an item, in characters.
const ITEM_CHARACTERS_MAX: usize = 400;
/// Longest command, error or name, in characters.
const SHORT_CHARACTERS_MAX: usize = 240;
/// Longest task, in characters.
const TASK_CHARACTERS_MAX: usize = 1_000;

/// The sources of a summary.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Id of the session that is summed up.
    pub session: &'a str,
    /// The workspace folder, which is absolute.
    pub workspace: &'a Path,
    /// The session's conversation, as the checkpoint has it.
    pub conversation: &'a Conversation,
    /// The state of git, where it is known.
    pub git: Option<&'a State>,
}

/// The summary of a session. The same sources give the same summary.
pub fn of(sources: Sources<'_>) -> Summary {
    let said = sources.conversation.summary();
    let files = files(sources);
    let asked = |prompt: &Option<String>| prompt.clone().filter(|prompt| !is_ours(prompt) && !prompt.trim().is_empty());
    let task = asked(&said.last_prompt).or_else(|| asked(&said.first_prompt));
    let of_status =
        |status: &str| said.todos.iter().filter(|todo| todo.status == status).map(|todo| &todo.content).collect::<Vec<_>>();
    Summary {
        schema: SCHEMA,
        session: sources.session.to_owned(),
        generated_by: GeneratedBy::Rules,
        task: task.map(|task| quoted(&task, TASK_CHARACTERS_MAX)),
        progress: texts(progress(&said, &files)),
        decisions: texts(said.decisions.iter().cloned().chain(settled(&said))),
        approaches: approaches(&said),
        blockers: texts(&said.blockers),
        open_questions: texts(&said.open_questions),
        next_steps: texts(of_status("in_progress").into_iter().chain(of_status("pending"))),
        relevant_docs: texts(said.relevant_docs.iter().map(|path| inner(path, sources.workspace))),
        files,
        recent_commands: commands(&said),
        packages: packages(&said),
        cwd: said.cwd.as_deref().map(short),
        git_branch: sources.git.and_then(|git| git.branch.as_deref()).map(short),
        git_commit: sources.git.and_then(|git| git.head.as_deref()).map(short),
        model: None,
    }
}

fn short(text: &str) -> String {
    quoted(text, SHORT_CHARACTERS_MAX)
}

fn texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let quotes = texts.into_iter().map(|text| quoted(text.as_ref(), ITEM_CHARACTERS_MAX));
    quotes.filter(|text| !text.is_empty()).take(ITEMS_MAX).collect()
}

/// Sentences by which the user has settled or forbidden something, newest first.
fn settled(said: &Said) -> impl Iterator<Item = String> {
    let is_settling = |statement: &&Statement| {
        let has = |cue| statement.cues.contains(&cue);
        statement.by == Speaker::User && (has(Cue::Choice) || has(Cue::Rule)) && statement.weight() >= SETTLED_WEIGHT_MIN
    };
    let settling = said.statements.iter().rev().filter(is_settling).take(SETTLED_MAX);
    settling.map(|statement| format!("The user: {}", statement.text))
}

fn progress(said: &Said, files: &[FileChange]) -> Vec<String> {
    let done = said.todos.iter().filter(|todo| todo.status == "completed").map(|todo| format!("Done: {}", todo.content));
    let commits = said.commits.iter().map(|commit| format!("Committed: {commit}"));
    // What a reply says stands last, where it is not in the way of what is certain.
    let mut progress: Vec<String> = done.chain(commits).collect();
    progress.truncate(ITEMS_MAX - 2);
    progress.extend(changed(files));
    progress.extend(said.last_reply.as_ref().map(|reply| format!("Last reply: {}", last_part(reply))));
    progress
}

/// The end of a reply, from the beginning of a paragraph on where one lies near.
fn last_part(reply: &str) -> &str {
    let start = reply.char_indices().rev().nth(ITEM_CHARACTERS_MAX - 20).map_or(0, |(at, _)| at);
    let end = &reply[start..];
    match end.find("\n\n").filter(|_| start > 0) {
        Some(at) if at * 2 < end.len() => end[at..].trim_start(),
        _ => end,
    }
}

/// A sentence about the files that were changed.
fn changed(files: &[FileChange]) -> Option<String> {
    let named = files.iter().take(FILES_NAMED).map(|file| match (file.lines_added, file.lines_removed) {
        (0, 0) => file.path.clone(),
        (added, removed) => format!("{} (+{added} -{removed})", file.path),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let count = files.len();
    let more = if count > FILES_NAMED { ", ..." } else { "" };
    (count > 0).then(|| format!("Changed {count} {}: {named}{more}", if count == 1 { "file" } else { "files" }))
}

fn approaches(said: &Said) -> Vec<Approach> {
    let quoted = |approach: &Approach| Approach {
        what: quoted(&approach.what, ITEM_CHARACTERS_MAX),
        failed: approach.failed,
        error: approach.error.as_deref().map(short),
        resolved_by: approach.resolved_by.as_deref().map(|by| quoted(by, ITEM_CHARACTERS_MAX)),
    };
    // What worked stands behind, and is not crowded out.
    let worked = said.approaches.iter().filter(|approach| !approach.failed).take(ITEMS_MAX / 4);
    let worked: Vec<Approach> = worked.map(quoted).collect();
    let failed = said.approaches.iter().filter(|approach| approach.failed).take(ITEMS_MAX - worked.len());
    failed.map(quoted).chain(worked.clone()).collect()
}

fn commands(said: &Said) -> Vec<Command> {
    let quoted = |ran: &Command| Command { command: short(&ran.command), failed: ran.failed };
    said.recent_commands.iter().take(ITEMS_MAX).map(quoted).collect()
}

fn packages(said: &Said) -> Vec<Package> {
    let quoted = |package: &Package| Package { manager: short(&package.manager), name: short(&package.name) };
    said.packages.iter().take(FILES_MAX).map(quoted).collect()
}

/// Files that tools changed, the last ones first, then those that git knows to differ from the commit.
fn files(sources: Sources<'_>) -> Vec<FileChange> {
    let indexes = || std::iter::once(&sources.conversation.main).chain(sources.conversation.subagents.values());
    let mut used: BTreeMap<String, FileUse> = BTreeMap::new();
    for (path, one) in indexes().flat_map(|index| &index.files).filter(|(_, one)| one.edits > 0) {
        let all = used.entry(inner(path, sources.workspace)).or_default();
        all.edits = all.edits.saturating_add(one.edits);
        all.lines_added = all.lines_added.saturating_add(one.lines_added);
        all.lines_removed = all.lines_removed.saturating_add(one.lines_removed);
        all.last_offset = all.last_offset.max(one.last_offset);
    }
    let mut edited: Vec<(&String, &FileUse)> = used.iter().collect();
    edited.sort_by_key(|(_, used)| std::cmp::Reverse(used.last_offset));
    let edited = edited.into_iter().map(|(path, used)| FileChange {
        path: short(path),
        change: if used.edits == 1 { "edited once".to_owned() } else { format!("edited {} times", used.edits) },
        lines_added: used.lines_added,
        lines_removed: used.lines_removed,
    });
    let others = sources.git.into_iter().flat_map(State::uncommitted).filter(|change| !used.contains_key(&change.path));
    let others = others.map(|change| FileChange {
        path: short(&change.path),
        change: if change.is_deleted() { "deleted".to_owned() } else { "uncommitted".to_owned() },
        ..FileChange::default()
    });
    edited.chain(others).take(FILES_MAX).collect()
}

/// A path from the workspace folder, where it lies there.
fn inner(path: &str, workspace: &Path) -> String {
    let below = Path::new(path).strip_prefix(workspace).ok().and_then(Path::to_str).filter(|below| !below.is_empty());
    below.unwrap_or(path).to_owned()
}
