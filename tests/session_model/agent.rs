//! The scripted agent, as the test sees it: orders that it is given, and the log of what it did.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use parhelia_tests::{live::lives, write_program};
use serde_json::Value;

const SCRIPT: &str = include_str!("../fixtures/scripted_agent.py");

/// Everything between the test and its agents, whichever process is one at the time.
pub struct Agent {
    folder: PathBuf,
    orders: u64,
}

/// Something that an agent has noted.
#[derive(Clone, Debug)]
pub struct Noted(Value);

impl Noted {
    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub fn is(&self, event: &str) -> bool {
        self.text("event") == event
    }

    pub fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_default()
    }

    pub fn process(&self) -> i32 {
        self.0["pid"].as_i64().unwrap_or_default() as i32
    }
}

/// Everything that was noted so far in the folder of agents.
pub fn noted_in(folder: &Path) -> Vec<Noted> {
    let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| Noted(serde_json::from_str(line).unwrap())).collect()
}

impl Agent {
    pub fn new(folder: &Path) -> Self {
        write_program(&folder.join("bin/claude"), SCRIPT);
        for name in ["inbox", "taken", "done"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        Agent { folder: folder.to_owned(), orders: 0 }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn program(&self) -> PathBuf {
        self.folder.join("bin/claude")
    }

    /// Everything that agents have noted so far.
    pub fn log(&self) -> Vec<Noted> {
        noted_in(&self.folder)
    }

    /// Notes something that the test does, in its place among what agents do.
    pub fn note(&self, mut fields: Value) {
        fields["pid"] = 0.into();
        let mut file = fs::File::options().append(true).create(true).open(self.folder.join("log")).unwrap();
        writeln!(file, "{fields}").unwrap();
    }

    /// The process that was started last and knows its conversation, while it lives.
    pub fn process(&self) -> Option<i32> {
        let last = self.log().into_iter().rev().find(|noted| noted.is("begun"))?.process();
        lives(last).then_some(last)
    }

    pub fn is_alive(&self) -> bool {
        self.process().is_some()
    }

    /// The conversation that the last one is in.
    pub fn conversation(&self) -> Option<String> {
        self.log().into_iter().rev().find(|noted| noted.is("begun")).map(|noted| noted.text("conversation").to_owned())
    }

    /// Gives an order; returns its number.
    pub fn order(&mut self, order: &Value) -> u64 {
        self.orders += 1;
        let path = self.folder.join(format!("inbox/{}", self.orders));
        fs::write(&path, order.to_string()).unwrap();
        fs::rename(&path, path.with_extension("json")).unwrap();
        self.orders
    }

    /// True if an order has been carried out.
    pub fn has_done(&self, number: u64) -> bool {
        self.folder.join(format!("done/{number}.json")).exists()
    }

    /// Takes back what nobody has read: its reader is dead.
    pub fn forget_orders(&self) {
        for order in fs::read_dir(self.folder.join("inbox")).unwrap().flatten() {
            fs::remove_file(order.path()).unwrap();
        }
    }
}
