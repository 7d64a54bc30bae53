//! Going back to a checkpoint, and going on with a session.

use super::{Place, SAID_BYTES, Talk, object, text};
use crate::error::{Context, Error, Result};
use crate::process;
use crate::side::lab::{EDITED, Lab};
use crate::side::launch::{Job, Outcome};

/// Files and conversation go back to a checkpoint from which ten files differ.
pub fn roll_back(lab: &mut Lab, place: &Place, talk: &mut Talk) -> Result<()> {
    let target = place.checkpoint(lab, talk)?.0;
    place.project.edit_modules(EDITED)?;
    talk.grow(SAID_BYTES)?;
    lab.settle()?;
    let step = place.step(&["checkpoint", "rollback", &target, "--yes", "--json"]);
    let outcome = lab.runner.run(&Job { steps: vec![step], sync: Some(lab.root.clone()) })?;
    let summary = object(&lab.runner.stdout()?, "summary")?;
    if summary["files"] != EDITED || summary["with_conversation"] != true {
        return Err(Error::new(format!("{EDITED} files and the conversation were to go back: {summary}")));
    }
    lab.figures.add("rollback", "parhelia", outcome);
    lab.time_walk("rollback", &place.project.folder)
}

/// From the start of `session resume` to that of the agent; the workspace is there.
pub fn resume(lab: &mut Lab, place: &Place, talk: &mut Talk) -> Result<()> {
    let noted = place.project.beside("started");
    process::remove(&noted)?;
    let args = ["session", "resume", &talk.session, "--prompt", "go on", "--interval", "0", "--json", "--quiet"];
    let step = place.step(&args).env("STARTED", noted.display());
    let outcome = lab.runner.run(&Job { steps: vec![step], sync: None })?;
    talk.run = text(&object(&lab.runner.stdout()?, "started")?, "run")?;
    let started = std::fs::read_to_string(&noted).context(|| "read when the agent was started")?;
    let started: f64 = started.parse().context(|| format!("understand the time `{started}`"))?;
    let outcome = Outcome { wall_s: started - outcome.started_s, ..Outcome::default() };
    lab.figures.add(&format!("resume{}", talk.name), "parhelia", outcome);
    lab.settle()
}
