//! A long random life of a session, beside a model of it: an agent that does what it is told, people at the command line, a second agent in
//! its conversation, kills, reboots, moves, another configuration folder, a clock that steps. After each step:
//!
//! - every state that somebody saw as saved is reachable, byte for byte, or its removal was announced;
//! - no process outside the session was touched;
//! - no agent acts that nobody asked to act, and no two have one conversation open;
//! - what the agent is told is true of its conversation;
//! - what `session list`, `session show`, `status` and the service say of the agent's life, of what was saved last and of what has changed since
//!   is true; so are the time and the cause of each end that nobody saw, the time that was worked, and what needs a person.
//!
//! `PARHELIA_SEED=N` repeats a run; `PARHELIA_LONG=N` makes it N hundred steps long, with each of as many seeds.

mod agent;
mod day;
mod oracle;
mod real;
mod said;
mod world;

use parhelia_tests::{given_seed, long, recorder::Dice, repeated_by};

use world::World;

/// Steps of a run in the ordinary suite.
const STEPS: u64 = 45;
/// The service is asked after each of so many steps.
const SERVED: u64 = 5;

fn step(world: &mut World) {
    match world.roll(47) {
        0..=7 => world.ask(),
        8..=9 => world.ask_for_what_never_ends(),
        10 => world.ask_for_what_outlives_it(),
        11..=12 => world.clear(),
        13..=15 => world.edit(),
        16..=18 => world.create(),
        19..=21 => world.kill_agent(),
        22..=23 => world.kill_everything(),
        24..=25 => world.let_it_end(),
        26..=29 => world.roll_back(),
        30..=31 => world.undo(),
        32..=33 => world.prune(),
        34 => world.collect(),
        35..=36 => world.go_to_the_other_folder(),
        37 => world.move_workspace(),
        38 => world.step_clock(),
        39..=41 => world.roll_back_killed(),
        42..=43 => world.go_on_by_hand(),
        44..=45 => world.reboot(),
        _ => world.resume_with_another_configuration(),
    }
}

fn live(seed: u64, steps: u64) {
    eprintln!("to repeat: {}", repeated_by(seed));
    let mut world = World::new(Dice(seed));
    for number in 0..steps {
        world.tell(format!("-- step {number}"));
        // Somebody wants it to go on.
        if !world.agent.is_alive() && world.roll(3) > 0 {
            world.resume();
            oracle::check(&mut world);
        }
        step(&mut world);
        oracle::check(&mut world);
        said::check(&mut world);
        if number % SERVED == 0 {
            said::check_service(&mut world);
        }
    }
    oracle::check_all(&mut world);
}

#[test]
fn nothing_that_was_saved_is_lost_and_nobody_acts_unasked() {
    let seed = given_seed().unwrap_or(14);
    match long() {
        0 => live(seed, STEPS),
        rounds => (0..rounds).for_each(|n| live(seed + n, rounds * 100)),
    }
}
