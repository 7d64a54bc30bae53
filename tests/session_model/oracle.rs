//! Invariants that must be true after each step.

use std::{collections::BTreeSet, fs};

use parhelia_tests::{
    live::{lives, wait},
    story::files_of,
};

use super::{
    agent::Noted,
    world::{Saved, World},
};

/// Everything that one step can have harmed.
pub fn check(world: &mut World) {
    nothing_is_lost(world);
    nobody_else_was_touched(world);
    nobody_acts_unasked(world);
    for noted in world.agent.log().into_iter().skip(world.judged) {
        if noted.is("begun") {
            is_true(world, &noted);
        }
        world.judged += 1;
    }
}

/// Everything that is saved reads back as it was, and nothing is wrong with the store.
pub fn check_all(world: &mut World) {
    let store = world.opened();
    for checkpoint in store.checkpoints().unwrap() {
        // A hook may have made one meanwhile.
        let Some(saved) = world.saved.get(&checkpoint.id()) else { continue };
        let read = files_of(&store, &checkpoint).unwrap_or_else(|e| panic!("{}: {e}", checkpoint.id()));
        assert!(read == saved.files, "{} reads back other bytes", checkpoint.id());
    }
    let checked = world.scratch.expect(0, &["check", "--read-data"]);
    assert!(checked.contains("Nothing is wrong"), "{checked}");
}

/// Asserts that everything seen as saved is there, or its removal was announced. New checkpoints are seen now.
fn nothing_is_lost(world: &mut World) {
    let store = world.opened();
    let checkpoints = store.checkpoints().unwrap();
    let there: BTreeSet<String> = checkpoints.iter().map(|checkpoint| checkpoint.id()).collect();
    let missing: Vec<String> = world.saved.keys().filter(|id| !there.contains(*id)).cloned().collect();
    for id in missing {
        let is_announced = |line: &str| line.contains(&id) && line.to_lowercase().contains("remov");
        world.tell(format!("{id} is gone; somebody must say so"));
        // Of many, the log names the last ones.
        let is_named = |said: &str| {
            said.contains("more, which `parhelia log` names")
                && world.scratch.expect(0, &["log", "--kind", "checkpoint.deleted"]).contains(&id)
        };
        // Work of a hook says so when it is done, a moment later.
        wait(|| {
            let said = world.everything_said();
            (said.lines().any(is_announced) || is_named(&said)).then_some(())
        });
        world.saved.remove(&id);
    }
    for checkpoint in checkpoints {
        let id = checkpoint.id();
        if world.saved.contains_key(&id) {
            continue;
        }
        match files_of(&store, &checkpoint) {
            Ok(files) => drop(world.saved.insert(id, Saved { files, session: checkpoint.record.session.clone() })),
            // A hook's retention may have taken it meanwhile; then nobody has seen it.
            Err(e) => {
                let now = world.opened().view().checkpoint(checkpoint.record.id).unwrap();
                assert!(now.is_none(), "{id}: {e}");
            }
        }
    }
}

fn nobody_else_was_touched(world: &World) {
    for process in &world.bystanders {
        assert!(lives(*process), "process {process} of another folder was ended");
    }
}

/// Each thing that was done was asked for, and was done once.
fn nobody_acts_unasked(world: &World) {
    let mut done = BTreeSet::new();
    for noted in world.agent.log().iter().filter(|noted| noted.is("acted")) {
        let prompt = noted.text("prompt").to_owned();
        assert!(world.asked.contains(&prompt), "nobody asked for {prompt:?}");
        assert!(done.insert(prompt.clone()), "{prompt:?} was done twice");
    }
}

/// Asserts that an agent was told the truth at its start.
fn is_true(world: &World, begun: &Noted) {
    let told = begun.text("told");
    let (home, work) = (world.scratch.path("home/.claude"), begun.text("folder"));
    assert_eq!(begun.text("config"), home.to_string_lossy(), "an agent has another configuration");
    let is_here = fs::canonicalize(work).ok() == fs::canonicalize(&world.workspace).ok();
    assert!(is_here, "the agent works in {work}");
    match begun.text("source") {
        "clear" => {
            let old = world.cleared.iter().find(|prompt| told.lines().any(|line| line.trim_end().ends_with(prompt.as_str())));
            let is_background = told.contains("It is background: do what the user asks for from here on");
            assert!(old.is_none() || is_background, "{old:?} was cleared, and comes back as if it were asked for: {told}");
        }
        "resume" => {
            let turns = world.turns(begun.text("conversation"));
            let Some(last) = turns.last().filter(|_| told.contains("## Current task")) else { return };
            let task = told.split("## Current task").nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default();
            assert!(task.contains(&last.prompt), "the task is {:?}, not {task}: {told}", last.prompt);
            if !last.pending.is_empty() {
                assert!(told.contains("Interrupted tool calls"), "the interrupted call is missing: {told}");
            }
        }
        _ => {}
    }
}
