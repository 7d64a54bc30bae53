//! A day of a session, in whose middle somebody is killed at a random point: the agent, who stands beside it, both, a hook, the service, all of
//! them; or the program of the hooks cannot be run any more, or the workspace has moved. After that, and after the session goes on, each
//! statement about it is judged by what the test knows: processes that it has looked at, files that were written, hooks that have returned.
//!
//! `PARHELIA_SEED=N` repeats a day; `PARHELIA_LONG=N` takes N hundred of them, and says how many statements were untrue.

mod acts;
mod judge;
mod kill;
mod read;
mod record;
mod told;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use parhelia_tests::{files_in, given_seed, long, recorder::Dice};

use acts::{Act, DAY, Day};
use kill::Victim;

/// Days in the ordinary run.
const DAYS: u64 = 8;
/// A blow comes at most so many milliseconds after the act has begun.
const DELAY_MAX: u64 = 500;

/// Lives one day; returns the number of statements, and those that are untrue.
fn live(seed: u64) -> (u64, Vec<String>) {
    let mut dice = Dice(seed);
    let victim = Victim::ALL[(seed % Victim::ALL.len() as u64) as usize];
    let point = (dice.roll() % DAY.len() as u64) as usize;
    let delay = Duration::from_millis(dice.roll() % DELAY_MAX);
    eprintln!("PARHELIA_SEED={seed}: {victim:?} at {point} ({:?}), after {delay:?}", DAY[point]);
    let mut day = Day::begin(dice, victim == Victim::HookProgram);
    for act in &DAY[..point] {
        if day.roll(2) == 0 {
            day.perform(*act);
        }
    }
    if victim == Victim::Service {
        day.perform(Act::Serve);
    }
    day.perform_struck(DAY[point], victim, delay);
    day.judge();
    if day.has_moved && day.world.agent.is_alive() {
        // It would make its folder again where that was.
        day.kill_agent();
        day.judge();
    }
    let is_dead = !day.world.agent.is_alive();
    // Whoever is resumed has a rollback that was interrupted finished first.
    if is_dead {
        let was = files_in(&day.world.workspace);
        let turns = day.conversation_turns();
        day.go_on();
        if files_in(&day.world.workspace) == was {
            day.judge_briefing(&was, turns);
        }
        day.judge();
    }
    day.perform(Act::Ask);
    day.judge();
    if day.has_no_hooks {
        day.allow_hooks();
        day.perform(Act::Ask);
        day.judge();
    }
    if !day.untrue.is_empty() {
        eprintln!("{}", day.world.story());
    }
    (day.statements, std::mem::take(&mut day.untrue))
}

/// The same, where a failure of the day itself is an untrue statement, too.
fn lived(seed: u64) -> (u64, Vec<String>) {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let (statements, untrue) = live(seed);
        assert!(untrue.is_empty(), "PARHELIA_SEED={seed}: {} of {statements} statements are untrue: {untrue:#?}", untrue.len());
        statements
    }));
    match lived {
        Ok(statements) => (statements, Vec::new()),
        Err(_) => (0, vec![format!("PARHELIA_SEED={seed}")]),
    }
}

#[test]
fn the_service_says_at_once_that_an_agent_is_gone_or_that_which_stands_beside_it() {
    for victim in [Victim::Supervisor, Victim::Agent] {
        let mut day = Day::begin(Dice(1), false);
        day.perform(Act::Serve);
        // The service has seen both alive.
        day.judge();
        day.perform_struck(Act::Serve, victim, Duration::ZERO);
        day.judge();
        assert!(day.untrue.is_empty(), "{victim:?}: {:#?}", day.untrue);
    }
}

#[test]
fn the_service_says_at_once_what_was_asked_last_where_no_hook_runs() {
    let mut day = Day::begin(Dice(1), true);
    day.perform(Act::Serve);
    day.perform_struck(Act::Tag, Victim::HookProgram, Duration::ZERO);
    day.judge();
    day.perform(Act::Ask);
    day.judge();
    assert!(day.untrue.is_empty(), "{:#?}", day.untrue);
}

#[test]
fn what_is_said_after_a_kill_at_any_point_of_a_day_is_true() {
    let seeds = match (given_seed(), long()) {
        (Some(seed), 0) => seed..seed + 1,
        (seed, 0) => seed.unwrap_or(1)..seed.unwrap_or(1) + DAYS,
        (seed, rounds) => seed.unwrap_or(1)..seed.unwrap_or(1) + 100 * rounds,
    };
    let days = seeds.end - seeds.start;
    let (mut statements, mut failed) = (0, Vec::new());
    for seed in seeds {
        let (count, untrue) = lived(seed);
        statements += count;
        failed.extend(untrue);
    }
    eprintln!("{days} days, {statements} statements of true days; days with untrue ones: {}", failed.len());
    assert!(failed.is_empty(), "{failed:?}");
}
