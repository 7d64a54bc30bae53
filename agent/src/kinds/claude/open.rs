//! The files that Claude Code's processes keep of themselves: which conversation each has open.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::{
    process::{Identity, boot_time, sees_all, within_container},
    regular,
    said::{AgentProcess, Open, UnseenAgent},
};

/// The folder, in the agent's own, with a file for each of its processes.
const SESSIONS: &str = "sessions";
/// No such file is longer.
const SAID_BYTES_MAX: u64 = 1 << 20;

/// The words of a live process of the agent.
pub(super) fn said_by(config: &Path, process: i32) -> Option<AgentProcess> {
    ProcessFile::read(&config.join(SESSIONS).join(format!("{process}.json")))?.live()
}

/// The words of the live processes of the agent that have a conversation open.
pub(super) fn live(config: &Path, conversation: &str) -> Vec<AgentProcess> {
    let kept = files(config).filter_map(|path| ProcessFile::read(&path)).filter(|kept| kept.conversation == conversation);
    // To look for one in a container takes a look at all processes.
    kept.filter_map(ProcessFile::live).collect()
}

/// Agents that have a conversation open by their own status files of this boot, and whose processes cannot be seen from here. None if all of
/// the machine's processes can be seen.
pub(super) fn unseen(config: &Path, conversation: &str) -> Vec<UnseenAgent> {
    if sees_all() {
        return Vec::new();
    }
    let booted = boot_time().unwrap_or(SystemTime::UNIX_EPOCH);
    // The kernel counts boots in whole seconds.
    let is_of_this_boot = |path: &Path| {
        let modified = fs::metadata(path).and_then(|found| found.modified());
        modified.is_ok_and(|modified| modified + Duration::from_secs(1) >= booted)
    };
    let kept = files(config).filter(|path| is_of_this_boot(path)).filter_map(|path| ProcessFile::read(&path));
    let found = kept.filter(|kept| kept.conversation == conversation);
    let found = found.map(|kept| (UnseenAgent { process: kept.process, start_time: kept.start_time }, kept.live()));
    found.filter(|(_, live)| live.is_none()).map(|(unseen, _)| unseen).collect()
}
/// The files that the agent's processes keep of themselves.
fn files(config: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(config.join(SESSIONS)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"))
}

/// The file of an agent's process, whether that lives or not.
struct ProcessFile {
    /// The process, as it is numbered in the namespace that it is in.
    process: i32,
    /// Its start, in clock ticks since boot, where it says so.
    start_time: Option<u64>,
    /// The conversation that it had open.
    conversation: String,
    status: Option<String>,
    waits_for: Option<String>,
}

impl ProcessFile {
    fn read(path: &Path) -> Option<Self> {
        let said: Value = serde_json::from_slice(&regular::read(path, SAID_BYTES_MAX).ok()?).ok()?;
        let text = |name: &str| said[name].as_str().map(str::to_owned);
        Some(ProcessFile {
            process: i32::try_from(said["pid"].as_i64()?).ok()?,
            start_time: text("procStart").and_then(|ticks| ticks.parse().ok()),
            conversation: text("sessionId")?,
            status: text("status"),
            waits_for: text("waitingFor"),
        })
    }

    /// The status of the process, if it lives and can be seen from here. A status without a start time is believed; one with a start time
    /// identifies the process also by its number in a container.
    fn live(self) -> Option<AgentProcess> {
        let own = Identity::of(self.process).ok();
        let own = own.filter(|own| self.start_time.is_none_or(|start| start == own.start_time)).filter(Identity::is_alive);
        let process = own.or_else(|| within_container(self.process, self.start_time?))?;
        let open = if self.status.is_some() { Open::Ready } else { Open::Asked };
        let (conversation, is_certain) = (self.conversation, self.start_time.is_some());
        Some(AgentProcess { process, conversation, open, status: self.status, waits_for: self.waits_for, is_certain })
    }
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
        assert_eq!((crate::open::open(folder.path(), "one"), crate::open::open(folder.path(), "two")), (Some(Open::Asked), None));
        write(me.start_time, Some("idle"));
        assert_eq!(crate::open::open(folder.path(), "one"), Some(Open::Ready));
        assert_eq!(crate::open::open_in(folder.path(), me.process), Some(Open::Ready));
        write(me.start_time + 1, Some("idle"));
        assert_eq!((crate::open::open(folder.path(), "one"), crate::open::open_in(folder.path(), me.process)), (None, None));
        fs::write(&path, "{").unwrap();
        assert_eq!(crate::open::open(folder.path(), "one"), None);
        assert_eq!(crate::open::open(&folder.path().join("nothing"), "one"), None);
    }
}
