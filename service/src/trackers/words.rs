//! Texts of comments and new issues, in Markdown.
//!
//! Texts of sessions stand in spans of code: there they mention nobody, refer to no issue, and are no HTML.

use parhelia_wire::notification::Notification;

use crate::notify::text::field;

/// The longest title, in characters.
const TITLE_CHARACTERS_MAX: usize = 120;

/// A text of somebody else as a span of code, of one line.
pub fn code(text: &str) -> String {
    let text = field(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    // A backtick at an end would belong to the fence; where both ends are spaces, one of each is taken away.
    match text.is_empty() || text.contains('`') || text.starts_with(' ') {
        true => format!("{fence} {text} {fence}"),
        false => format!("{fence}{text}{fence}"),
    }
}

/// The title of a new issue.
pub fn title(notification: &Notification) -> String {
    let name = notification.session_name.as_ref().or(notification.session.as_ref());
    let plain = |c: char| if "@#<>`[]&\\".contains(c) { ' ' } else { c };
    let name: String = name.map(|name| field(name).chars().map(plain).collect()).unwrap_or_default();
    let title = format!("{}: {}", notification.title, name.split_whitespace().collect::<Vec<_>>().join(" "));
    title.chars().take(TITLE_CHARACTERS_MAX).collect()
}

/// The text about an event.
pub fn text(notification: &Notification) -> String {
    let mut lines = vec![format!("**{}** (parhelia)", notification.title), String::new()];
    let of_session = |name: &String| match &notification.session {
        Some(id) if id != name => format!("- Session: {} ({})", code(name), code(id)),
        _ => format!("- Session: {}", code(name)),
    };
    lines.extend(notification.session_name.as_ref().or(notification.session.as_ref()).map(of_session));
    lines.extend(notification.checkpoint.as_ref().map(|id| format!("- Checkpoint: {}", code(id))));
    lines.extend(notification.reason.as_ref().map(|reason| format!("- Reason: {}", code(reason))));
    lines.extend(notification.cost_usd.map(|cost| format!("- Cost: ${cost:.2}")));
    lines.extend(notification.command.as_ref().map(|command| format!("- Next: {}", code(command))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::text::tests::sample;

    #[test]
    fn texts_of_others_are_code_that_nothing_ends() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a ``@b`` c"), "``` a ``@b`` c ```");
        assert_eq!(code("x`\n`@everyone"), "`` x` `@everyone ``");
        let text = text(&sample());
        assert!(text.contains("- Session: `fix <!channel> @everyone Bcc: x@y` (`fix-auth`)\n"), "{text}");
        assert!(text.ends_with("- Next: `parhelia session review fix-auth`"), "{text}");
        assert_eq!(title(&sample()), "Session is done: fix !channel everyone Bcc: x y");
    }
}
