//! Notifications as text for people.

use parhelia_wire::notification::Notification;

/// A longer field is cut off, in characters.
const FIELD_CHARACTERS_MAX: usize = 300;

/// A character without width.
const WORD_JOINER: char = '\u{2060}';

/// The first line: of what, and the event.
pub fn title(notification: &Notification) -> String {
    format!("Parhelia: {}", field(&notification.title))
}

/// The lines below it.
pub fn body(notification: &Notification) -> String {
    let mut lines = Vec::new();
    let of_session = |name: &String| match &notification.session {
        Some(id) if id != name => format!("Session: {} ({})", field(name), field(id)),
        _ => format!("Session: {}", field(name)),
    };
    lines.extend(notification.session_name.as_ref().or(notification.session.as_ref()).map(of_session));
    lines.extend(notification.checkpoint.as_ref().map(|id| format!("Checkpoint: {id}")));
    lines.extend(notification.status.as_ref().map(|status| format!("Status: {status}")));
    lines.extend(notification.reason.as_ref().map(|reason| format!("Reason: {}", field(reason))));
    lines.extend(facts(notification));
    lines.push(format!("Event: {} ({}), {}", notification.event, notification.priority, notification.at));
    if notification.repeated > 0 {
        lines.push(format!("And {} more of these since the last message.", notification.repeated));
    }
    if let Some(command) = &notification.command {
        lines.extend([String::new(), format!("Next: {command}")]);
    }
    lines.join("\n")
}

/// A text in which no receiver makes a link of an address that somebody else has written: the two ends of what it goes by are apart.
pub fn unlinked(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        done.push(character);
        let rest = &text[at + character.len_utf8()..];
        let is_scheme = character == ':' && rest.starts_with("//");
        let is_host = character == '.' && at >= 3 && text.get(at - 3..at).is_some_and(|word| word.eq_ignore_ascii_case("www"));
        if is_scheme || is_host {
            done.push(WORD_JOINER);
        }
    }
    done
}

/// Several at once.
pub fn digest(notifications: &[&Notification]) -> (String, String) {
    let line = |one: &&Notification| {
        let of = one.session_name.as_ref().map(|name| format!(" ({})", field(name))).unwrap_or_default();
        let next = one.command.as_ref().map(|command| format!("\n  {command}")).unwrap_or_default();
        format!("- {}{of}, {}{next}", field(&one.title), one.at)
    };
    let lines: Vec<String> = notifications.iter().map(line).collect();
    (format!("Parhelia: {} notifications", notifications.len()), lines.join("\n"))
}

/// Cost, time and files, where they are known.
fn facts(notification: &Notification) -> Option<String> {
    let cost = notification.cost_usd.map(|cost| format!("Cost: ${cost:.2}"));
    let duration = notification.duration_seconds.map(|seconds| format!("Duration: {}", time(seconds)));
    let files = notification.files_changed.map(|files| format!("Files: {files}"));
    let known: Vec<String> = [cost, duration, files].into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(" | "))
}

fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A text of somebody else as one line: whatever could pass for another line, or turn the direction of writing around, is a space.
pub fn field(text: &str) -> String {
    let is_format =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    let plain: String = text.chars().map(|c| if c.is_control() || is_format(c) { ' ' } else { c }).collect();
    let mut words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(FIELD_CHARACTERS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A notification with a hostile name.
    pub fn sample() -> Notification {
        Notification {
            id: "01J-7-session.completed".into(),
            event: "session.completed".into(),
            priority: "notice".into(),
            at: "2026-01-20T14:42:22Z".into(),
            title: "Session is done".into(),
            session: Some("fix-auth".into()),
            session_name: Some("fix <!channel> @everyone\r\nBcc: x@y".into()),
            checkpoint: None,
            status: Some("paused".into()),
            cost_usd: Some(0.45),
            duration_seconds: Some(12 * 60),
            files_changed: Some(3),
            reason: None,
            command: Some("parhelia session review fix-auth".into()),
            link: None,
            repeated: 0,
        }
    }

    #[test]
    fn a_text_has_everything_that_is_known_and_no_line_of_somebody_else() {
        let text = body(&sample());
        assert_eq!(
            text,
            "Session: fix <!channel> @everyone Bcc: x@y (fix-auth)\nStatus: paused\nCost: $0.45 | Duration: 12m | Files: 3\n\
             Event: session.completed (notice), 2026-01-20T14:42:22Z\n\nNext: parhelia session review fix-auth"
        );
        assert_eq!(field("a\u{202e}b\u{2028}c"), "a b c");
        assert_eq!(field(&"x".repeat(1000)).chars().count(), FIELD_CHARACTERS_MAX + 1);
        assert_eq!(unlinked("see https://a.b, WWW.c.d a://"), "see https:\u{2060}//a.b, WWW.\u{2060}c.d a:\u{2060}//");
        assert_eq!(unlinked("a::b ö: /c"), "a::b ö: /c");
        let (title, text) = digest(&[&sample(), &sample()]);
        assert_eq!((title.as_str(), text.lines().count()), ("Parhelia: 2 notifications", 4));
    }
}
