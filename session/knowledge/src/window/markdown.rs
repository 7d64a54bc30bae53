//! A conversation as Markdown.

use parhelia_agent::transcript::window::{Piece, What};

/// A piece under its heading.
pub fn piece(piece: &Piece) -> String {
    let tool = piece.tool.as_deref().unwrap_or("a tool");
    let text = piece.text.trim_end();
    match piece.what {
        What::System => format!("## System prompt\n\n{text}\n\n"),
        What::Summary => format!("## Summary of what was compacted\n\n{text}\n\n"),
        What::Told => format!("## Told\n\n{text}\n\n"),
        What::Prompt => format!("## Prompt\n\n{text}\n\n"),
        What::Thought => format!("## Thought\n\n{text}\n\n"),
        What::Reply => format!("## Reply\n\n{text}\n\n"),
        What::Call => format!("### Call of {tool}\n\n{}\n\n", fenced(text)),
        What::Result if piece.is_error => format!("### Error of {tool}\n\n{}\n\n", fenced(text)),
        What::Result => format!("### Result of {tool}\n\n{}\n\n", fenced(text)),
    }
}

/// Pieces as one Markdown text, each below a heading of its kind.
pub fn conversation(pieces: &[Piece]) -> String {
    pieces.iter().map(piece).collect()
}

/// A text in a fence that it cannot close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}
