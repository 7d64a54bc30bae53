//! Words about a session and its checkpoints, as the screen and the command line have them.

use parhelia_store::{
    name,
    projection::{Approval, ApprovalStatus},
};

/// A decision about a checkpoint, with who made it or by which rule.
pub fn decision(approval: Option<&Approval>) -> String {
    let Some(approval) = approval else { return "not decided".into() };
    let text = |text: &String| name::display(text.as_bytes());
    let by = approval.user.as_ref().map(|user| format!(" by {}", text(user))).unwrap_or_default();
    let rule = approval.rule.as_ref().map(|rule| format!(" ({})", text(rule))).unwrap_or_default();
    match approval.status {
        ApprovalStatus::Pending => format!("pending review{rule}"),
        status => format!("{}{by}{rule}", status.name()),
    }
}
