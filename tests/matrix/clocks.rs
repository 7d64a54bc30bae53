//! Stamps by a clock that is not the machine's, or that goes in whole seconds, or steps; and a machine's clock that steps.

use std::time::SystemTime;

use parhelia_tests::{
    clock,
    recorder::{Clock, Dice, Recorder},
};
use serde_json::json;

use super::{
    ROOT,
    cell::{Cell, Place},
    edits, life, seed, steps,
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const SECOND_NANOS: u64 = 1_000_000_000;

fn recorded(name: &str, clock: Clock) -> Cell {
    let recorder = Recorder::mount();
    recorder.stop_logging();
    recorder.set_clock(clock);
    Cell::new(name, Place::Recorded(recorder), Place::Beside, ROOT)
}

fn edited(clock: Clock) {
    let mut cell = recorded(&format!("stamps by {clock:?}"), clock);
    edits::fill(&mut cell.editor);
    edits::story(cell, None);
}

#[test]
fn stamps_are_an_hour_behind() {
    edited(Clock { ahead_seconds: -HOUR, step_nanos: 1 });
}

#[test]
fn stamps_are_an_hour_ahead() {
    edited(Clock { ahead_seconds: HOUR, step_nanos: 1 });
}

#[test]
fn stamps_are_whole_seconds() {
    edited(Clock { ahead_seconds: 0, step_nanos: SECOND_NANOS });
}

#[test]
fn stamps_are_two_seconds_wide_and_behind() {
    edited(Clock { ahead_seconds: -3, step_nanos: 2 * SECOND_NANOS });
}

/// The stamps' clock steps by days to and fro. None comes twice: that could be told by nothing but the bytes.
#[test]
fn the_clock_of_the_stamps_steps_both_ways() {
    for step_nanos in [1, SECOND_NANOS] {
        let mut cell = recorded(&format!("stamps that step, {step_nanos} ns wide"), Clock { ahead_seconds: 0, step_nanos });
        life::fill(&mut cell.editor);
        let mut dice = Dice(seed());
        cell.check_capture("at first");
        for step in 1..=steps().min(500) {
            let sign = if step % 2 == 0 { 1 } else { -1 };
            cell.recorder().set_clock(Clock { ahead_seconds: sign * (step as i64) * DAY, step_nanos });
            cell.tell(format!("the clock is {} days off", sign * step as i64));
            life::edit(&mut cell, &mut dice, 6);
            if step % 5 == 0 {
                cell.check_in_place(&format!("step {step}"), step as usize / 2);
            }
            cell.check_capture(&format!("step {step}"));
        }
        cell.finish();
    }
}

/// The machine's clock steps between commands, as they see it by way of the C library; the filesystem's stamps stay.
#[test]
fn the_clock_of_the_machine_steps_both_ways() {
    let mut cell = Cell::new("a machine whose clock steps", Place::Beside, Place::Beside, ROOT);
    life::fill(&mut cell.editor);
    // By a clock that is a year ahead, every checkpoint is too old to keep; that is the policy's affair.
    cell.variables.insert("PARHELIA_RETENTION".into(), "false".into());
    let mut dice = Dice(seed());
    for (step, days) in [0, 40, -40, 400, -1, 1, -4000, 0].into_iter().enumerate() {
        cell.variables.extend(clock::variables(&format!("{days:+}d")));
        cell.tell(format!("the clock is {days} days off"));
        life::edit(&mut cell, &mut dice, 6);
        cell.editor.edit("write", json!(["counted", 100, step]));
        cell.check_capture(&format!("{days} days off"));
        let (newest, _) = cell.held.last().cloned().unwrap();
        let list = cell.run(&["checkpoint", "list"]).unwrap();
        assert_eq!(list[0]["id"], json!(newest), "the newest is what was committed last, not what has the latest time");
        let (told, real) =
            (list[0]["created_at"].as_str().unwrap(), days_at(SystemTime::from(parhelia_store::clock::timestamp())));
        assert!((days_of(told) - real - days).abs() <= 1, "the commands do not see the clock that they are given: {told}");
        if step == 4 {
            cell.check_in_place("back", 1);
            cell.run(&["gc"]);
        }
    }
    cell.finish();
}

fn days_at(time: SystemTime) -> i64 {
    (time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / DAY as u64) as i64
}

/// Days from 1970 to an RFC 3339 time, by Howard Hinnant's `days_from_civil`.
fn days_of(time: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| time[range].parse::<i64>().unwrap();
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
