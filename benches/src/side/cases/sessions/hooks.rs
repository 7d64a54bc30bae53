//! The agent's hooks, fed as it feeds them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Place, Talk, text, write};
use crate::error::{Context, Error, Result};
use crate::side::lab::Lab;
use crate::side::launch::{Job, Outcome, Step, now_s};
use crate::side::tools::{Tool, own_program};

/// The longest wait for a checkpoint that goes on behind a hook.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The end of a turn: how soon the agent goes on, and how soon the checkpoint is there.
pub fn turn_end(lab: &mut Lab, place: &Place, talk: &mut Talk) -> Result<()> {
    place.turn(lab, talk)?;
    let step = hook(place, talk, &json!({ "hook_event_name": "Stop" }))?;
    let (before, logged) = (place.newest(talk)?, checkpoints_logged(place));
    let written = journal_bytes(place.parhelia.home());
    let outcome = lab.runner.run(&Job { steps: vec![step], sync: None })?;
    let committed = wait_for_commit(place, talk, &before, written)?;
    lab.figures.add("hook-return", "parhelia", outcome);
    lab.figures.add("hook-commit", "parhelia", Outcome { wall_s: committed - outcome.started_s, ..Outcome::default() });
    wait(|| Ok((checkpoints_logged(place) > logged).then_some(())))?;
    lab.settle()?;
    lab.time_walk("hook-commit", &place.project.folder)
}

/// The briefing of a resumed agent: its time and its size.
pub fn told(lab: &mut Lab, place: &Place, talk: &Talk) -> Result<()> {
    let step = hook(place, talk, &json!({ "hook_event_name": "SessionStart", "source": "resume" }))?;
    let case = format!("inject{}", talk.name);
    let said = place.time_short(lab, &case, &step)?;
    let answer: Value = serde_json::from_str(&said).context(|| format!("understand the hook's answer `{said}`"))?;
    let path = place.project.beside("told");
    write(&path, text(&answer["hookSpecificOutput"], "additionalContext")?)?;
    let [characters, tokens] = size(lab, &path)?;
    lab.figures.set(format!("{case}/characters"), characters);
    lab.figures.set(format!("{case}/tokens"), tokens);
    let [_, conversation] = size(lab, &talk.transcript)?;
    lab.figures.set(format!("{case}/share"), tokens / conversation);
    Ok(())
}

/// The characters and tokens of a text.
fn size(lab: &mut Lab, path: &Path) -> Result<[f64; 2]> {
    let count = Step::new(own_program("told")?.display()).input(path);
    lab.runner.run(&Job { steps: vec![count], sync: None })?;
    let counted = lab.runner.stdout()?;
    let numbers: Option<Vec<f64>> = counted.split_whitespace().map(|number| number.parse().ok()).collect();
    numbers
        .and_then(|numbers| <[f64; 2]>::try_from(numbers).ok())
        .ok_or_else(|| Error::new(format!("cannot understand `{counted}`")))
}

/// `parhelia hook` with an event, as a process of the session's run.
fn hook(place: &Place, talk: &Talk, event: &Value) -> Result<Step> {
    let mut event = event.clone();
    event["session_id"] = json!(talk.conversation);
    event["transcript_path"] = json!(talk.transcript);
    event["cwd"] = json!(place.project.folder);
    let path = place.project.beside("event.json");
    write(&path, event.to_string())?;
    Ok(place.step(&["hook"]).env("PARHELIA_RUN_ID", &talk.run).input(&path))
}

/// Time at which the journal got the record of the session's next checkpoint. Looking at the journal's length costs next to nothing;
/// what it grew by is asked only then.
fn wait_for_commit(place: &Place, talk: &Talk, before: &str, mut written: u64) -> Result<f64> {
    wait(|| {
        let bytes = journal_bytes(place.parhelia.home());
        if bytes == written {
            return Ok(None);
        }
        let grown = now_s();
        written = bytes;
        Ok((place.newest(talk)? != before).then_some(grown))
    })
}

fn wait<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(found) = look()? {
            return Ok(found);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(Error::new("nothing came of a hook"))
}

/// The length of a store's journal.
fn journal_bytes(store: &Path) -> u64 {
    let segments = std::fs::read_dir(store.join("journal")).into_iter().flatten().flatten();
    segments.filter_map(|segment| segment.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The number of checkpoints that hooks have logged.
fn checkpoints_logged(place: &Place) -> usize {
    let log = std::fs::read_to_string(place.project.hook_log()).unwrap_or_default();
    log.matches("made checkpoint").count()
}
