//! Judgement of a briefing.

use std::{collections::BTreeSet, process::Command};

use parhelia_tests::Files;

use super::acts::Day;

/// The lines of a section; none where it is not there.
fn section<'a>(told: &'a str, title: &str) -> Option<Vec<&'a str>> {
    let (_, rest) = told.split_once(&format!("\n## {title}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or_default().lines().filter(|line| !line.is_empty()).collect())
}

/// The paths of changes between two states, outside of `.git`.
fn changed(then: &Files, now: &Files) -> BTreeSet<String> {
    let all: BTreeSet<&Vec<u8>> = then.keys().chain(now.keys()).filter(|path| !path.starts_with(b".git/")).collect();
    all.into_iter()
        .filter(|path| then.get(*path) != now.get(*path))
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect()
}

/// The paths that a list of changes names, both sides of a new name.
fn named(lines: &[&str]) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for line in lines {
        let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
        let rest = rest.split(" +").next().unwrap_or_default();
        paths.extend(rest.split(" -> ").map(str::to_owned));
    }
    paths
}

/// Judges what an agent was told at its start, when the workspace was as `now` and the conversation had so many turns.
pub fn judge(day: &mut Day, told: &str, now: &Files, turns: usize) {
    let launches = &day.record.launches;
    let Some(before) = launches.iter().rev().nth(1).cloned() else { return };
    day.claim(!told.is_empty(), || "it is told nothing".into());
    if told.is_empty() {
        return;
    }
    let first_line = told.lines().next().unwrap_or_default();
    let (says_so, is_unseen) = (first_line.contains("was interrupted"), first_line.contains("nobody saw how"));
    let conversation = day.world.agent.conversation().unwrap_or_default();
    let known = day.world.turns(&conversation);
    let is_amid = known.last().is_some_and(|last| !last.pending.is_empty());
    let was_killed = before.is_killed;
    // A turn that had not ended may have been: a rollback goes back to the middle of one.
    let is_done = known.last().is_none_or(|last| last.is_done);
    if was_killed || is_amid {
        day.claim(says_so || (is_unseen && !is_amid), || format!("it was interrupted, and is not told: {told}"));
    }
    day.claim(!is_unseen || day.has_lost_supervisor, || format!("its supervisor has seen its end: {told}"));
    if before.code.is_some() && !was_killed && is_done {
        day.claim(!says_so, || format!("it has ended by itself, and is told that it was interrupted: {told}"));
    }
    let count = section(told, "Summary").and_then(|lines| lines.first()?.split(' ').next()?.parse::<usize>().ok());
    day.claim(count == Some(turns), || format!("there were {turns} turns: {told}"));
    let has_calls = told.contains("## Interrupted tool calls");
    day.claim(has_calls == is_amid, || format!("a call was interrupted: {is_amid}; {told}"));
    let task = section(told, "Current task").unwrap_or_default().join("\n");
    let last = known.last().map(|turn| turn.prompt.clone()).unwrap_or_default();
    day.claim(task == last, || format!("{last:?} is the task: {told}"));

    // Files.
    let listed = section(told, "Changes in this session").unwrap_or_default();
    let first = day.record.states[0].clone();
    let (is, says) = (changed(&first, now), named(&listed));
    day.claim(is == says, || format!("{is:?} have changed in the session: {told}"));
    let from = told.split("from checkpoint ").nth(1).map(|rest| rest.chars().take(26).collect::<String>()).unwrap_or_default();
    if let Some(then) = day.world.saved.get(&from).map(|saved| saved.files.clone()) {
        let since = section(told, "Of these, since the checkpoint").unwrap_or_default();
        let (is, says) = (changed(&then, now), named(&since));
        day.claim(is == says, || format!("{is:?} have changed since {from}: {told}"));
    } else {
        day.claim(false, || format!("it goes on from no checkpoint that is known: {told}"));
    }
    // A folder that the workspace has left is none to look in.
    let (first, folder) = (format!("{}/", day.world.scratch.path("job").display()), day.world.workspace.display().to_string());
    day.claim(first.starts_with(&folder) || !told.contains(&first), || {
        format!("it is told of {first}, and is in {folder}: {told}")
    });
    let uncommitted: BTreeSet<String> = section(told, "Uncommitted (git)")
        .unwrap_or_default()
        .iter()
        .map(|line| line.trim_start_matches("- ").split_whitespace().next().unwrap_or_default().to_owned())
        .collect();
    let git = Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=all", "--no-renames"])
        .env("GIT_OPTIONAL_LOCKS", "0")
        .current_dir(&day.world.workspace)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&git.stdout).into_owned();
    let is: BTreeSet<String> = text.lines().map(|line| line[3..].to_owned()).collect();
    day.claim(is == uncommitted, || format!("{is:?} are not committed: {told}"));
}
