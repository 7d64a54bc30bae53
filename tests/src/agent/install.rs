//! Getting the agents' CLIs: once, by npm, into the user's cache folder. They are not ours to give away, so they are in no repository of ours.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// The release that is tested against: the newest that runs beside Debian 12's Node.
pub const VERSION: &str = "2.1.197";

/// A newer release, for what only that one does: it writes down what a conversation has cost. Its program needs no Node; npm only fetches it.
const NEWER_VERSION: &str = "2.1.332";

/// The release of Codex that is tested against.
const CODEX_VERSION: &str = "0.169.0";

/// The release of Gemini CLI that is tested against.
const GEMINI_VERSION: &str = "0.61.0";

/// The release of opencode that is tested against.
const OPENCODE_VERSION: &str = "1.18.33";

/// A package of npm with an agent's program.
struct Package {
    name: &'static str,
    version: &'static str,
    /// The folder of the package in which the program lies, and what that one's name begins with: a program for this machine alone lies in a
    /// package of its own.
    native: (&'static str, &'static str),
    /// The program in it; `*` is any folder.
    program: &'static [&'static str],
    /// The variable that names another program.
    variable: &'static str,
}

const CLAUDE: Package = Package {
    name: "@anthropic-ai/claude-code",
    version: VERSION,
    native: ("@anthropic-ai", "claude-code-linux"),
    program: &["claude"],
    variable: "PARHELIA_AGENT",
};

const NEWER: Package = Package { version: NEWER_VERSION, variable: "PARHELIA_NEWER_AGENT", ..CLAUDE };

const CODEX: Package = Package {
    name: "@openai/codex",
    version: CODEX_VERSION,
    native: ("@openai", "codex-linux"),
    program: &["vendor", "*", "bin", "codex"],
    variable: "PARHELIA_CODEX",
};

const GEMINI: Package = Package {
    name: "@google/gemini-cli",
    version: GEMINI_VERSION,
    native: ("@google", "gemini-cli"),
    program: &["bundle", "gemini.js"],
    variable: "PARHELIA_GEMINI",
};

const OPENCODE: Package = Package {
    name: "opencode-ai",
    version: OPENCODE_VERSION,
    native: ("", "opencode-linux"),
    program: &["bin", "opencode"],
    variable: "PARHELIA_OPENCODE",
};

/// The program of an agent that was looked for; none where it cannot be had, which is said. In CI that is a failure.
pub fn installed(name: &str, program: Result<PathBuf, String>) -> Option<PathBuf> {
    match program {
        Ok(program) => Some(program),
        Err(reason) if std::env::var_os("CI").is_some() => panic!("{name} cannot be installed: {reason}"),
        Err(reason) => {
            eprintln!("not run with {name}, which cannot be installed: {reason}");
            None
        }
    }
}

/// Claude Code. Installs it where it is not yet, or says why that failed. `PARHELIA_AGENT` names another one.
pub fn executable() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| CLAUDE.find()).clone()
}

/// A newer Claude Code, in the same way. `PARHELIA_NEWER_AGENT` names another one.
pub fn newer() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| NEWER.find()).clone()
}

/// Codex, in the same way. `PARHELIA_CODEX` names another one.
pub fn codex() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| CODEX.find()).clone()
}

/// Gemini CLI, in the same way. `PARHELIA_GEMINI` names another one.
pub fn gemini() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| GEMINI.find()).clone()
}

/// opencode, in the same way. `PARHELIA_OPENCODE` names another one.
pub fn opencode() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| OPENCODE.find()).clone()
}

impl Package {
    fn find(&self) -> Result<PathBuf, String> {
        if let Some(program) = std::env::var_os(self.variable) {
            return checked(Path::new(&program));
        }
        let folder = crate::cache("agent");
        // Several test programs may want it at once.
        let lock = File::create(folder.join("lock")).map_err(|e| format!("{}: {e}", folder.display()))?;
        lock.lock().map_err(|e| format!("{}: {e}", folder.display()))?;
        let place = folder.join(self.version);
        if let Some(program) = self.program(&place) {
            return checked(&program);
        }
        self.install(&place)?;
        checked(&self.program(&place).ok_or_else(|| format!("{}@{} has no program for this machine", self.name, self.version))?)
    }

    fn install(&self, place: &Path) -> Result<(), String> {
        let unfinished = place.with_extension("unfinished");
        let _ = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&unfinished).map_err(|e| format!("{}: {e}", unfinished.display()))?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix"]).arg(&unfinished);
        npm.arg(format!("{}@{}", self.name, self.version)).stdin(Stdio::null());
        let output = npm.output().map_err(|e| format!("cannot run npm: {e}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("npm install {}@{} failed: {}", self.name, self.version, said.trim()));
        }
        let _ = fs::remove_dir_all(place);
        fs::rename(&unfinished, place).map_err(|e| format!("{}: {e}", place.display()))
    }

    /// The program itself.
    fn program(&self, place: &Path) -> Option<PathBuf> {
        let (folder, begins) = self.native;
        let packages = fs::read_dir(place.join("node_modules").join(folder)).ok()?.flatten();
        let package = packages
            .map(|package| package.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begins)))?;
        let program = self.program.iter().try_fold(package, |folder, part| match *part {
            "*" => Some(fs::read_dir(folder).ok()?.flatten().next()?.path()),
            part => Some(folder.join(part)),
        })?;
        program.is_file().then_some(program)
    }
}

fn checked(program: &Path) -> Result<PathBuf, String> {
    let shown = program.display();
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|e| format!("{shown}: {e}"))?;
    match output.status.success() {
        true => Ok(program.to_owned()),
        false => Err(format!("{shown} --version: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
