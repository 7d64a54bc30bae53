//! The text by which a checkpoint is found.

use std::collections::{HashSet, VecDeque};

use parhelia_agent::{
    briefing::is_ours,
    transcript::messages::{Message, Role},
};
use parhelia_ledger::{LedgerView as _, Marks};
use parhelia_store::{Store, id::TreeId, name, record::Checkpoint, view::View};
use serde_json::Value;

use super::text::indexed;
use crate::changed::each_content;
use parhelia_host::{Error, Result, conversation::added, state::state_json};

/// A field of a checkpoint's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Tags that it bears now.
    Tags,
    /// Message of its maker.
    Message,
    /// Texts of its annotations.
    Annotations,
    /// Issues that it is linked to.
    Links,
    /// Id, name and first prompt of its session.
    Session,
    /// Paths that it adds, or whose content it changes.
    Files,
    /// Decisions, open questions and tasks of the conversation.
    Summary,
    /// The user's and the agent's words.
    Conversation,
}

impl Field {
    /// All of them, the most important first: the columns of the index.
    pub const ALL: [Field; 8] = [
        Field::Tags,
        Field::Message,
        Field::Annotations,
        Field::Links,
        Field::Session,
        Field::Files,
        Field::Summary,
        Field::Conversation,
    ];

    /// Its name in JSON and in the index, such as `tags`.
    pub fn name(self) -> &'static str {
        match self {
            Field::Tags => "tags",
            Field::Message => "message",
            Field::Annotations => "annotations",
            Field::Links => "links",
            Field::Session => "session",
            Field::Files => "files",
            Field::Summary => "summary",
            Field::Conversation => "conversation",
        }
    }

    /// The weight of a match in it.
    pub(super) fn weight(self) -> f64 {
        match self {
            Field::Tags | Field::Message => 10.0,
            Field::Annotations | Field::Links => 8.0,
            Field::Session | Field::Summary => 3.0,
            Field::Files => 2.0,
            Field::Conversation => 1.0,
        }
    }

    /// True if each of its lines stands for itself.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Field::Tags | Field::Links | Field::Files | Field::Summary)
    }
}

/// So many paths of a checkpoint are indexed ...
pub const PATHS_MAX: usize = 5000;
/// ... and so many bytes of them.
const PATHS_BYTES_MAX: usize = 512 << 10;
/// So much of a message is indexed, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// So much of the conversation that a checkpoint adds is indexed, in bytes.
const CONVERSATION_BYTES_MAX: usize = 4 << 20;
/// So much of a session's first prompt is indexed, in bytes.
const PROMPT_BYTES_MAX: usize = 4 << 10;

/// Completeness of a checkpoint's text in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it is there.
    Whole,
    /// There is more than is indexed of one checkpoint.
    Cut,
    /// Some could not be read, because it is damaged.
    Damaged,
}

/// The text of a checkpoint, by field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Texts, as in [`Field::ALL`].
    pub fields: [String; Field::ALL.len()],
    /// Its completeness.
    pub extent: Extent,
}

impl Document {
    fn set(&mut self, field: Field, text: &str) {
        self.fields[field as usize] = indexed(text);
    }

    /// Takes what was read of a field. What is damaged is left out.
    fn take(&mut self, field: Field, read: Result<(String, bool)>) -> Result<()> {
        match read {
            Ok((text, is_whole)) => {
                self.set(field, &text);
                if !is_whole && self.extent == Extent::Whole {
                    self.extent = Extent::Cut;
                }
            }
            Err(Error::Store(error)) if error.is_damage() => self.extent = Extent::Damaged,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The text of a checkpoint: what was said of it, and what it adds to its base.
pub fn of(store: &Store, view: &View, checkpoint: &Checkpoint, base: Option<&Checkpoint>) -> Result<Document> {
    let mut document = Document { fields: Default::default(), extent: Extent::Whole };
    document.set(Field::Message, checkpoint.record.message.as_deref().unwrap_or_default());
    document.set(Field::Session, &session(view, &checkpoint.record.session)?);
    for (field, text) in marks(&view.marks(checkpoint.record.id)?) {
        document.set(field, &text);
    }
    document.take(Field::Files, files(store, checkpoint, base))?;
    document.take(Field::Summary, summary(store, checkpoint, base))?;
    document.take(Field::Conversation, conversation(store, checkpoint, base))?;
    Ok(document)
}

/// Statements about a checkpoint, by field.
pub fn marks(marks: &Marks) -> [(Field, String); 3] {
    let annotations = marks.annotations.iter().map(|annotation| annotation.text.as_str());
    let links = marks.links.iter().map(|issue| match issue.id == issue.url {
        true => format!("{} {}", issue.tracker, issue.url),
        false => format!("{} {} {}", issue.tracker, issue.id, issue.url),
    });
    [
        (Field::Tags, marks.tags.iter().map(String::as_str).collect::<Vec<_>>().join("\n")),
        (Field::Annotations, annotations.collect::<Vec<_>>().join("\n")),
        (Field::Links, links.collect::<Vec<_>>().join("\n")),
    ]
}

/// The text by which a session's checkpoints are found.
pub fn session(view: &View, id: &str) -> Result<String> {
    let Some(session) = view.session(id)? else { return Ok(id.to_owned()) };
    let mut lines = vec![session.id.as_str()];
    lines.extend(Some(session.name.as_str()).filter(|name| *name != session.id));
    let prompt = session.first_prompt.as_deref().filter(|prompt| !is_ours(prompt));
    lines.extend(prompt.map(|prompt| &prompt[..prompt.floor_char_boundary(PROMPT_BYTES_MAX)]));
    Ok(lines.join("\n"))
}

/// Lines within a bound, and true while none was left out.
struct Lines {
    text: String,
    count: usize,
    bytes_max: usize,
    count_max: usize,
    is_whole: bool,
}

impl Lines {
    fn new(bytes_max: usize, count_max: usize) -> Self {
        Lines { text: String::new(), count: 0, bytes_max, count_max, is_whole: true }
    }

    fn add(&mut self, line: &str) {
        if self.count == self.count_max || self.text.len() + line.len() >= self.bytes_max {
            self.is_whole = false;
            return;
        }
        self.count += 1;
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Paths of files that a checkpoint adds to its base, or whose content it changes; without a base all of them, those near the top first.
fn files(store: &Store, checkpoint: &Checkpoint, base: Option<&Checkpoint>) -> Result<(String, bool)> {
    let mut lines = Lines::new(PATHS_BYTES_MAX, PATHS_MAX);
    match base {
        Some(base) => {
            each_content(store, base, checkpoint, &mut |change| {
                if change.new.is_some() {
                    lines.add(&name::display(&change.path));
                }
            })?;
        }
        None => list(store, store.workspace_node(checkpoint)?.as_folder().map(|(tree, _)| tree), &mut lines)?,
    }
    Ok((lines.text, lines.is_whole))
}

/// Lists the files below a folder, level by level, but for those of `.git`.
fn list(store: &Store, root: Option<TreeId>, lines: &mut Lines) -> Result<()> {
    let mut folders: VecDeque<(Vec<u8>, TreeId)> = root.map(|tree| (Vec::new(), tree)).into_iter().collect();
    while let Some((path, tree)) = folders.pop_front().filter(|_| lines.is_whole) {
        for node in store.folder(tree)? {
            let below = name::join(&path, &node.name);
            match node.as_folder() {
                Some(_) if node.name == b".git" => {}
                Some((tree, _)) => folders.push_back((below, tree)),
                None => lines.add(&name::display(&below)),
            }
        }
    }
    Ok(())
}

/// Decisions, open questions and tasks that a conversation has and that of the base has not.
fn summary(store: &Store, checkpoint: &Checkpoint, base: Option<&Checkpoint>) -> Result<(String, bool)> {
    let lines = |checkpoint: &Checkpoint| -> Result<Vec<String>> {
        let kept = state_json(store, checkpoint, "conversation.json")?.unwrap_or_default();
        let summary = kept.get("summary").unwrap_or(&kept);
        let texts = |name: &str| summary[name].as_array().cloned().unwrap_or_default();
        let lists = ["decisions", "open_questions", "todos"].map(texts);
        let text = |item: Value| item.as_str().or_else(|| item["content"].as_str()).map(str::to_owned);
        Ok(lists.into_iter().flatten().filter_map(text).collect())
    };
    let before: HashSet<String> = base.map(lines).transpose()?.unwrap_or_default().into_iter().collect();
    let new: Vec<String> = lines(checkpoint)?.into_iter().filter(|line| !before.contains(line)).collect();
    let text = new.join("\n");
    let bytes = text.floor_char_boundary(CONVERSATION_BYTES_MAX);
    Ok((text[..bytes].to_owned(), bytes == text.len()))
}

/// The user's and the agent's words that a checkpoint adds to its base. What tools printed is left out.
fn conversation(store: &Store, checkpoint: &Checkpoint, base: Option<&Checkpoint>) -> Result<(String, bool)> {
    let mut lines = Lines::new(CONVERSATION_BYTES_MAX, usize::MAX);
    // One byte more than is taken, to tell whether there is more.
    let read = added::read(store, base, checkpoint, MESSAGE_BYTES_MAX + 1, |message: Message| {
        if message.role != Role::Tool && !is_ours(&message.text) {
            let bytes = message.text.floor_char_boundary(MESSAGE_BYTES_MAX);
            lines.is_whole &= bytes == message.text.len();
            lines.add(&message.text[..bytes]);
        }
    })?;
    let is_whole = lines.is_whole && read.is_none_or(|read| read.skipped_bytes == 0);
    Ok((lines.text, is_whole))
}
