//! Processes that have a conversation open: by the files that an agent keeps of itself, by command lines, by files that are open.

use std::{
    iter,
    path::{Path, PathBuf},
};

use crate::{
    command::Agent,
    kinds,
    process::{Identity, all, canonical, command_of, folder_of, parent, writes_to},
    said::{AgentProcess, Open, UnseenAgent},
    transcript::locate::copies,
};

/// Processes are looked for so far above one.
const ANCESTORS_MAX: usize = 64;
/// No command line is shown further.
const COMMAND_CHARACTERS_MAX: usize = 200;

/// The state of a conversation, as a live agent says; none if no live agent has it open. A dead agent may have left its file behind.
pub fn open(config: &Path, conversation: &str) -> Option<Open> {
    live(config, conversation).into_iter().next().map(|said| said.open)
}

/// The state of the conversation that a process of an agent has open, whichever it is.
pub fn open_in(config: &Path, process: i32) -> Option<Open> {
    said_by(config, process).map(|said| said.open)
}

/// The statement of a live process of an agent.
pub fn said_by(config: &Path, process: i32) -> Option<AgentProcess> {
    kinds::all().into_iter().find_map(|kind| kind.said_by(config, process))
}

/// The statements of the live processes of an agent that have a conversation open.
pub fn live(config: &Path, conversation: &str) -> Vec<AgentProcess> {
    kinds::all().into_iter().flat_map(|kind| kind.live(config, conversation)).collect()
}

/// The live process that has a conversation open, by its own word: an agent, or one whose start the word names as it is.
pub fn open_by(config: &Path, conversation: &str) -> Option<i32> {
    live(config, conversation).iter().find(|said| is_believed(said)).map(|said| said.process.process)
}

/// A word that does not tell which process has said it counts of an agent alone: another program may have got its number since.
fn is_believed(said: &AgentProcess) -> bool {
    said.is_certain || Agent::of(&command_of(said.process.process)).is_some()
}

/// Agents that have said since the machine was started that they have a conversation open, and of which it cannot be known from here whether
/// they live. Where all of the machine's processes are seen there are none.
pub fn unseen(config: &Path, conversation: &str) -> Vec<UnseenAgent> {
    kinds::all().into_iter().flat_map(|kind| kind.unseen(config, conversation)).collect()
}

/// A process that has a conversation open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Identity of the process, which is alive.
    pub process: Identity,
    /// Its command line, shortened.
    pub command: String,
    /// The folder that it works in.
    pub folder: Option<PathBuf>,
}

/// The live processes that have a conversation open: those of the agent that say so, or were started with it, and any that has its
/// transcript open for writing. A second agent in it would write between the first one's lines.
pub fn holders(config: &Path, conversation: &str) -> Vec<Holder> {
    let said = live(config, conversation);
    let says = |process: &Identity| said.iter().any(|said| said.process.is_same(process) && is_believed(said));
    let transcripts: Vec<PathBuf> = copies(config, conversation).unwrap_or_default().iter().map(|path| canonical(path)).collect();
    let has_it = |process: &Identity| {
        says(process)
            || Agent::of(&command_of(process.process)).and_then(|agent| agent.conversation()).as_deref() == Some(conversation)
            || writes_to(process.process, &transcripts)
    };
    let found = all().into_iter().filter(|process| process.process != std::process::id() as i32 && has_it(process));
    let found: Vec<Identity> = found.collect();
    // A shell or `timeout` that was started with the agent's words waits for it, and has nothing open itself.
    let waits = |process: &Identity| {
        let is_below = |other: &Identity| {
            let mut above = iter::successors(parent(other.process), |above| parent(*above)).take(ANCESTORS_MAX);
            above.any(|above| above == process.process)
        };
        !says(process) && !writes_to(process.process, &transcripts) && found.iter().any(is_below)
    };
    let holders = found.iter().filter(|process| !waits(process)).cloned();
    holders
        .map(|process| {
            let words: Vec<_> = command_of(process.process).iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let command = words.join(" ").chars().take(COMMAND_CHARACTERS_MAX).collect();
            Holder { folder: folder_of(process.process), command, process }
        })
        .collect()
}

impl Holder {
    /// The process in a few words, for messages.
    pub fn text(&self) -> String {
        let folder = self.folder.as_ref().map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
        format!("process {} ({}){folder}", self.process.process, self.command)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_has_a_conversation_open_is_found_by_any_of_its_signs() {
        use std::{
            os::unix::process::CommandExt,
            process::{Child, Command, Stdio},
        };
        const ID: &str = "7b0e0f3c-5d0c-4a52-9c0e-0d6a4a1f0c11";
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().canonicalize().unwrap();
        let transcript = config.join("projects/-w").join(format!("{ID}.jsonl"));
        fs::create_dir_all(transcript.parent().unwrap()).unwrap();
        fs::write(&transcript, "{}\n").unwrap();
        let found = || -> Vec<i32> { holders(&config, ID).iter().map(|holder| holder.process.process).collect() };
        let sleeping = |command: &mut Command| -> Child {
            let child = command.current_dir(&config).spawn().unwrap();
            let began = std::time::Instant::now();
            while fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap().trim() != "sleep" {
                assert!(began.elapsed() < std::time::Duration::from_secs(60));
            }
            child
        };
        // Reading it, a backup has it open as well.
        let mut reader = sleeping(Command::new("sleep").arg("1000").stdin(fs::File::open(&transcript).unwrap()));
        let mut stranger = sleeping(Command::new("sleep").arg0("claude").args(["1000"]));
        assert_eq!(found(), [0; 0]);
        let append = fs::File::options().append(true).open(&transcript).unwrap();
        let mut writer = sleeping(Command::new("sleep").arg("1000").stdout(Stdio::from(append)));
        assert_eq!(found(), [writer.id() as i32]);
        assert!(holders(&config, ID)[0].text().contains(&format!("(sleep 1000) in {}", config.display())));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let said = json!({ "pid": stranger.id(), "sessionId": ID, "status": "waiting", "waitingFor": "permission" });
        fs::create_dir(config.join("sessions")).unwrap();
        fs::write(config.join("sessions").join(format!("{}.json", stranger.id())), said.to_string()).unwrap();
        assert_eq!(found(), [stranger.id() as i32]);
        let said = live(&config, ID).remove(0);
        assert_eq!((said.status.as_deref(), said.waits_for.as_deref()), (Some("waiting"), Some("permission")));
        for child in [&mut reader, &mut stranger] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found(), [0; 0]);
        // By its command line: a shell that is called as the agent is, and waits for its input's end.
        let mut command = Command::new("sh");
        command.arg0("claude").args(["-c", "read line", "--resume", ID]).stdin(Stdio::piped());
        let mut by_name = command.spawn().unwrap();
        let began = std::time::Instant::now();
        while command_of(by_name.id() as i32).len() != 5 {
            assert!(began.elapsed() < std::time::Duration::from_secs(60));
        }
        let agent = Agent::of(&command_of(by_name.id() as i32)).unwrap();
        assert_eq!(agent.conversation().as_deref(), Some(ID), "{agent:?}");
        assert_eq!(found(), [by_name.id() as i32]);
        drop(by_name.stdin.take());
        by_name.wait().unwrap();
    }
}
