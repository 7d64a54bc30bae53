//! The servers that the tests run.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use parhelia_tests::{node, python};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp_servers")
}

/// A command line.
pub type Words = Vec<String>;

/// Python with the packages of PyPI.
pub fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let python = || python::python("mcp-python", &folder().join("requirements.txt"), "mcp, mcp_server_time");
    PYTHON.get_or_init(python).clone()
}

fn words(words: &[&Path]) -> Words {
    words.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
}

/// The folder of the server that is an example for our convention.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("mcp/examples")
}

/// The server that is an example for our convention: it keeps notes in memory.
pub fn notes() -> Words {
    words(&[&python(), &examples().join("notes_server.py")])
}

/// A published server in Python.
pub fn time() -> Words {
    [&words(&[&python()])[..], &["-m", "mcp_server_time", "--local-timezone", "Europe/Vienna"].map(str::to_owned)].concat()
}

/// A server that misbehaves in a way.
pub fn odd(way: &[&str]) -> Words {
    let program = words(&[Path::new("python3"), &folder().join("odd_server.py")]);
    [program, way.iter().map(|&word| word.to_owned()).collect()].concat()
}

/// A published server of npm, by its name.
pub fn npm(name: &str) -> Words {
    static MODULES: OnceLock<(PathBuf, String)> = OnceLock::new();
    let (modules, node) = MODULES.get_or_init(|| {
        let copies = tempfile::tempdir().unwrap();
        let copy = copies.path().join("package");
        node::package("mcp-npm", &folder(), &copy);
        let program = node::program("node").args(["--print", "process.execPath"]).output().unwrap();
        (copy.join("node_modules").canonicalize().unwrap(), String::from_utf8(program.stdout).unwrap().trim().to_owned())
    });
    words(&[Path::new(node), &modules.join("@modelcontextprotocol").join(name).join("dist/index.js")])
}

/// A command line as one that can be run.
pub fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
