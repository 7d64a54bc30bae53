//! The last message of a turn in the transcript. The agent reports a turn's end to its hooks before it writes the message down.

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use serde_json::Value;

use crate::regular::open;

/// Bytes read of a transcript's end. A turn's last message lies there, or is not written yet.
const TAIL_BYTES: u64 = 1 << 20;

/// True if what follows the last prompt of a transcript says this; only a beginning of it may be given.
pub fn has_answer(transcript: &Path, said: &str) -> io::Result<bool> {
    let mut file = open(transcript)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    // A record that is being written has no end, and so does not parse.
    let records = tail.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    for record in records {
        let payload = &record["payload"];
        // A rollout has messages in its payloads.
        let (content, role) = match payload["type"].as_str() {
            Some("message") => (&payload["content"], payload["role"].as_str()),
            Some("task_started") => return Ok(false),
            _ => (&record["message"]["content"], record["type"].as_str()),
        };
        match role {
            Some("assistant") if texts(content).any(|text| is_of(text, said)) => return Ok(true),
            Some("user") if payload.is_null() && is_prompt(&record) => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

/// True if the model has answered in a transcript, of which the beginning is read.
pub fn has_any_answer(transcript: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    open(transcript)?.take(TAIL_BYTES).read_to_end(&mut head)?;
    let mut records = head.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    Ok(records.any(|record| record["type"] == "assistant" || record["payload"]["role"] == "assistant"))
}

fn texts(content: &Value) -> impl Iterator<Item = &str> {
    content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str())
}

/// True if a block of text begins with what was said, or is the end of it: an answer may have several blocks.
fn is_of(text: &str, said: &str) -> bool {
    let (text, said) = (text.trim(), said.trim());
    !text.is_empty() && (text.starts_with(said) || said.ends_with(text))
}

/// True if somebody asks here; results of tools are records of the user as well.
fn is_prompt(record: &Value) -> bool {
    let is_result = |block: &Value| block["type"] == "tool_result";
    let blocks = record["message"]["content"].as_array();
    record["isMeta"] != true && !blocks.is_some_and(|blocks| blocks.iter().any(is_result))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn user(content: &Value) -> String {
        format!("{}\n", json!({ "type": "user", "message": { "role": "user", "content": content } }))
    }

    fn assistant(text: &str) -> String {
        let content = json!([{ "type": "text", "text": text }]);
        format!("{}\n", json!({ "type": "assistant", "message": { "role": "assistant", "content": content } }))
    }

    #[test]
    fn an_answer_is_that_of_the_last_prompt_and_whole() {
        let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": "done" }]);
        let asked = [user(&json!("one")), assistant("Done."), user(&json!("two"))].concat();
        let answered = [&asked, &user(&result), &assistant("Done."), "{\"type\":\"system\"}\n"].concat();
        let rollout = concat!(
            "{\"type\":\"event_msg\",\"payload\":{\"type\":\"task_started\"}}\n",
            "{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"text\":\"Done.\"}]}}\n",
        );
        let begun = [rollout, "{\"type\":\"event_msg\",\"payload\":{\"type\":\"task_started\"}}\n"].concat();
        let torn = format!("{asked}{}", &assistant("Done.")[..60]);
        let other = format!("{asked}{}", assistant("Not yet."));
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, said, expected) in [
            (&asked, "Done.", false),
            (&answered, "Done.\n", true),
            (&answered, "Do", true),
            (&rollout.to_owned(), "Done.", true),
            (&begun, "Done.", false),
            (&answered, "First.\n\nDone.", true),
            (&answered, "Otherwise.", false),
            (&torn, "Done.", false),
            (&other, "Done.", false),
            (&String::new(), "Done.", false),
        ] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(has_answer(file.path(), said).unwrap(), expected, "{said} in {text}");
        }
        assert!(has_answer(Path::new("/no/such/file"), "Done.").is_err());
    }
}
