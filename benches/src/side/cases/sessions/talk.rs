//! A session, and its conversation as the agent would write it: invented, the same every time.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::{Place, object, text};
use crate::datasets::transcript::Session;
use crate::error::{Context, Result};
use crate::process;
use crate::side::lab::Lab;

/// A session of the stand-in for an agent.
pub struct Talk {
    /// The suffix of the names of its cases.
    pub name: &'static str,
    /// Id of the session that was started for it.
    pub session: String,
    /// ULID of its newest run.
    pub run: String,
    /// The agent's id of the conversation.
    pub conversation: String,
    /// Path of the transcript in the agent's folder.
    pub transcript: PathBuf,
    said: Session,
}

impl Talk {
    /// Begins a session whose conversation is so long already. Its first checkpoint is made, untimed.
    pub fn begin(lab: &mut Lab, place: &Place, name: &'static str, seed: u64, bytes: usize) -> Result<Self> {
        eprintln!("sessions: a conversation of {bytes} bytes");
        let project = &place.project;
        let said = Session::working_in(seed, &project.folder, project.sources.clone());
        let conversation = said.id().to_owned();
        // As the agent names a project's folder.
        let slug = project.folder.display().to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let transcript = project.agent_folder().join("projects").join(slug).join(format!("{conversation}.jsonl"));
        process::make_dir(transcript.parent().unwrap_or(&transcript))?;
        let mut talk = Talk { name, session: String::new(), run: String::new(), conversation, transcript, said };
        talk.grow(bytes)?;
        let args = ["session", "run", "--interval", "0", "--json", "--quiet", "--"];
        let agent = place.step(&args).path(&project.stand_in()).args(["-p", "go on", "--session-id", &talk.conversation]);
        let started = object(&process::output(&mut agent.command()?)?, "started")?;
        (talk.session, talk.run) = (text(&started, "session")?, text(&started, "run")?);
        lab.figures.set(format!("session{name}/transcript_bytes"), bytes as f64);
        Ok(talk)
    }

    /// Says so much more, in whole records.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        let what = || format!("append to {}", self.transcript.display());
        let file = OpenOptions::new().create(true).append(true).open(&self.transcript).context(what)?;
        let mut file = BufWriter::new(file);
        let mut written = 0;
        while written < bytes {
            let line = self.said.line();
            file.write_all(line.as_bytes()).context(what)?;
            written += line.len();
        }
        file.flush().context(what)
    }
}
