//! Random edits and verbs in any order, by a seed.

use parhelia_tests::{editor::Editor, recorder::Dice};
use serde_json::{Value, json};

use super::cell::Cell;

/// Fills the workspace with its first content.
pub fn fill(editor: &mut Editor) {
    for i in 0..14_u64 {
        let length = if i == 3 { 200_000 } else { 500 + i * 900 };
        editor.edit("write", json!([format!("d{}/f{}", i % 3, i % 6), length, i]));
    }
    editor.edit("link", json!(["d0/f0", "d2/linked"]));
}

/// One edit of anything; it may be refused.
fn edit_of(dice: &mut Dice) -> (&'static str, Value) {
    let mut roll = |below: u64| dice.roll() % below;
    let (path, other) = (format!("d{}/f{}", roll(3), roll(6)), format!("d{}/f{}", roll(3), roll(7)));
    let (map, seed, length) = (format!("m{}", roll(4)), roll(1_000_000), roll(12_000));
    match roll(30) {
        0 => ("write", json!([path, length, seed])),
        1 => ("write", json!([path, 90_000 + length, seed % 5])),
        2..5 => ("rewrite", json!([path, seed])),
        5..7 => ("patch", json!([path, seed])),
        7 => ("rewrite_old", json!([path, seed])),
        8 => ("append", json!([path, length, seed])),
        9 => ("truncate", json!([path, length])),
        10 => ("replace", json!([path, length, seed])),
        11 => ("replace_old", json!([path, seed])),
        12 | 13 => ("map", json!([map, path])),
        14..17 => ("store", json!([map, seed])),
        17 => ("msync", json!([map])),
        18 => ("unmap", json!([map])),
        19 => [("allocate", json!([path, length + 1])), ("punch", json!([path, 0, 4096]))][roll(2) as usize].clone(),
        20 => [("clone", json!([path, other])), ("copy_range", json!([path, other]))][roll(2) as usize].clone(),
        21 => ("rename", json!([path, other])),
        22 => ("exchange", json!([path, other])),
        23 => ("link", json!([path, other])),
        24 => ("link_over", json!([path, other])),
        25 => ("unlink", json!([path])),
        26 => ("chmod", json!([path, 0o600 + roll(0o200)])),
        27 => ("setxattr", json!([path, format!("x{}", roll(3)), roll(60), seed])),
        28 => ("touch", json!([path, seed * 1_000_000_007])),
        _ => [
            ("symlink", json!([format!("../{other}"), path])),
            ("fifo", json!([path])),
            ("mkdir", json!([path])),
            ("remove", json!([path])),
            ("rename", json!([format!("d{}", roll(3)), format!("d{}", roll(3))])),
            ("chmod", json!([format!("d{}", roll(3)), if roll(2) == 0 { 0o555 } else { 0o755 }])),
        ][roll(6) as usize]
            .clone(),
    }
}

/// Some edits, any of which may be refused.
pub fn edit(cell: &mut Cell, dice: &mut Dice, edits: u64) {
    for _ in 0..edits {
        let (edit, arguments) = edit_of(dice);
        let told = format!("{edit} {arguments}");
        match cell.editor.try_to(edit, arguments) {
            Ok(()) => cell.tell(told),
            Err(errno) => cell.tell(format!("{told}: {errno}")),
        }
    }
}

/// A life of so many steps.
pub fn story(mut cell: Cell, seed: u64, steps: u64) {
    let mut dice = Dice(seed);
    cell.tell(parhelia_tests::repeated_by(seed));
    cell.check_capture("at first");
    for step in 0..steps {
        let edits = dice.roll() % 8;
        edit(&mut cell, &mut dice, edits);
        match dice.roll() % 8 {
            0 if !cell.held.is_empty() => {
                let n = dice.roll() as usize % cell.held.len();
                cell.check_in_place(&format!("step {step}, back to {n}"), n);
            }
            1 => _ = cell.run(&["gc"]),
            _ => cell.check_capture(&format!("step {step}")),
        }
    }
    cell.finish();
}
