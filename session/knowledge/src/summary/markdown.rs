//! A summary as Markdown, in five sections that are always there, and a model's summary behind them.

use parhelia_agent::transcript::story::Approach;

use super::{Summary, model::ModelSummary, quote::escaped};

/// The most items of a section's list.
const ITEMS_MAX: usize = 12;
/// The most commands, documents and packages that are named.
const NAMED_MAX: usize = 8;

/// The summary as Markdown.
pub fn markdown(summary: &Summary) -> String {
    let mut page = format!("## Session Summary: {}\n", escaped(&summary.session));
    let failures: Vec<String> = failed(&summary.approaches, &summary.blockers).map(line).collect();
    section(&mut page, "Progress", &summary.progress, "Nothing is recorded yet.");
    section(&mut page, "Decisions", &summary.decisions, "None are recorded.");
    section(&mut page, "Failed Approaches", &failures, "None are known.");
    section(&mut page, "Blockers", &summary.blockers, "None are known.");
    section(&mut page, "Context for Resume", &context(summary), "Nothing is known.");
    if let Some(model) = &summary.model {
        by_model(&mut page, model);
    }
    page
}

/// A model's words, as a quotation that none of them ends.
fn by_model(page: &mut String, model: &ModelSummary) {
    let (checkpoint, at) = (model.checkpoint, model.at.strftime("%Y-%m-%d %H:%M UTC"));
    page.push_str("\n### Summary by a Model\n");
    page.push_str(&format!("Written by {} at {at}, of checkpoint {checkpoint}:\n\n", escaped(&model.generated_by.shown())));
    for line in model.text.lines() {
        page.push_str(format!("> {}", quoted_line(line)).trim_end());
        page.push('\n');
    }
}

/// A line in which headings, items of lists and code stay, and links, images and HTML are text.
fn quoted_line(line: &str) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let (indent, rest) = line.split_at(indent);
    let mark = ["- ", "* ", "+ "].into_iter().find(|mark| rest.starts_with(mark)).map_or(0, str::len);
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match rest.as_bytes().get(hashes.max(digits)..) {
        Some([b' ', ..]) if (1..=6).contains(&hashes) => hashes + 1,
        Some([b'.' | b')', b' ', ..]) if (1..=9).contains(&digits) => digits + 2,
        _ => mark,
    };
    let (mark, text) = rest.split_at(mark);
    // `**` begins no item.
    let stars = if text.starts_with("**") { 2 } else { 0 };
    format!("{indent}{mark}{}{}", &text[..stars], escaped(&text[stars..]))
}

fn section(page: &mut String, title: &str, items: &[String], none: &str) {
    page.push_str(&format!("\n### {title}\n"));
    if items.is_empty() {
        page.push_str(none);
        page.push('\n');
    }
    for item in items.iter().take(ITEMS_MAX) {
        page.push_str(&format!("- {}\n", escaped(item)));
    }
    if items.len() > ITEMS_MAX {
        page.push_str(&format!("- and {} more\n", items.len() - ITEMS_MAX));
    }
}

/// Approaches that failed, but for commands that are listed as being in the way.
pub fn failed<'a>(approaches: &'a [Approach], blockers: &'a [String]) -> impl Iterator<Item = &'a Approach> {
    let is_blocker = |approach: &Approach| {
        let command = base(&approach.what);
        approach.resolved_by.is_none() && command.starts_with('`') && blockers.iter().any(|blocker| blocker.starts_with(command))
    };
    approaches.iter().filter(move |approach| approach.failed && !is_blocker(approach))
}

/// A command without the number of times that it failed.
fn base(what: &str) -> &str {
    what.rfind("` (").map_or(what, |at| &what[..=at])
}

/// An approach that failed, in one line.
pub fn line(approach: &Approach) -> String {
    let error = approach.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let by = approach.resolved_by.as_ref().map(|by| format!(" (passed after: {by})")).unwrap_or_default();
    format!("{}{error}{by}", approach.what)
}

fn context(summary: &Summary) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(summary.task.as_ref().map(|task| format!("Task: {task}")));
    lines.extend(summary.next_steps.iter().take(NAMED_MAX).map(|step| format!("Next step: {step}")));
    lines.extend(summary.open_questions.iter().take(NAMED_MAX).map(|question| format!("Open question: {question}")));
    lines.truncate(ITEMS_MAX - 6);
    lines.extend(summary.cwd.as_ref().map(|cwd| format!("Working directory: {cwd}")));
    lines.extend(place(summary));
    let commands = summary.recent_commands.iter().take(NAMED_MAX).map(|ran| match ran.failed {
        true => format!("`{}` (failed)", ran.command),
        false => format!("`{}`", ran.command),
    });
    let packages = summary.packages.iter().map(|package| format!("{} ({})", package.name, package.manager));
    let files = summary.files.iter().map(|file| file.path.clone());
    let listed: [(&str, Vec<String>, usize); 4] = [
        ("Files changed", files.take(NAMED_MAX).collect(), summary.files.len()),
        ("Documents read", summary.relevant_docs.iter().take(NAMED_MAX).cloned().collect(), summary.relevant_docs.len()),
        ("Packages installed", packages.take(NAMED_MAX).collect(), summary.packages.len()),
        ("Last commands, newest first", commands.collect(), 0),
    ];
    for (label, named, count) in listed.into_iter().filter(|(_, named, _)| !named.is_empty()) {
        let more = if count > named.len() { format!(" and {} more", count - named.len()) } else { String::new() };
        lines.push(format!("{label}: {}{more}", named.join(", ")));
    }
    lines
}

fn place(summary: &Summary) -> Option<String> {
    let commit = summary.git_commit.as_ref().map(|commit| commit.chars().take(12).collect::<String>());
    match (&summary.git_branch, commit) {
        (Some(branch), Some(commit)) => Some(format!("Git branch: {branch}, at {commit}")),
        (Some(branch), None) => Some(format!("Git branch: {branch}, without a commit")),
        (None, Some(commit)) => Some(format!("Git commit: {commit}, on no branch")),
        (None, None) => None,
    }
}
