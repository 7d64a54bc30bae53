//! A program that edits files, as a process of its own: `editor.py`. It is some user, and keeps mappings while other programs run.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// A running editor. Dropping it ends it, with all that it has mapped.
pub struct Editor {
    process: Child,
    edits: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Number of times that each operation was done.
    pub done: BTreeMap<String, u64>,
    /// Number of refusals, by operation and errno.
    pub refused: BTreeMap<(String, String), u64>,
}

impl Editor {
    /// Starts one that works in a folder as a user.
    pub fn new(folder: &Path, user: u32) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", include_str!("editor.py")]).current_dir(folder).uid(user).gid(user);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|e| panic!("python3 is needed by this test: {e}"));
        let (Some(edits), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("the editor has no pipes")
        };
        Editor { process, edits, answers: BufReader::new(answers), done: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// Does an operation of `editor.py`; says by which errno it was refused.
    pub fn try_to(&mut self, operation: &str, arguments: Value) -> Result<(), String> {
        let mut line = vec![json!(operation)];
        line.extend(arguments.as_array().cloned().unwrap_or_default());
        let asked = Value::Array(line);
        writeln!(self.edits, "{asked}").unwrap_or_else(|e| panic!("the editor is gone before {asked}: {e}"));
        let mut answer = String::new();
        let _ = self.answers.read_line(&mut answer);
        match answer.trim_end().split_once(' ') {
            None if answer == "ok\n" => {
                *self.done.entry(operation.to_owned()).or_default() += 1;
                Ok(())
            }
            Some(("no", errno)) => {
                *self.refused.entry((operation.to_owned(), errno.to_owned())).or_default() += 1;
                Err(errno.to_owned())
            }
            _ => panic!("the editor does not answer {asked}: {answer:?}"),
        }
    }

    /// Does an operation that must succeed.
    pub fn edit(&mut self, operation: &str, arguments: Value) {
        let shown = arguments.to_string();
        self.try_to(operation, arguments).unwrap_or_else(|errno| panic!("{operation} {shown}: {errno}"));
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
