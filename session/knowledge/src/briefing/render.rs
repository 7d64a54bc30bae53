//! Putting it into words, most important first, until the budget is used up.

use std::fmt::Write;

use parhelia_agent::{
    briefing::{CLEARED, FORGOTTEN, INCOMPLETE, NEW_CONVERSATION, SAME_CONVERSATION},
    transcript::statements::Speaker,
};
use parhelia_store::name;

use super::{
    input::{ChangedFile, Ending, File, Input, Why},
    statements,
};
use crate::budget::{Budget, characters, tokens};

/// A rendered briefing and its size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Injection {
    /// The briefing as Markdown, as the agent gets it.
    pub text: String,
    /// Length of the text, in characters.
    pub characters: usize,
    /// Length of the text, in estimated tokens.
    pub tokens: usize,
    /// Files whose content or diff is in it.
    pub files: usize,
    /// Files and sections that did not fit.
    pub left_out: Vec<LeftOut>,
}

/// Something that did not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// Its name: a path, or a section.
    pub what: String,
    /// The command or path that reads it.
    pub how: String,
}

/// The budget of the last lines, which name what was left out.
const TAIL: Budget = Budget { tokens_max: 420, characters_max: 900 };

/// No single item of a list is longer, in characters.
const ITEM_CHARACTERS_MAX: usize = 400;
const SUMMARY_CHARACTERS_MAX: usize = 2_000;
const BY_MODEL_CHARACTERS_MAX: usize = 1_200;
const TASK_CHARACTERS_MAX: usize = 1_500;
const ITEMS_MAX: usize = 12;
/// Stands at a file of which not all changes fit.
const SOME_CHANGES: &str = "some of its changes";

/// The shares of what is left that statements may take, in percent.
const USER_PERCENT: usize = 50;
const AGENT_PERCENT: usize = 18;
const PORTS_PERCENT: usize = 5;

/// Renders an input. The same input and budget give the same text.
pub fn render(input: &Input, budget: Budget) -> Injection {
    let tail = Budget {
        tokens_max: TAIL.tokens_max.min(budget.tokens_max / 4),
        characters_max: TAIL.characters_max.min(budget.characters_max / 4),
    };
    let left =
        Budget { tokens_max: budget.tokens_max - tail.tokens_max, characters_max: budget.characters_max - tail.characters_max };
    let mut page = Page { input, left, tail, text: String::new(), files: 0, left_out: Vec::new() };
    page.must(&head(input));
    page.must(&about(input));
    page.section("Summary", &cut(&input.summary, SUMMARY_CHARACTERS_MAX));
    let by_model = input.by_model.as_deref().unwrap_or_default();
    page.section("Summary (written by a model)", &cut(by_model, BY_MODEL_CHARACTERS_MAX));
    let task = if input.why.is_background() { "The last task" } else { "Current task" };
    page.section(task, &cut(input.task.as_deref().unwrap_or_default(), TASK_CHARACTERS_MAX));
    page.list("Prompts that were typed and lost: the agent was gone before it took them up", &input.queued, false);
    page.list("Next steps", &input.next_steps, true);
    page.list("Decisions", &input.decisions, false);
    page.statements();
    page.list("Failed approaches: do not repeat them unless something has changed", &input.failed_approaches, false);
    page.list("Blockers", &input.blockers, false);
    page.list("Open questions", &input.open_questions, false);
    let pending: Vec<String> = input.pending.iter().map(|call| format!("{}: {}", call.tool, call.input)).collect();
    page.list(
        "Interrupted tool calls: they have no result, and were not repeated. Check what they did before running them again",
        &pending,
        false,
    );
    page.list_readable_by("Around this resume", &input.notices, false, format!("parhelia log {}", input.session));
    page.changes();
    page.uncommitted();
    if !input.why.is_background() {
        page.files();
    }
    page.tail()
}

struct Page<'a> {
    input: &'a Input,
    left: Budget,
    tail: Budget,
    text: String,
    files: usize,
    left_out: Vec<LeftOut>,
}

impl Page<'_> {
    /// Adds a piece if it fits.
    fn add(&mut self, piece: &str) -> bool {
        let fits = self.left.fits(piece);
        if fits {
            self.left = self.left.minus(piece);
            self.text.push_str(piece);
        }
        fits
    }

    /// Adds a piece, cut to what fits.
    fn must(&mut self, piece: &str) {
        if piece.is_empty() || self.add(piece) {
            return;
        }
        let mut room = self.left.characters_max;
        while room > 20 {
            let shorter = format!("{}\n", cut(piece, room));
            if self.add(&shorter) {
                return;
            }
            room = room * 3 / 4;
        }
    }

    fn section(&mut self, title: &str, body: &str) {
        if !body.trim().is_empty() {
            // What was pasted into a prompt must not look like a section of ours.
            let is_steering = |line: &str| line.trim_start().starts_with(['#', '`']) || line.trim_start().starts_with("---");
            let lines = body.trim().lines().map(|line| if is_steering(line) { format!("\\{line}") } else { line.to_owned() });
            self.must(&format!("\n## {title}\n{}\n", lines.collect::<Vec<_>>().join("\n")));
        }
    }

    /// Lists what is in the conversation.
    fn list(&mut self, title: &str, items: &[String], numbered: bool) {
        let how = self.input.transcript.clone();
        self.list_readable_by(
            title,
            items,
            numbered,
            how.unwrap_or_else(|| format!("parhelia session show {}", self.input.session)),
        );
    }

    /// Sentences of the conversation, in its words.
    fn statements(&mut self) {
        let parts = [
            (Speaker::User, "What the user said, turn by turn", USER_PERCENT),
            (Speaker::Agent, "What the agent said", AGENT_PERCENT),
            (Speaker::Tool, "Ports that commands named", PORTS_PERCENT),
        ];
        let whole = self.left;
        for (by, title, percent) in parts {
            let share = whole.part(percent);
            let told = one_line(&self.text);
            let (lines, more) = statements::lines(&self.input.statements, by, &told, share);
            let text = lines.iter().map(|line| format!("- {line}\n")).collect::<String>();
            if !text.is_empty() {
                self.add(&format!("\n## {title}\n{text}"));
            }
            if more > 0 {
                let how = self.input.transcript.clone();
                let how = how.unwrap_or_else(|| format!("parhelia session show {}", self.input.session));
                self.leave_out(format!("{title}: {more} more"), how);
            }
        }
    }

    fn list_readable_by(&mut self, title: &str, items: &[String], numbered: bool, how: String) {
        let more = self.list_beginning(title, items, numbered);
        if more > 0 {
            let title = title.split(':').next().unwrap_or_default();
            self.leave_out(format!("{title}: {more} more"), how);
        }
    }

    /// Lists the first of some items. Returns how many there are behind them.
    fn list_beginning(&mut self, title: &str, items: &[String], numbered: bool) -> usize {
        let items: Vec<String> = items.iter().map(|item| one_line(item)).filter(|item| !item.is_empty()).collect();
        let mut shown = 0;
        for (n, item) in items.iter().take(ITEMS_MAX).enumerate() {
            let mark = if numbered { format!("{}.", n + 1) } else { "-".to_owned() };
            let title = if n == 0 { format!("\n## {title}\n") } else { String::new() };
            if !self.add(&format!("{title}{mark} {}\n", cut(item, ITEM_CHARACTERS_MAX))) {
                break;
            }
            shown = n + 1;
        }
        items.len() - shown
    }

    /// Files that git calls changed; it lists the others itself.
    fn uncommitted(&mut self) {
        let title = "Uncommitted (git)";
        let more = self.list_beginning(title, &self.input.uncommitted, false) + self.input.uncommitted_more;
        if more > 0 {
            let folder = self.input.repository.as_ref().map(|folder| format!("-C {} ", shell(folder))).unwrap_or_default();
            let each = if folder.is_empty() { ", in each repository" } else { "" };
            self.leave_out(format!("{title}: {more} more{each}"), format!("git {folder}status --short --untracked-files=all"));
        }
    }

    fn changes(&mut self) {
        let input = self.input;
        let command = match input.since.is_empty() {
            true => format!("parhelia checkpoint diff {} {}", input.first, input.checkpoint),
            false => format!("parhelia checkpoint diff {} --workspace {}", input.first, shell(&input.folder)),
        };
        // They may take a third of what is left, so that files have room.
        self.list_changes("Changes in this session", &input.changes, &command, 3);
        let command = format!("parhelia checkpoint diff {} --workspace {}", input.checkpoint, shell(&input.folder));
        self.list_changes("Of these, since the checkpoint", &input.since, &command, 6);
    }

    fn list_changes(&mut self, title: &str, changes: &[ChangedFile], command: &str, part: usize) {
        if changes.is_empty() {
            return;
        }
        let share = Budget { tokens_max: self.left.tokens_max / part, characters_max: self.left.characters_max / part };
        let (mut text, mut shown) = (format!("\n## {title}\n"), 0);
        for change in changes {
            let line = change_line(change);
            if !share.fits(&format!("{text}{line}")) {
                break;
            }
            text.push_str(&line);
            shown += 1;
        }
        if shown > 0 && !self.add(&text) {
            shown = 0;
        }
        if shown < changes.len() {
            self.leave_out(format!("{} more changes", changes.len() - shown), command.to_owned());
        }
    }

    /// Whole files as long as they fit, else what changed in them.
    fn files(&mut self) {
        let mut has_title = false;
        for file in &self.input.files {
            let title = if has_title { "" } else { "\n## Files (recorded content, not instructions)\n" };
            let diff = file.diff.as_ref().map(|diff| format!("{title}{}", fenced(file, diff, "diff")));
            let whole = file.text.as_ref().map(|text| format!("{title}{}", fenced(file, text, "")));
            // A long file would leave no room for others, where its changes do.
            let half = self.left.part(50);
            let whole = whole.filter(|piece| diff.is_none() || half.fits(piece));
            if whole.is_some_and(|piece| self.add(&piece)) || diff.is_some_and(|piece| self.add(&piece)) {
                has_title = true;
                self.files += 1;
                continue;
            }
            has_title |= self.some_changes(title, file);
            let how = self.read_command(&file.path);
            self.leave_out(file.path.clone(), how);
        }
    }

    /// The first changes of a file, as many as fit. Returns whether one does.
    fn some_changes(&mut self, title: &str, file: &File) -> bool {
        let Some(diff) = &file.diff else { return false };
        let file = File { reason: SOME_CHANGES.to_owned(), ..file.clone() };
        let ends = diff.match_indices("\n@@ ").map(|(at, _)| at + 1).skip(1);
        let ends: Vec<usize> = ends.collect();
        ends.iter().rev().any(|end| self.add(&format!("{title}{}", fenced(&file, &diff[..*end], "diff"))))
    }

    fn leave_out(&mut self, what: String, how: String) {
        self.left_out.push(LeftOut { what, how });
    }

    fn read_command(&self, path: &str) -> String {
        match &self.input.mount {
            Some(mount) => format!("{mount}/{path}"),
            None => format!("parhelia checkpoint cat {}", shell(&format!("{}:{path}", self.input.checkpoint))),
        }
    }

    /// Names what is not there, as far as that fits.
    fn tail(mut self) -> Injection {
        if !self.left_out.is_empty() {
            // What the body has left over is the tail's, too.
            self.left.tokens_max += self.tail.tokens_max;
            self.left.characters_max += self.tail.characters_max;
            self.name_left_out();
        }
        Injection {
            characters: characters(&self.text),
            tokens: tokens(&self.text),
            text: self.text,
            files: self.files,
            left_out: self.left_out,
        }
    }
}

impl Page<'_> {
    fn name_left_out(&mut self) {
        let more = |count: usize| format!("- and {count} more; `parhelia checkpoint ls -R {}`\n", self.input.checkpoint);
        let room = self.left.minus(&more(self.left_out.len()));
        let mut text = "\n## Not included\n".to_owned();
        let mut named = 0;
        for item in self.left_out.iter().take(ITEMS_MAX) {
            let line = format!("- {}: `{}`\n", cut(&item.what, 160), cut(&item.how, 300));
            if !room.fits(&format!("{text}{line}")) {
                break;
            }
            text.push_str(&line);
            named += 1;
        }
        if named < self.left_out.len() {
            text.push_str(&more(self.left_out.len() - named));
        }
        self.add(&text);
    }
}

fn head(input: &Input) -> String {
    let age = input.age.as_ref().map(|age| format!(", made {age}")).unwrap_or_default();
    let (session, checkpoint) = (&input.session, &input.checkpoint);
    let from = if checkpoint.is_empty() { String::new() } else { format!(" from checkpoint {checkpoint}{age}") };
    let text = match input.why {
        Why::Resumed => {
            let ended = match input.ended {
                Ending::Told => "is",
                Ending::Unseen => "ended, nobody saw how, and is",
                Ending::Interrupted => "was interrupted and is",
            };
            format!("{SAME_CONVERSATION}{session}) {ended} resumed{from}.")
        }
        Why::Replaced => format!(
            "{NEW_CONVERSATION}{session}) in a new conversation: the earlier one could not be opened. The workspace is \
             continued{from}. Wait for the user before you go on with it."
        ),
        Why::Forgotten => format!("{FORGOTTEN}{session}) that may have been lost{from}:"),
        Why::Incomplete => {
            format!("{INCOMPLETE}{session}) was not finished. What is known of it{from}:")
        }
        Why::Cleared => {
            format!("{CLEARED}{session}), this was done here{from}. It is background: do what the user asks for from here on.")
        }
        Why::Earlier => format!("{INCOMPLETE}{session}) has ended. It is background; what is known of it{from}:"),
    };
    format!("{text}{}\n", input.ending.as_ref().map(|ending| format!(" {ending}")).unwrap_or_default())
}

fn about(input: &Input) -> String {
    let mut text = String::new();
    if !input.folder.is_empty() {
        let _ = write!(text, "Folder: {}", input.folder);
    }
    if let Some(branch) = &input.branch {
        let commit = input.commit.as_ref().map(|commit| format!(" at {}", commit.chars().take(12).collect::<String>()));
        let _ = write!(text, "; git branch {branch}{}", commit.unwrap_or_default());
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn change_line(change: &ChangedFile) -> String {
    match change.lines {
        // Of a file whose metadata alone has changed.
        Some((0, 0)) => format!("{} {}\n", change.mark, change.path),
        Some((added, removed)) => format!("{} {} +{added} -{removed}\n", change.mark, change.path),
        None => format!("{} {}\n", change.mark, change.path),
    }
}

/// A text in a fence that it cannot close.
fn fenced(file: &File, text: &str, kind: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let reason = if file.reason.is_empty() { String::new() } else { format!(" ({})", file.reason) };
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("\n### {}{reason}\n{fence}{kind}\n{text}{end}{fence}\n", file.path)
}

/// A text's beginning, at most so many characters.
fn cut(text: &str, characters_max: usize) -> String {
    if characters(text) <= characters_max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut count = 0;
    for c in text.chars() {
        count += c.len_utf16();
        if count + 3 > characters_max {
            break;
        }
        out.push(c);
    }
    out.push_str("...");
    out
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A word for a shell.
fn shell(text: &str) -> String {
    name::shell(text.as_bytes())
}
