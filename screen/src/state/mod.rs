//! The state of the screen: everything that is shown and selected. Nothing here knows a terminal or a store: keys and what was read come in, effects go out.

mod input;
mod list;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use parhelia_ledger::Approval;
use parhelia_oversight::review::{decide::Verdict, unseen::Exclusions};
use parhelia_store::id::Ulid;
use ratatui::crossterm::event::KeyEvent;

pub use self::{
    input::{Input, KeyOutcome},
    list::List,
};
use crate::{
    keys::{self, Action},
    layout::{Areas, Pane},
    text::{Line, Move, Query, Text, Tone},
};

/// The state that a checkpoint is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The last one that a person approved, or else the first one of the session.
    #[default]
    Approved,
    /// The checkpoint before it.
    Parent,
}

/// Something for the caller to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Leave, and resume the session.
    Continue,
    /// Open a shell in the checkpoint that is shown.
    Shell,
    /// Show another checkpoint, or the same with another base.
    Show(Ulid),
    /// Decide about a checkpoint.
    Decide {
        /// Id of the checkpoint to decide about.
        checkpoint: Ulid,
        /// The decision.
        verdict: Verdict,
        /// The reason; empty for none.
        reason: String,
    },
}

/// Facts about the session and the checkpoint that is shown, for the header.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The session's name.
    pub session: String,
    /// The agent's program; empty where none is known.
    pub agent: String,
    /// The session's observed state.
    pub status: &'static str,
    /// Id of the checkpoint that is shown.
    pub checkpoint: Ulid,
    /// The reason for which it was made.
    pub trigger: String,
    /// Time of its making.
    pub created_at: Timestamp,
    /// The decision about it.
    pub approval: Option<Approval>,
    /// The checkpoint that it is compared with; none for the session's first.
    pub base: Option<Ulid>,
    /// True if a person approved that.
    pub base_approved: bool,
    /// Entries that rules leave out of it, which no diff shows.
    pub unseen: Exclusions,
    /// Turns of the conversation.
    pub turns: Option<u64>,
    /// Tokens, those from the cache included.
    pub tokens: Option<u64>,
    /// The session's cost in US dollars.
    pub cost_usd: Option<f64>,
    /// The time that was worked in the session.
    pub active_seconds: u64,
    /// The session's checkpoints that an error caused.
    pub errors: u64,
}

/// Numbers of a file's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Added and removed ones.
    Lines(u64, u64),
    /// It is no text.
    Binary,
    /// It is too long to be compared by line.
    TooLarge,
    /// It could not be read.
    Unreadable,
}

/// A file that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileItem {
    /// The letter of its change: A, M, D, R, T for another type, m for metadata alone.
    pub letter: char,
    /// Its path, as shown; of a renamed one both.
    pub path: String,
    /// Its lines; none as long as they have not been counted.
    pub counts: Option<Counts>,
}

/// A checkpoint of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogItem {
    /// The checkpoint.
    pub id: Ulid,
    /// Time of its making.
    pub created_at: Timestamp,
    /// The reason for which it was made.
    pub trigger: String,
    /// Its state of approval.
    pub state: &'static str,
    /// True if it waits for a person.
    pub waits: bool,
    /// The first line of its message.
    pub message: String,
}

/// The part of a conversation that was read.
#[derive(Clone, Debug, Default)]
pub struct Excerpt {
    /// Lines of the conversation, for the pane.
    pub lines: Vec<Line>,
    /// Number of commands that failed.
    pub failed: usize,
    /// Number of questions that nobody answered.
    pub questions: usize,
}

/// A thing that lies over the panes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    #[default]
    None,
    /// The keys.
    Help,
    /// The session's checkpoints.
    Log,
}

/// A sentence in the footer, until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sentence.
    pub text: String,
    /// True if it says that something failed.
    pub is_error: bool,
}

/// Everything that is shown and selected.
#[derive(Debug, Default)]
pub struct State {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The time, for ages.
    pub now: Timestamp,
    /// The header; none until something was read.
    pub facts: Option<Facts>,
    /// The files that changed.
    pub files: Vec<FileItem>,
    /// The selected one.
    pub file: List,
    /// The diff of a file.
    pub diff: Text,
    /// The file whose diff that is; none until it was read.
    pub diff_of: Option<usize>,
    /// Pane with the part of the conversation that belongs to the checkpoint.
    pub conversation: Text,
    /// Commands that failed, and questions that are open.
    pub marked: (usize, usize),
    /// The pane that has the keys.
    pub focus: Pane,
    /// True if that pane is alone.
    pub is_wide: bool,
    /// A thing that lies over the panes.
    pub overlay: Overlay,
    /// The keys, as the help shows them.
    pub help: Text,
    /// The session's checkpoints, the newest first.
    pub log: Vec<LogItem>,
    /// The selected one.
    pub log_list: List,
    /// The line that is typed.
    pub input: Option<Input>,
    /// The sentence in the footer.
    pub message: Option<Message>,
    /// The base of the comparison.
    pub base: Base,
    query: Option<Query>,
}

impl State {
    /// Of a terminal of this size.
    pub fn new(size: (u16, u16)) -> Self {
        let mut state = State { size, ..State::default() };
        let keys = keys::KEYS.iter().map(|key| Line::new("", Tone::Plain, &format!("{:<16}{}", key.shown, key.does)));
        state.help = Text::new(keys.collect(), true);
        state.conversation = Text::new(Vec::new(), true);
        state.lay();
        state
    }

    /// The places of the panes; none where the terminal is too small.
    pub fn areas(&self) -> Option<Areas> {
        Areas::of(self.size, self.focus, self.is_wide, self.files.len())
    }

    /// Takes the size of the terminal.
    pub fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.lay();
    }

    /// Fits everything into its place.
    fn lay(&mut self) {
        let Some(areas) = self.areas() else { return };
        if let Some(area) = areas.content(Pane::Files) {
            self.file.fit(self.files.len(), area.height.into());
        }
        if let Some(area) = areas.content(Pane::Diff) {
            self.diff.lay(usize::from(area.width).saturating_sub(SIGN_COLUMNS), area.height.into());
        }
        if let Some(area) = areas.content(Pane::Conversation) {
            self.conversation.lay(usize::from(area.width).saturating_sub(SIGN_COLUMNS), area.height.into());
        }
        let body = usize::from(areas.body.height).saturating_sub(1);
        self.help.lay(usize::from(areas.body.width).saturating_sub(SIGN_COLUMNS), body);
        self.log_list.fit(self.log.len(), body);
    }

    /// Shows another checkpoint, or the same compared with another one. A file that was selected stays so.
    pub fn show(&mut self, facts: Facts, files: Vec<FileItem>) {
        let selected = self.files.get(self.file.selected).map(|file| file.path.clone());
        let is_other =
            self.facts.as_ref().is_none_or(|before| (before.checkpoint, before.base) != (facts.checkpoint, facts.base));
        self.facts = Some(facts);
        self.files = files;
        let place = selected.and_then(|path| self.files.iter().position(|file| file.path == path));
        self.file.selected = place.unwrap_or(0);
        self.diff_of = None;
        self.diff.replace(Vec::new());
        if is_other {
            self.conversation.replace(Vec::new());
            self.marked = (0, 0);
        }
        self.lay();
    }

    /// Shows the diff of a file.
    pub fn show_diff(&mut self, file: usize, lines: Vec<Line>) {
        self.diff_of = Some(file);
        self.diff.replace(lines);
        self.lay();
    }

    /// Shows a conversation from its beginning.
    pub fn show_said(&mut self, said: Excerpt) {
        self.marked = (said.failed, said.questions);
        self.conversation.replace(said.lines);
        self.lay();
    }

    /// Takes the session's checkpoints as they are now. Says so if one came; nothing that is shown moves.
    pub fn take_log(&mut self, log: Vec<LogItem>) {
        let newest = |log: &[LogItem]| log.first().map(|item| item.id);
        let selected = self.log.get(self.log_list.selected).map(|item| item.id);
        if !self.log.is_empty()
            && newest(&log) != newest(&self.log)
            && self.message.as_ref().is_none_or(|message| !message.is_error)
        {
            let text = match log.first().is_some_and(|item| item.waits) {
                true => "A new checkpoint waits; ] shows it, L lists all.",
                false => "There is a new checkpoint; L lists all.",
            };
            self.say(text);
        }
        self.log = log;
        self.log_list.selected = self.log.iter().position(|item| Some(item.id) == selected).unwrap_or(0);
        self.lay();
    }

    /// Says something in the footer.
    pub fn say(&mut self, text: &str) {
        self.message = Some(Message { text: crate::text::one_line(text), is_error: false });
    }

    /// Says that something failed.
    pub fn complain(&mut self, text: &str) {
        self.message = Some(Message { text: crate::text::one_line(text), is_error: true });
    }

    /// Number of checkpoints that wait for a person.
    pub fn waiting(&self) -> usize {
        self.log.iter().filter(|item| item.waits).count()
    }

    /// The file whose diff is to be read; none if it is there.
    pub fn wanted_diff(&self) -> Option<usize> {
        (self.diff_of != Some(self.file.selected) && !self.files.is_empty()).then_some(self.file.selected)
    }

    /// Does what a key stands for.
    pub fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        if let Some(input) = self.input.take() {
            return self.typed(input, key);
        }
        let action = keys::action(key)?;
        self.message = None;
        let effect = match self.overlay {
            Overlay::None => self.act(action),
            Overlay::Help | Overlay::Log => self.act_over(action),
        };
        self.lay();
        effect
    }

    /// Takes a text that was pasted: into the line that is typed, and nowhere else.
    pub fn paste(&mut self, text: &str) {
        if let Some(input) = &mut self.input {
            input.paste(text);
        }
    }

    fn act(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::NextPane | Action::PreviousPane => {
                (self.focus, self.is_wide) = (self.focus.next(action == Action::NextPane), false);
            }
            Action::Open if self.focus == Pane::Conversation => self.is_wide = true,
            Action::Open => (self.focus, self.is_wide) = (Pane::Diff, true),
            Action::Back if self.is_wide && self.focus == Pane::Conversation => self.is_wide = false,
            Action::Back => (self.focus, self.is_wide) = (Pane::Files, false),
            Action::Older | Action::Newer => return self.waiting_beside(action == Action::Newer),
            Action::Base => {
                self.base = if self.base == Base::Approved { Base::Parent } else { Base::Approved };
                return self.facts.as_ref().map(|facts| Effect::Show(facts.checkpoint));
            }
            Action::Approve => self.ask_reason(Verdict::Approve),
            Action::Reject => self.ask_reason(Verdict::Reject),
            Action::Log => {
                self.overlay = Overlay::Log;
                let shown = self.facts.as_ref().map(|facts| facts.checkpoint);
                self.log_list.selected = self.log.iter().position(|item| Some(item.id) == shown).unwrap_or(0);
            }
            Action::Shell => return self.facts.is_some().then_some(Effect::Shell),
            Action::Continue => return Some(Effect::Continue),
            Action::Help => self.overlay = Overlay::Help,
            Action::Quit => return Some(Effect::Quit),
            _ => self.look(action),
        }
        None
    }

    /// As [`State::act`], while something lies over the panes.
    fn act_over(&mut self, action: Action) -> Option<Effect> {
        match (action, self.overlay) {
            (Action::Open, Overlay::Log) => {
                self.overlay = Overlay::None;
                return self.log.get(self.log_list.selected).map(|item| Effect::Show(item.id));
            }
            (Action::Back | Action::Quit | Action::Open, _) | (Action::Help, Overlay::Help) | (Action::Log, Overlay::Log) => {
                self.overlay = Overlay::None;
            }
            (Action::Help, _) => self.overlay = Overlay::Help,
            (Action::Log, _) => self.overlay = Overlay::Log,
            _ => self.look(action),
        }
        None
    }

    /// Movements and searches.
    fn look(&mut self, action: Action) {
        match action {
            Action::Search => self.input = Some(Input::search()),
            Action::NextMatch => self.search(true),
            Action::PreviousMatch => self.search(false),
            _ => self.go(action),
        }
    }

    fn go(&mut self, action: Action) {
        let Some(areas) = self.areas() else { return };
        let pane = areas.content(self.focus).unwrap_or(areas.body);
        let height = if self.overlay == Overlay::None { pane.height } else { areas.body.height - 1 };
        let page = isize::try_from(height).unwrap_or(1).max(1);
        let to = match action {
            Action::Down => Move::By(1),
            Action::Up => Move::By(-1),
            Action::PageDown => Move::By(page),
            Action::PageUp => Move::By(-page),
            Action::HalfDown => Move::By((page / 2).max(1)),
            Action::HalfUp => Move::By(-(page / 2).max(1)),
            Action::Top => Move::Top,
            Action::Bottom => Move::Bottom,
            _ => return,
        };
        match (self.overlay, self.focus) {
            (Overlay::Help, _) => self.help.go(to),
            (Overlay::Log, _) => self.log_list.go(to, self.log.len()),
            (_, Pane::Files) => self.file.go(to, self.files.len()),
            (_, Pane::Diff) => self.diff.go(to),
            (_, Pane::Conversation) => self.conversation.go(to),
        }
    }

    /// Goes to the next match in whatever has the keys.
    fn search(&mut self, forward: bool) {
        let Some(query) = self.query.clone() else { return self.say("Search with / first.") };
        let found = match (self.overlay, self.focus) {
            (Overlay::Help, _) => self.help.search(&query, forward),
            (Overlay::Log, _) => {
                let text = |n: usize| {
                    format!("{} {} {} {}", self.log[n].id, self.log[n].trigger, self.log[n].state, self.log[n].message)
                };
                let found = query.next(self.log_list.selected, self.log.len(), forward, |n| query.is_in(&text(n)));
                found.map(|(place, is_round)| {
                    self.log_list.selected = place;
                    is_round
                })
            }
            (_, Pane::Files) => {
                let is_match = |n: usize| query.is_in(&self.files[n].path);
                query.next(self.file.selected, self.files.len(), forward, is_match).map(|(place, is_round)| {
                    self.file.selected = place;
                    is_round
                })
            }
            (_, Pane::Diff) => self.diff.search(&query, forward),
            (_, Pane::Conversation) => self.conversation.search(&query, forward),
        };
        match found {
            None => self.complain(&format!("'{}' is not found here.", query.text())),
            Some(true) => self.say("The search went round."),
            Some(false) => {}
        }
    }

    /// The checkpoint that waits before or behind the one that is shown.
    fn waiting_beside(&mut self, newer: bool) -> Option<Effect> {
        let shown = self.facts.as_ref()?.checkpoint;
        let place = self.log.iter().position(|item| item.id == shown).unwrap_or(0);
        let found = match newer {
            true => self.log[..place].iter().rev().find(|item| item.waits),
            false => self.log.get(place + 1..).unwrap_or_default().iter().find(|item| item.waits),
        };
        let found = found.map(|item| Effect::Show(item.id));
        if found.is_none() {
            self.say(if newer { "No newer checkpoint waits." } else { "No older checkpoint waits." });
        }
        found
    }

    fn ask_reason(&mut self, verdict: Verdict) {
        self.input = self.facts.as_ref().map(|facts| Input::reason(verdict, facts.checkpoint));
    }

    fn typed(&mut self, mut input: Input, key: KeyEvent) -> Option<Effect> {
        self.message = None;
        let effect = match input.key(key) {
            KeyOutcome::More => {
                self.input = Some(input);
                None
            }
            KeyOutcome::Left => None,
            KeyOutcome::Search(text) => {
                if !text.is_empty() {
                    self.query = Some(Query::new(&text));
                }
                self.search(true);
                None
            }
            KeyOutcome::Decided { checkpoint, verdict, reason } => Some(Effect::Decide { checkpoint, verdict, reason }),
        };
        self.lay();
        effect
    }
}

/// Columns before a line of text: its sign, and a blank.
pub const SIGN_COLUMNS: usize = 2;
