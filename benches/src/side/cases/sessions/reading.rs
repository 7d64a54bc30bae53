//! Reading what sessions left: two checkpoints beside each other, and lists of a thousand.

use super::project::Project;
use super::{EDITED, Place, Talk};
use crate::error::{Error, Result};
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::Job;

const CHECKPOINTS: usize = 1000;
const QUICK_CHECKPOINTS: usize = 20;
/// A short conversation, and what is said between two checkpoints.
const TALK_BYTES: usize = 100 << 10;
const SAID_BYTES: usize = 2 << 10;
const FILES: usize = 10;

/// The report over two checkpoints of a session, and what was said between them.
pub fn compare(lab: &mut Lab, place: &Place, talk: &mut Talk) -> Result<()> {
    let before = place.checkpoint(lab, talk)?.0;
    place.turn(lab, talk)?;
    let after = place.checkpoint(lab, talk)?.0;
    let diff = ["checkpoint", "diff", &before, &after];
    let report = place.time_short(lab, &format!("session-diff{}", talk.name), &place.step(&diff))?;
    let changed = report.lines().filter(|line| line.starts_with("  M ")).count();
    if changed != EDITED || !report.contains("Environment:") {
        return Err(Error::new(format!("the report names {changed} files, {EDITED} were edited:\n{report}")));
    }
    let step = place.step(&diff).args(["--conversation"]);
    let said = place.time_short(lab, &format!("session-diff-conversation{}", talk.name), &step)?;
    match said.lines().any(|line| line == "Agent") {
        true => Ok(()),
        false => Err(Error::new(format!("nothing was said between two checkpoints:\n{said}"))),
    }
}

/// A thousand checkpoints of a session in a small folder, and lists of them.
pub fn lists(lab: &mut Lab, place: &Place) -> Result<()> {
    let parhelia = place.parhelia.with_home(lab.root.join("stores/parhelia-sessions-many"));
    parhelia.make_store()?;
    let small = Place { project: Project::small(lab, FILES)?, parhelia };
    let mut talk = Talk::begin(lab, &small, "-many", 0x11575, TALK_BYTES)?;
    let checkpoints = if lab.options.quick { QUICK_CHECKPOINTS } else { CHECKPOINTS };
    eprintln!("sessions: {checkpoints} checkpoints");
    // The first was made at the end of the run.
    for _ in 1..checkpoints {
        small.project.edit_sources(1)?;
        talk.grow(SAID_BYTES)?;
        let create = small.step(&["checkpoint", "create", &talk.session, "--json", "--quiet"]);
        lab.runner.run(&Job { steps: vec![create.env("PARHELIA_RETENTION", "false")], sync: None })?;
    }
    lab.figures.set("sessions/checkpoints", checkpoints as f64);
    for (case, args) in
        [("session-list", &["checkpoint", "list"][..]), ("session-list-detailed", &["checkpoint", "list", "--detailed"])]
    {
        let said = small.time_short(lab, case, &small.step(args))?;
        let listed = said.lines().count().saturating_sub(1);
        if listed != checkpoints {
            return Err(Error::new(format!("{listed} of {checkpoints} checkpoints are listed")));
        }
    }
    process::remove(&small.project.folder)
}
