//! Messages of a transcript, read back from a range of its bytes: for showing what was said, not for exactness.

pub use super::message::{Call, Message, Role};

use std::io::{self, BufRead};

use super::{
    json::Object,
    line::{self, Line},
    parts::MessageCursor,
};
use crate::kinds::RECORDS;

/// Reads messages until the input ends, and hands each to `each`, its texts cut to so many bytes. What subagents said is left out.
pub fn read(mut input: impl BufRead, text_bytes_max: usize, mut each: impl FnMut(Message)) -> io::Result<()> {
    let (mut buffer, mut repeated) = (Vec::new(), MessageCursor::default());
    while let Some((line, _)) = line::next(&mut input, &mut buffer)? {
        if line == Line::Whole
            && let Some(record) = Object::parse(&buffer)
        {
            let found = RECORDS.iter().find_map(|records| (records.messages)(&record, &mut repeated, text_bytes_max));
            found.into_iter().flatten().for_each(&mut each);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_in_order() {
        let transcript = concat!(
            "{\"type\":\"user\",\"uuid\":\"u1\",\"message\":{\"content\":\"fix the bug\"}}\n",
            "{\"type\":\"assistant\",\"uuid\":\"a1\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"Looking.\"},",
            "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Bash\",\"input\":{\"command\":\"ls\"}}]}}\n",
            "{\"type\":\"user\",\"uuid\":\"u2\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",",
            "\"content\":[{\"type\":\"text\",\"text\":\"a b\"}],\"is_error\":true}]}}\n",
            "nonsense\n",
            "{\"type\":\"attachment\",\"uuid\":\"q1\",\"attachment\":{\"type\":\"queued_command\",\"prompt\":\"and more\"}}\n",
            "{\"type\":\"assistant\",\"isSidechain\":true,\"message\":{\"content\":\"elsewhere\"}}\n",
            "{\"type\":\"user\",\"isMeta\":true,\"message\":{\"content\":\"aside\"}}\n",
        );
        let mut found = Vec::new();
        read(transcript.as_bytes(), 6, |message| found.push(message)).unwrap();
        let shown: Vec<_> = found.iter().map(|m| (m.role, m.text.as_str(), m.is_error)).collect();
        let expected = [
            (Role::User, "fix th", false),
            (Role::Assistant, "Lookin", false),
            (Role::Tool, "a b", true),
            (Role::User, "and mo", false),
        ];
        assert_eq!(shown, expected);
        assert_eq!(found[1].calls, [Call { tool: "Bash".into(), about: "ls".into() }]);
    }
}
