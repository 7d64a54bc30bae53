//! Running a page's blocks in a home and a store of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{Block, Kind, Words, blocks, command_lines, inline, plain, repository, shown};
use crate::{binary, scripted, write_program};

/// Begins a line of ours in what a page's commands print.
const MARK: char = '\u{1e}';
/// No page takes that long unless a command hangs.
const SECONDS_MAX: &str = "300";

/// Somebody who pastes a page's commands, with a new home, the binary under test and a program `claude` that stands for the agent.
pub struct Reader {
    folder: tempfile::TempDir,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A new one.
    pub fn new() -> Self {
        let reader = Reader { folder: tempfile::tempdir().unwrap_or_else(|e| panic!("no folder for a home: {e}")) };
        for name in ["me", "tmux"] {
            fs::create_dir_all(reader.folder.path().join(name)).unwrap_or_else(|e| panic!("no home: {e}"));
        }
        write_program(&reader.folder.path().join("programs/claude"), scripted::AGENT);
        // The default store says that it makes itself, which the examples do not show.
        crate::make_store(&reader.home().join(".local/share/parhelia"));
        reader
    }

    /// The home, in which the commands run.
    fn home(&self) -> PathBuf {
        self.folder.path().join("me")
    }

    fn command(&self, program: &str) -> Command {
        let path = [self.folder.path().join("programs"), binary().parent().unwrap_or(Path::new("/")).to_owned()];
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.home()).env("HOME", self.home()).env("REPOSITORY", repository());
        command.env("PATH", format!("{}:{}:{}", path[0].display(), path[1].display(), std::env::var("PATH").unwrap_or_default()));
        command.env("TMUX_TMPDIR", self.folder.path().join("tmux")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env("USER", "me");
        // Neither colours, nor a pager, nor a bar that is drawn over itself.
        command.env("TERM", "dumb").env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Runs a script on a terminal, and returns all that it prints.
    fn on_a_terminal(&self, script: &str) -> String {
        let file = self.folder.path().join("script");
        fs::write(&file, script).unwrap_or_else(|e| panic!("no script: {e}"));
        let line = format!("sh -m {}", file.display());
        let mut command = self.command("timeout");
        let Output { stdout, .. } = command
            .args(["--signal", "KILL", SECONDS_MAX, "script", "-q", "-e", "-c", &line, "/dev/null"])
            .output()
            .unwrap_or_else(|e| panic!("timeout and script are needed by this test: {e}"));
        String::from_utf8_lossy(&stdout).replace('\r', "")
    }

    /// The complaint about a command line that does not parse. Nothing is run: it is asked for its help.
    fn complaint(&self, words: &Words) -> Option<String> {
        let ours = words.iter().take_while(|word| *word != "--");
        let output = self.command("parhelia").args(ours).arg("--help").output().unwrap_or_else(|e| panic!("cannot run it: {e}"));
        let error = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
        (!output.status.success()).then(|| format!("`parhelia {}` is no command line: {error}", words.join(" ")))
    }
}

impl Drop for Reader {
    /// Ends what a page has left: mounts, and a tmux server.
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let folder = self.folder.path().to_string_lossy().into_owned();
        for point in mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|point| point.starts_with(&folder)) {
            let _ = Command::new("umount").args(["-l", point]).status();
        }
        let _ = self.command("tmux").arg("kill-server").stderr(Stdio::null()).status();
    }
}

/// The problems of a page, each with its line: command lines that do not parse, commands that fail, output that differs from what is shown.
pub fn problems(page: &str) -> Vec<String> {
    let reader = Reader::new();
    let blocks = blocks(page);
    let mut problems = Vec::new();
    for block in blocks.iter().filter(|block| block.kind == Kind::Other) {
        let complaints = command_lines(&block.text).into_iter().filter_map(|words| reader.complaint(&words));
        problems.extend(complaints.map(|complaint| format!("line {}: {complaint}", block.line)));
    }
    problems.extend(inline(page).into_iter().filter_map(|words| reader.complaint(&words)));
    let runs: Vec<&Block> = blocks.iter().filter(|block| ![Kind::Other, Kind::Text].contains(&block.kind)).collect();
    if runs.is_empty() {
        return problems;
    }
    let printed = reader.on_a_terminal(&runs.iter().map(|block| script(block)).collect::<String>());
    problems.extend(differences(&runs, &printed));
    problems
}

/// The script of a block: its commands, each after a line of ours. A command of a script that fails ends everything.
fn script(block: &Block) -> String {
    let mark = |rest: &str| format!("printf '\\036%s\\n' '{rest}'\n");
    if block.kind != Kind::Console {
        return format!("{}set -e\n{}set +e\n{}", mark("begin"), block.text, mark("end"));
    }
    shown(&block.text).iter().map(|shown| format!("{}{}\n{}", mark("begin"), shown.command, mark("end"))).collect()
}

/// Compares what was printed with what the blocks show.
fn differences(runs: &[&Block], printed: &str) -> Vec<String> {
    let (begin, end) = (format!("{MARK}begin\n"), format!("{MARK}end\n"));
    let mut parts = printed.split(&begin).skip(1);
    let mut problems = Vec::new();
    for block in runs {
        let commands = match block.kind {
            Kind::Console => shown(&block.text).into_iter().map(|shown| (shown.command, Some(shown.output))).collect(),
            _ => vec![(block.text.clone(), None)],
        };
        for (command, output) in commands {
            let place = format!("line {}: `{}`", block.line, command.trim_end());
            let Some((text, _)) = parts.next().and_then(|part| part.split_once(&end)) else {
                let last = printed.rsplit(MARK).next().unwrap_or_default();
                problems.push(format!("{place} failed, and nothing behind it was run: {last}"));
                return problems;
            };
            match output {
                _ if text.contains("panicked at") => problems.push(format!("{place} panicked: {text}")),
                Some(output) if plain(&output) != plain(text) => {
                    problems.push(format!("{place} is shown to print\n{output}and prints\n{text}"));
                }
                _ => {}
            }
        }
    }
    problems
}
