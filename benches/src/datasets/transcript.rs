//! `transcript`: a JSON-lines log of an invented agent session, and what it grows by.
//!
//! `base.jsonl` is the log so far, `growth-01.jsonl` … are the whole lines appended later. The
//! content is made up; its mix of prose, code, command output and ids compresses as such logs do
//! (about 3.5 to 4 times with zstd level 3).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::Dataset;
use super::marker::Recipe;
use crate::error::{Context, Result};
use crate::text::Text;

/// Size of the log so far.
pub const BASE_BYTES: usize = 40 << 20;
/// Size of one growth.
pub const GROWTH_BYTES: usize = 200 << 10;
/// The number of growths.
pub const GROWTHS: usize = 20;
const SEED: u64 = 0x7a15c;
const FIRST_RECORD_MS: u64 = 1_750_000_000_000;
/// The workspace of a session that names none.
const FOLDER: &str = "/home/dev/project";

/// The set `transcript`, made from a seed.
#[derive(Debug)]
pub struct Transcript;

impl Dataset for Transcript {
    fn recipe(&self) -> Recipe {
        let sizes = format!("v1 {BASE_BYTES} {GROWTH_BYTES} {GROWTHS}");
        Recipe::new("transcript", &sizes)
    }

    fn fill(&self, _data: &Path, target: &Path, _scratch: &Path) -> Result<()> {
        let mut session = Session::new(SEED);
        write_lines(&target.join("base.jsonl"), &mut session, BASE_BYTES)?;
        for growth in 0..GROWTHS {
            write_lines(&target.join(growth_file(growth)), &mut session, GROWTH_BYTES)?;
        }
        Ok(())
    }
}

/// The file of the growth at `index`, counted from 0.
pub fn growth_file(index: usize) -> String {
    format!("growth-{:02}.jsonl", index + 1)
}

fn write_lines(path: &Path, session: &mut Session, bytes: usize) -> Result<()> {
    let file = File::create(path).context(|| format!("create {}", path.display()))?;
    let mut file = BufWriter::new(file);
    let mut written = 0;
    while written < bytes {
        let line = session.line();
        file.write_all(line.as_bytes()).context(|| format!("write {}", path.display()))?;
        written += line.len();
    }
    file.flush().context(|| format!("write {}", path.display()))
}

/// An invented session that can be asked for one record after another.
#[derive(Debug)]
pub struct Session {
    text: Text,
    id: String,
    folder: String,
    /// The files that tools read and edit, from the folder; none for new ones each time.
    files: Vec<String>,
    parent: Value,
    now_ms: u64,
    pending_tool: Option<String>,
}

impl Session {
    /// A session that depends on its seed alone.
    pub fn new(seed: u64) -> Self {
        let mut text = Text::new(seed, 6000);
        let id = text.uuid();
        let (folder, files) = (FOLDER.to_owned(), Vec::new());
        Self { text, id, folder, files, parent: Value::Null, now_ms: FIRST_RECORD_MS, pending_tool: None }
    }

    /// A session that works in a folder on files of it, given by their paths from there.
    pub fn working_in(seed: u64, folder: &Path, files: Vec<String>) -> Self {
        Self { folder: folder.display().to_string(), files, ..Self::new(seed) }
    }

    /// The id of the conversation.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The next record with its line feed.
    pub fn line(&mut self) -> String {
        let (kind, message) = match self.pending_tool.take() {
            Some(tool) => ("user", self.tool_result(&tool)),
            None if self.text.rng.chance(15) => ("user", self.prompt()),
            None => ("assistant", self.answer()),
        };
        let uuid = self.text.uuid();
        self.now_ms += 50 + self.text.rng.skewed(60_000) as u64;
        let record = json!({
            "type": kind,
            "uuid": uuid,
            "parentUuid": self.parent,
            "sessionId": self.id,
            "timestampMs": self.now_ms,
            "cwd": self.folder,
            "version": "1.0.0",
            "gitBranch": "main",
            "message": message,
        });
        self.parent = Value::String(uuid);
        format!("{record}\n")
    }

    fn prompt(&mut self) -> Value {
        let mut words = String::new();
        for _ in 0..self.text.rng.between(1, 6) {
            self.text.sentence(&mut words);
        }
        json!({"role": "user", "content": words})
    }

    fn answer(&mut self) -> Value {
        let mut parts = Vec::new();
        if self.text.rng.chance(60) {
            let mut words = String::new();
            for _ in 0..self.text.rng.between(1, 8) {
                self.text.sentence(&mut words);
            }
            parts.push(json!({"type": "text", "text": words}));
        }
        if parts.is_empty() || self.text.rng.chance(60) {
            parts.push(self.tool_use());
        }
        let usage = json!({
            "input_tokens": self.text.rng.below(100),
            "cache_read_input_tokens": self.text.rng.below(150_000),
            "output_tokens": self.text.rng.below(4000),
        });
        let mut id = String::from("msg_");
        self.text.hex(24, &mut id);
        json!({"role": "assistant", "id": id, "model": "invented-1", "content": parts,
            "usage": usage})
    }

    fn tool_use(&mut self) -> Value {
        let mut id = String::from("tool_");
        self.text.hex(24, &mut id);
        let path = self.file();
        let (name, input) = match self.text.rng.below(3) {
            0 => ("Read", json!({"file_path": path})),
            1 => {
                let (lines, more) = (self.text.rng.between(2, 15), self.text.rng.between(2, 15));
                let (old, new) = (self.code(lines), self.code(more));
                ("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
            }
            _ => {
                let mut command = String::from("grep -rn ");
                self.text.identifier(&mut command);
                command.push_str(" | head -50");
                ("Bash", json!({"command": command}))
            }
        };
        self.pending_tool = Some(id.clone());
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    }

    fn file(&mut self) -> String {
        let mut path = format!("{}/", self.folder);
        if self.files.is_empty() {
            self.text.path(&mut path);
        } else {
            let chosen = self.text.rng.skewed(self.files.len());
            path.push_str(&self.files[chosen]);
        }
        path
    }

    fn tool_result(&mut self, tool: &str) -> Value {
        let lines = 3 + self.text.rng.skewed(120);
        let content = if self.text.rng.chance(50) { self.numbered_code(lines) } else { self.matches(lines) };
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": tool, "content": content}]})
    }

    fn code(&mut self, lines: usize) -> String {
        let mut code = String::new();
        for _ in 0..lines {
            self.text.code_line(&mut code);
        }
        code
    }

    fn numbered_code(&mut self, lines: usize) -> String {
        let mut listing = String::new();
        for number in 1..=lines {
            listing.push_str(&format!("{number:6}\t"));
            self.text.code_line(&mut listing);
        }
        listing
    }

    fn matches(&mut self, lines: usize) -> String {
        let mut listing = String::new();
        let mut path = String::new();
        for _ in 0..lines {
            if path.is_empty() || self.text.rng.chance(30) {
                path.clear();
                self.text.path(&mut path);
            }
            let line = self.text.rng.between(1, 900);
            listing.push_str(&format!("{path}:{line}:"));
            self.text.code_line(&mut listing);
        }
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: usize) -> String {
        let mut session = Session::new(SEED);
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(&session.line());
        }
        text
    }

    #[test]
    fn every_line_is_a_record_and_the_log_repeats() {
        let text = lines(200_000);
        assert_eq!(text, lines(200_000));
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record["uuid"].is_string());
        }
    }

    #[test]
    fn it_works_on_the_files_that_it_is_given() {
        let mut session = Session::working_in(SEED, Path::new("/work"), vec!["a.rs".to_owned()]);
        let text: String = (0..200).map(|_| session.line()).collect();
        assert!(text.contains("\"/work/a.rs\"") && !text.contains(FOLDER));
    }

    #[test]
    fn it_compresses_as_such_logs_do() {
        let text = lines(4 << 20);
        let small = zstd::bulk::compress(text.as_bytes(), 3).unwrap();
        let ratio = text.len() as f64 / small.len() as f64;
        assert!((3.5..=4.0).contains(&ratio), "ratio {ratio:.2}");
    }
}
