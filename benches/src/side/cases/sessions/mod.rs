//! Sessions of an agent: checkpoints with conversation and environment, hooks, resuming, rolling back; parhelia alone.

mod environment;
mod hooks;
mod project;
mod reading;
mod returning;
mod talk;

use serde_json::Value;

use self::project::Project;
use self::talk::Talk;
use super::tree::SHORT_RUNS;
use crate::error::{Context, Error, Result};
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::{Job, Outcome, Step};
use crate::side::tools::Parhelia;

/// A conversation of an afternoon, and one that went on for weeks.
const TALKS: [(&str, usize); 2] = [("", 5_000_000), ("-long", 500_000_000)];
const QUICK_TALK_BYTES: usize = 1_000_000;
/// The changes of a turn: files that the agent edits, and bytes of conversation.
const EDITED: usize = 3;
const SAID_BYTES: usize = 50 << 10;

/// The place of the cases: a project that an agent works on, and a store.
struct Place {
    project: Project,
    parhelia: Parhelia,
}

/// Everything about sessions.
pub fn run(lab: &mut Lab) -> Result<()> {
    process::need(&["bash", "git"])?;
    let Some(parhelia) = &lab.tools.parhelia else { return Ok(()) };
    let parhelia = parhelia.with_home(lab.root.join("stores/parhelia-sessions"));
    parhelia.make_store()?;
    let place = Place { project: Project::new(lab)?, parhelia };
    let mut talks = Vec::new();
    for (number, (name, bytes)) in TALKS.into_iter().enumerate() {
        let bytes = if lab.options.quick { QUICK_TALK_BYTES * (number + 1) } else { bytes };
        talks.push(Talk::begin(lab, &place, name, 0x5e55 + number as u64, bytes)?);
    }
    environment::note_agent(lab, &place)?;
    lab.rounds("sessions", |lab| {
        environment::capture(lab, &place)?;
        checkpoints(lab, &place, &mut talks)?;
        hooks::turn_end(lab, &place, &mut talks[0])?;
        returning::roll_back(lab, &place, &mut talks[0])?;
        talks.iter_mut().try_for_each(|talk| returning::resume(lab, &place, talk))
    })?;
    for talk in &mut talks {
        hooks::told(lab, &place, talk)?;
        reading::compare(lab, &place, talk)?;
    }
    reading::lists(lab, &place)
}

/// A checkpoint of each session, after a turn.
fn checkpoints(lab: &mut Lab, place: &Place, talks: &mut [Talk]) -> Result<()> {
    for talk in talks.iter_mut() {
        place.turn(lab, talk)?;
        let outcome = place.checkpoint(lab, talk)?.1;
        lab.figures.add(&format!("session-checkpoint{}", talk.name), "parhelia", outcome);
    }
    lab.time_walk("session-checkpoint", &place.project.folder)
}

impl Place {
    /// `parhelia ARGS` in the project and its surroundings.
    fn step(&self, args: &[&str]) -> Step {
        self.project.surround(self.parhelia.step(args))
    }

    /// Makes the changes of a turn: some files change, and the conversation grows.
    fn turn(&self, lab: &Lab, talk: &mut Talk) -> Result<()> {
        self.project.edit_sources(EDITED)?;
        talk.grow(SAID_BYTES)?;
        lab.settle()
    }

    /// A checkpoint of a session: its id, and what it cost. It must be complete.
    fn checkpoint(&self, lab: &Lab, talk: &Talk) -> Result<(String, Outcome)> {
        let step = self.step(&["checkpoint", "create", &talk.session, "--json", "--quiet"]);
        let outcome = lab.runner.run(&Job { steps: vec![step], sync: Some(lab.root.clone()) })?;
        let summary = object(&lab.runner.stdout()?, "summary")?;
        let captured = ["conversation", "environment", "git"].iter().all(|part| summary["parts"][part]["status"] == "captured");
        if summary["complete"] != true || summary["verified"] != true || !captured {
            return Err(Error::new(format!("the checkpoint is not whole: {summary}")));
        }
        Ok((text(&summary, "id")?, outcome))
    }

    /// The newest checkpoint of a session.
    fn newest(&self, talk: &Talk) -> Result<String> {
        let said = process::output(&mut self.step(&["checkpoint", "list", &talk.session, "--json"]).command()?)?;
        text(&object(&said, "checkpoint")?, "id")
    }

    /// Times a verb that only reads, as a whole process; returns what it printed.
    fn time_short(&self, lab: &mut Lab, case: &str, step: &Step) -> Result<String> {
        eprintln!("{case}: {SHORT_RUNS} runs");
        for run in 0..=SHORT_RUNS {
            let outcome = lab.runner.run(&Job { steps: vec![step.clone()], sync: None })?;
            if run > 0 {
                lab.figures.add(case, "parhelia", outcome);
            }
        }
        lab.runner.stdout()
    }
}

/// The first object of a type in JSON lines.
fn object(said: &str, kind: &str) -> Result<Value> {
    let mut objects = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = objects.find(|object| object["type"] == kind);
    found.ok_or_else(|| Error::new(format!("parhelia printed no `{kind}`: {said}")))
}

/// A field that holds text.
fn text(object: &Value, field: &str) -> Result<String> {
    let found = object[field].as_str().map(str::to_owned);
    found.ok_or_else(|| Error::new(format!("parhelia gave no `{field}`: {object}")))
}

fn write(path: &std::path::Path, content: impl AsRef<[u8]>) -> Result<()> {
    process::make_dir(path.parent().unwrap_or(path))?;
    std::fs::write(path, content).context(|| format!("write {}", path.display()))
}
