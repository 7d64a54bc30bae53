//! The verbs that run at once, and how they came out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use parhelia_tests::{
    Scratch,
    tree::{Tree, difference, tree_in},
};

/// A checkpoint that exists, with what it holds.
#[derive(Clone)]
pub struct Known {
    pub id: String,
    pub tree: Tree,
}

/// Something that a process is told to do.
#[derive(Clone)]
pub enum Verb {
    /// Restores a checkpoint, or a folder of it, into a folder; a new one, unless in place.
    Restore { from: Known, part: &'static str, to: PathBuf, in_place: bool, delete: bool, killed_after: Option<Duration> },
    /// Rolls the session of the workspace back to one of its checkpoints.
    Rollback { to: Known, workspace: PathBuf },
    /// Captures a folder, as a session.
    Create { workspace: PathBuf, session: String },
    /// Deletes a checkpoint.
    Delete { what: Known },
    /// Collects.
    Gc,
    /// Mounts a checkpoint, reads everything and unmounts.
    Mount { what: Known, at: PathBuf },
    /// Reads and verifies a checkpoint.
    Verify { what: Known },
}

/// A verb and its end.
pub struct Ended {
    pub verb: Verb,
    /// `None`: killed by a signal.
    pub code: Option<i32>,
    pub said: String,
    pub last_line: serde_json::Value,
}

impl Ended {
    pub fn is_done(&self) -> bool {
        self.code == Some(0)
    }
}

impl Verb {
    /// The folder that it may change.
    pub fn target(&self) -> Option<&Path> {
        match self {
            Verb::Restore { to, .. } => Some(to),
            Verb::Rollback { workspace, .. } => Some(workspace),
            _ => None,
        }
    }

    /// True if what the checkpoint does not have is removed from the target.
    pub fn removes(&self) -> bool {
        matches!(self, Verb::Restore { delete: true, .. } | Verb::Rollback { .. })
    }

    /// The content that it gives its target, by paths from there.
    pub fn result(&self) -> Option<Tree> {
        match self {
            Verb::Restore { from, part, .. } => Some(below(&from.tree, part)),
            Verb::Rollback { to, .. } => Some(to.tree.clone()),
            _ => None,
        }
    }

    /// The command line.
    pub fn arguments(&self) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let words: Vec<String> = match self {
            Verb::Restore { from, part, to, in_place, delete, .. } => {
                let selector = if part.is_empty() { from.id.clone() } else { format!("{}:{part}", from.id) };
                let mut words = vec!["checkpoint".into(), "restore".into(), selector, "--to".into(), text(to)];
                words.extend(
                    in_place.then_some(["--in-place", "--no-safety", "--other-folder"]).into_iter().flatten().map(str::to_owned),
                );
                words.extend(delete.then(|| "--delete".to_owned()));
                words
            }
            Verb::Rollback { to, .. } => ["checkpoint", "rollback", &to.id, "--yes", "--files-only"].map(str::to_owned).into(),
            Verb::Create { workspace, session } => {
                let mut words: Vec<String> = ["checkpoint", "create", session, "--workspace"].map(str::to_owned).into();
                words.extend([text(workspace), "--no-default-excludes".into(), "--no-conversation".into()]);
                words
            }
            Verb::Delete { what } => ["checkpoint", "delete", &what.id].map(str::to_owned).into(),
            Verb::Gc => vec!["gc".into()],
            Verb::Mount { what, at } => vec!["mount".into(), what.id.clone(), text(at)],
            Verb::Verify { what } => ["checkpoint", "verify", &what.id, "--deep"].map(str::to_owned).into(),
        };
        words
    }

    /// Does it, and waits for its end.
    pub fn run(self, scratch: &Scratch) -> Ended {
        let mut command = scratch.command(&self.arguments());
        let mut child = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Verb::Restore { killed_after: Some(time), .. } = &self {
            std::thread::sleep(*time);
            let _ = child.kill();
        }
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let last_line = String::from_utf8_lossy(&stdout).lines().last().map(serde_json::from_str).and_then(Result::ok);
        let mut ended = Ended {
            code: status.code(),
            said: String::from_utf8_lossy(&stderr).trim().to_owned(),
            last_line: last_line.unwrap_or_default(),
            verb: self,
        };
        if let (Verb::Mount { what, at }, true) = (&ended.verb, ended.is_done())
            && let Err(fault) = read_mounted(scratch, what, at)
        {
            (ended.code, ended.said) = (Some(-1), fault);
        }
        ended
    }
}

/// A mount shows what the checkpoint holds.
fn read_mounted(scratch: &Scratch, what: &Known, at: &Path) -> Result<(), String> {
    let shown = tree_in(at);
    // A child that another thread has just forked holds what this one had open, until it becomes another program.
    for _ in 0..500 {
        if scratch.run(&["umount", &at.to_string_lossy(), "--quiet"]).status.success() {
            let differing = difference(&shown, &what.tree);
            let fault = || format!("the mount of {} shows something else:\n{}", what.id, differing.join("\n"));
            return if differing.is_empty() { Ok(()) } else { Err(fault()) };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{} cannot be unmounted", at.display()))
}

/// The entries below a folder of a tree, by paths from there.
pub fn below(tree: &Tree, part: &str) -> Tree {
    if part.is_empty() {
        return tree.clone();
    }
    let prefix = format!("{part}/").into_bytes();
    let strip = |path: &[u8]| path.strip_prefix(&*prefix).map(<[u8]>::to_vec);
    let moved = tree.iter().filter_map(|(path, entry)| {
        let mut entry = entry.clone();
        entry.first_path = strip(&entry.first_path)?;
        Some((strip(path)?, entry))
    });
    moved.collect()
}

/// Removes a folder if it is there.
pub fn clear(folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
}
