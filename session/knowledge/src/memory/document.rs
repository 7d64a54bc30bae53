//! Knowledge of a project, as one document of JSON.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the document.
pub const SCHEMA: u32 = 1;

/// Knowledge of a project, and the outcomes of its sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The version of this document.
    pub schema: u32,
    /// The project, as its file is named.
    pub project_id: String,
    /// The project, for people: its repository, or its folder.
    pub project: String,
    /// The time of the last change.
    pub last_updated: Timestamp,
    /// Entries of knowledge, in the sections of [`Section`].
    pub knowledge: Knowledge,
    /// Sessions whose result a person decided about, oldest first.
    pub session_history: Vec<Outcome>,
    /// Suggestions that nobody wants to see again.
    #[serde(default)]
    pub dismissed: Vec<String>,
    /// Names of projects from which everything was taken over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopted: Vec<String>,
    /// Folders that are of the project: the first one, and those that a person has confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// Fields of other releases.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Memory {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.knowledge.all().next().is_none() && self.session_history.is_empty()
    }
}

/// Knowledge, by section; oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Knowledge {
    /// The build of the project.
    #[serde(default)]
    pub architecture: Vec<Entry>,
    /// Habits of the project.
    #[serde(default)]
    pub conventions: Vec<Entry>,
    /// Pitfalls.
    #[serde(default)]
    pub gotchas: Vec<Entry>,
    /// Anything else.
    #[serde(default)]
    pub notes: Vec<Entry>,
    /// Sections of other releases.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A piece of knowledge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id: short, random.
    pub id: String,
    /// Its name in its section, such as `testing`; null where it has none.
    pub key: Option<String>,
    /// The text.
    pub description: String,
    /// Files that matter for it, from the workspace.
    #[serde(default)]
    pub key_files: Vec<String>,
    /// The session in which it was found out.
    pub discovered_in: Option<String>,
    /// The time at which it was added.
    pub added_at: Timestamp,
    /// Its origin: `person`, `agent`, or `suggestion`, which a person has accepted.
    pub added_by: AddedBy,
    /// Fields of other releases.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedBy {
    /// A person, without a suggestion.
    Person,
    /// An agent, by a command or a tool of MCP.
    Agent,
    /// A person who has accepted a suggestion.
    Suggestion,
}

impl AddedBy {
    /// Its word in the document: `person`, `agent` or `suggestion`.
    pub fn name(self) -> &'static str {
        match self {
            AddedBy::Person => "person",
            AddedBy::Agent => "agent",
            AddedBy::Suggestion => "suggestion",
        }
    }
}

/// A session whose result a person decided about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Id of the session that was decided about.
    pub session_id: String,
    /// The work that was done, in a sentence.
    pub summary: String,
    /// `approved`, or `rejected`.
    pub outcome: String,
    /// The time of the decision.
    pub timestamp: Timestamp,
    /// The checkpoint that it is about.
    pub checkpoint: Option<String>,
    /// Fields of other releases.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A section of knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Habits of the project.
    Conventions,
    /// Its build.
    Architecture,
    /// Pitfalls.
    Gotchas,
    /// Anything else.
    Notes,
}

impl Section {
    /// All sections; those first that every session wants to know.
    pub const ALL: [Section; 4] = [Section::Conventions, Section::Architecture, Section::Gotchas, Section::Notes];

    /// Its word in the document and in keys, such as `conventions`.
    pub fn name(self) -> &'static str {
        match self {
            Section::Conventions => "conventions",
            Section::Architecture => "architecture",
            Section::Gotchas => "gotchas",
            Section::Notes => "notes",
        }
    }

    /// The section and the name in it that a key means: `conventions.testing`, `gotchas`; any other key is a note's name.
    pub fn of(key: &str) -> (Section, Option<&str>) {
        let (head, rest) = key.split_once('.').map_or((key, None), |(head, rest)| (head, Some(rest)));
        match Section::ALL.into_iter().find(|section| section.name() == head) {
            Some(section) => (section, rest.filter(|rest| !rest.is_empty())),
            None => (Section::Notes, Some(key)),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Knowledge {
    /// The entries of a section.
    pub fn of(&self, section: Section) -> &[Entry] {
        match section {
            Section::Conventions => &self.conventions,
            Section::Architecture => &self.architecture,
            Section::Gotchas => &self.gotchas,
            Section::Notes => &self.notes,
        }
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, section: Section) -> &mut Vec<Entry> {
        match section {
            Section::Conventions => &mut self.conventions,
            Section::Architecture => &mut self.architecture,
            Section::Gotchas => &mut self.gotchas,
            Section::Notes => &mut self.notes,
        }
    }

    /// All entries, each with its section.
    pub fn all(&self) -> impl Iterator<Item = (Section, &Entry)> {
        Section::ALL.into_iter().flat_map(|section| self.of(section).iter().map(move |entry| (section, entry)))
    }

    /// Entries of one section and one name that say different things: they are shown, and a person decides.
    pub fn contradictory(&self, section: Section, entry: &Entry) -> Vec<&Entry> {
        let others = self.of(section).iter();
        others
            .filter(|other| entry.key.is_some() && other.key == entry.key && other.description != entry.description)
            .filter(|other| other.id != entry.id)
            .collect()
    }
}

impl Memory {
    /// One of which nothing is known yet.
    pub fn new(project_id: String, project: String, now: Timestamp) -> Self {
        Memory {
            schema: SCHEMA,
            project_id,
            project,
            last_updated: now,
            knowledge: Knowledge::default(),
            session_history: Vec::new(),
            dismissed: Vec::new(),
            adopted: Vec::new(),
            folders: Vec::new(),
            extra: Map::new(),
        }
    }
}
