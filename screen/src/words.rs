//! Words about a session and its checkpoints, as the screen and the command line have them.

use parhelia_ledger::{Approval, ApprovalStatus};
use parhelia_oversight::review::unseen::{ByRule, Exclusions};
use parhelia_store::name;

use crate::human;

/// Everything that rules keep out of a review, a line each, and what rules are new; none where there is nothing of the kind.
pub fn unseen(unseen: &Exclusions, is_approved: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if !unseen.by_rule.is_empty() {
        lines.push(format!("Not in this review: {} that rules leave out", human::count(unseen.entries(), "entry")));
        lines.extend(unseen.by_rule.iter().map(|by| format!("  {}: {}", name::display(by.rule.as_bytes()), left_out(by))));
    }
    let rules = |rules: &[String]| rules.iter().map(|rule| name::display(rule.as_bytes())).collect::<Vec<_>>().join(", ");
    if !unseen.rules_added.is_empty() {
        let since = if is_approved { "New rules since a person approved" } else { "Rules that nobody approved" };
        lines.push(format!("{since}: {}", rules(&unseen.rules_added)));
    }
    if !unseen.rules_removed.is_empty() {
        lines.push(format!("Rules that are gone since then: {}", rules(&unseen.rules_removed)));
    }
    lines
}

/// The entries that a rule leaves out: how many, and the first ones. The paths are as they are shown.
pub fn left_out(by: &ByRule) -> String {
    let more = by.entries.saturating_sub(by.paths.len() as u64);
    let more = if more > 0 { format!(" and {} more", human::number(more)) } else { String::new() };
    let old = by.entries - by.new;
    let known = if old > 0 && by.new > 0 { format!("; {} new", human::number(by.new)) } else { String::new() };
    format!("{} ({}{more}{known})", human::count(by.entries, "entry"), by.paths.join(", "))
}

/// A decision about a checkpoint, with who made it or by which rule.
pub fn decision(approval: Option<&Approval>) -> String {
    let Some(approval) = approval else { return "not decided".into() };
    let text = |text: &String| name::display(text.as_bytes());
    let by = approval.who().map(|who| format!(" by {}", text(&who))).unwrap_or_default();
    let rule = approval.rule.as_ref().map(|rule| format!(" ({})", text(rule))).unwrap_or_default();
    match approval.status {
        ApprovalStatus::Pending => format!("pending review{rule}"),
        status => format!("{}{by}{rule}", status.name()),
    }
}
