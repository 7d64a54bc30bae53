//! Which conversation a live agent has open, by the file that it keeps of itself.

use std::{fs, path::Path};

use serde_json::Value;

use crate::process::Identity;

/// The folder, in the agent's own, with a file for each of its processes.
const SESSIONS: &str = "sessions";

/// What an agent says of a conversation that it has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// It goes on with it.
    Ready,
    /// It is asked to; of one that it does not know it says so for a moment, too. One without a terminal never says more.
    Asked,
}

/// What live processes of the agent say of a conversation. One that died may have left its file behind.
pub fn open(config: &Path, conversation: &str) -> Option<Open> {
    let entries = fs::read_dir(config.join(SESSIONS)).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let mut live = files.filter_map(|path| read(&path)).filter(|said| said.process.is_alive());
    live.find(|said| said.conversation == conversation).map(|said| said.open)
}

/// What a process of the agent says of the conversation that it has open, whichever that is.
pub fn open_in(config: &Path, process: i32) -> Option<Open> {
    let said = read(&config.join(SESSIONS).join(format!("{process}.json")))?;
    said.process.is_alive().then_some(said.open)
}

struct Said {
    process: Identity,
    conversation: String,
    open: Open,
}

fn read(path: &Path) -> Option<Said> {
    let said: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let now = Identity::of(i32::try_from(said["pid"].as_i64()?).ok()?).ok()?;
    // A release that does not say when its process began is believed.
    let began = said["procStart"].as_str().and_then(|ticks| ticks.parse().ok()).unwrap_or(now.start_time);
    let open = if said["status"].is_string() { Open::Ready } else { Open::Asked };
    Some(Said { process: Identity { start_time: began, ..now }, conversation: said["sessionId"].as_str()?.to_owned(), open })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_live_process_has_a_conversation_open() {
        let folder = tempfile::tempdir().unwrap();
        let me = Identity::of(std::process::id() as i32).unwrap();
        let path = folder.path().join(SESSIONS).join(format!("{}.json", me.process));
        fs::create_dir(path.parent().unwrap()).unwrap();
        let write = |start: u64, status: Option<&str>| {
            let said = json!({ "pid": me.process, "procStart": start.to_string(), "sessionId": "one", "status": status });
            fs::write(&path, said.to_string()).unwrap();
        };
        write(me.start_time, None);
        assert_eq!((open(folder.path(), "one"), open(folder.path(), "two")), (Some(Open::Asked), None));
        write(me.start_time, Some("idle"));
        assert_eq!(open(folder.path(), "one"), Some(Open::Ready));
        assert_eq!(open_in(folder.path(), me.process), Some(Open::Ready));
        write(me.start_time + 1, Some("idle"));
        assert_eq!((open(folder.path(), "one"), open_in(folder.path(), me.process)), (None, None));
        fs::write(&path, "{").unwrap();
        assert_eq!(open(folder.path(), "one"), None);
        assert_eq!(open(&folder.path().join("nothing"), "one"), None);
    }
}
