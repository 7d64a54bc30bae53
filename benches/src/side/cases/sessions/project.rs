//! The project that the agent works on: the tree as its `node_modules`, sources of its own in git, and surroundings that are nobody's.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::write;
use crate::datasets::scale;
use crate::error::{Context, Error, Result};
use crate::process;
use crate::side::lab::{Lab, QUICK_FILES, append_line, list_small_files};
use crate::side::launch::Step;
use crate::text::Text;
use crate::walk;

/// The number of sources, and the lines of each.
const SOURCES: usize = 200;
const LINES: usize = 150;

/// Stands in for the agent: notes when it is started, and ends.
const STAND_IN: &str = "#!/bin/bash
[ \"$1\" != --version ] || exec echo 1.0.0
[ -z \"$STARTED\" ] || printf %s \"$EPOCHREALTIME\" > \"$STARTED\"
";

/// A workspace, and what lies around it.
pub struct Project {
    /// The workspace.
    pub folder: PathBuf,
    /// The sources' paths, from the workspace.
    pub sources: Vec<String>,
    /// Every file that may be edited.
    files: Vec<PathBuf>,
    home: PathBuf,
    edits: Cell<usize>,
}

impl Project {
    /// Makes it.
    pub fn new(lab: &mut Lab) -> Result<Self> {
        let (folder, home) = (lab.root.join("work/project"), lab.root.join("home"));
        let modules = folder.join("node_modules");
        process::make_dir(&folder)?;
        if lab.options.quick {
            process::make_dir(&modules)?;
            scale::generate(&modules, QUICK_FILES)?;
        } else {
            let name = lab.options.tree.clone();
            lab.fetch(&name, &modules)?;
        }
        let mut project = Project { folder, home, sources: Vec::new(), files: Vec::new(), edits: Cell::new(0) };
        project.write_sources(SOURCES)?;
        list_small_files(&modules, &mut project.files)?;
        project.files.sort();
        project.write_stand_in()?;
        let count = walk::count(&project.folder)?;
        lab.figures.set("tree/files", count.files as f64);
        lab.figures.set("tree/bytes", count.bytes as f64);
        Ok(project)
    }

    /// A project of a few sources and nothing else.
    pub fn small(lab: &Lab, files: usize) -> Result<Self> {
        let mut project = Project {
            folder: lab.root.join("work/small-project"),
            home: lab.root.join("small-home"),
            sources: Vec::new(),
            files: Vec::new(),
            edits: Cell::new(0),
        };
        project.write_sources(files)?;
        project.write_stand_in()?;
        Ok(project)
    }

    fn write_stand_in(&self) -> Result<()> {
        let stand_in = self.stand_in();
        write(&stand_in, STAND_IN)?;
        std::fs::set_permissions(&stand_in, PermissionsExt::from_mode(0o755)).context(|| "make the stand-in a program")
    }

    /// Invented sources, committed to git, which leaves the modules out.
    fn write_sources(&mut self, files: usize) -> Result<()> {
        let mut text = Text::new(0x50ce, 2000);
        while self.sources.len() < files {
            let mut path = String::from("src/");
            text.path(&mut path);
            let to = self.folder.join(&path);
            // A name may be taken, as a file or a folder.
            if to.exists() || process::make_dir(to.parent().unwrap_or(&to)).is_err() {
                continue;
            }
            let mut code = String::new();
            (0..LINES).for_each(|_| text.code_line(&mut code));
            write(&to, code)?;
            self.sources.push(path);
        }
        write(&self.folder.join(".gitignore"), "node_modules/\n")?;
        for args in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "sources"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]).args(args);
            git.current_dir(&self.folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            process::run(&mut git)?;
        }
        Ok(())
    }

    /// Gives a command the project as its folder, a configuration of its own, and the agent's program where there is one.
    pub fn surround(&self, step: Step) -> Step {
        let mut step = step.folder(&self.folder).env("CLAUDE_CONFIG_DIR", self.agent_folder().display()).env("LC_ALL", "C");
        for (name, folder) in [
            ("XDG_CACHE_HOME", self.cache()),
            ("XDG_STATE_HOME", self.home.join("state")),
            ("XDG_CONFIG_HOME", self.home.join("config")),
        ] {
            step = step.env(name, folder.display());
        }
        if let Some(folder) = agent().as_deref().and_then(Path::parent) {
            let mut path = OsString::from(folder);
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            step = step.env("PATH", path.to_string_lossy());
        }
        // The modules are what this is about.
        step.env("PARHELIA_DEFAULT_EXCLUDES", "false")
    }

    /// The agent's own folder.
    pub fn agent_folder(&self) -> PathBuf {
        self.home.join("agent")
    }

    /// The cache folder of programs.
    pub fn cache(&self) -> PathBuf {
        self.home.join("cache")
    }

    /// The log of the hooks.
    pub fn hook_log(&self) -> PathBuf {
        self.home.join("state/parhelia/hook.log")
    }

    /// The program that is started as the agent.
    pub fn stand_in(&self) -> PathBuf {
        self.home.join("bin/claude")
    }

    /// A file beside the project.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Appends a line to some of the sources; others each time.
    pub fn edit_sources(&self, count: usize) -> Result<()> {
        let paths: Vec<PathBuf> = self.sources.iter().map(|path| self.folder.join(path)).collect();
        self.edit(&paths, count)
    }

    /// The same for files that lie spread over the modules.
    pub fn edit_modules(&self, count: usize) -> Result<()> {
        self.edit(&self.files, count)
    }

    fn edit(&self, files: &[PathBuf], count: usize) -> Result<()> {
        let stride = files.len() / count;
        if stride == 0 {
            return Err(Error::new("the project has too few files to edit"));
        }
        let number = self.edits.get() + 1;
        self.edits.set(number);
        (0..count)
            .try_for_each(|slot| append_line(&files[slot * stride + (number * 7) % stride], &format!("// edit {number} {slot}")))
    }
}

/// The real agent's program: of `PARHELIA_AGENT`, on the search path, or where the tests keep it.
pub fn agent() -> Option<PathBuf> {
    let named = std::env::var_os("PARHELIA_AGENT").map(PathBuf::from);
    named.filter(|path| path.is_file()).or_else(|| process::find_program("claude")).or_else(installed)
}

fn installed() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let releases = std::fs::read_dir(cache.join("parhelia/agent")).ok()?.flatten();
    let packages = releases.filter_map(|release| std::fs::read_dir(release.path().join("node_modules/@anthropic-ai")).ok());
    let mut programs: Vec<PathBuf> = packages.flatten().flatten().map(|package| package.path().join("claude")).collect();
    programs.retain(|program| program.is_file());
    programs.sort();
    programs.pop()
}
