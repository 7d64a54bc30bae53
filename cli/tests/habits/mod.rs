//! Commands that people type without thinking, by subject.

mod create;
mod log;
mod places;
mod stop;
mod words;

use std::fs;

use crate::common::*;

/// A home with a folder `work` that has a file, and one checkpoint of it.
fn work() -> (Home, String) {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/a"), "one\n").unwrap();
    let id = home.run(&["backup", "-w", "work", "-q"]).expect(0).out.trim().to_owned();
    (home, id)
}

fn run_in(home: &Home, folder: &str, args: &[&str]) -> Run {
    Run::of(home.command(args).current_dir(home.folder.path().join(folder)).output().unwrap())
}

fn last(run: &Run) -> serde_json::Value {
    run.json().pop().unwrap()
}
