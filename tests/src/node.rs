//! Node, and packages of npm that a test needs.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use crate::cache;

/// The oldest Node that the packages run with. Debian 12 has an older one, and gets this one from the registry.
const OLDEST: u32 = 20;
/// The one from the registry.
const RELEASE: &str = "20.20.2";

/// A program of a Node that is new enough: `node` or `npm`.
pub fn program(name: &str) -> Command {
    let mut program = Command::new(name);
    program.stdin(Stdio::null());
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= OLDEST) {
        return program;
    }
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let (package, folder) = (format!("node-linux-{machine}"), cache("node"));
    let bin = folder.join("node_modules").join(&package).join("bin");
    let lock = locked(&folder);
    if !bin.join("node").exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix"]).arg(&folder);
        expect(npm.arg(format!("{package}@{RELEASE}")));
    }
    drop(lock);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([bin].into_iter().chain(env::split_paths(&path)));
    program.env("PATH", path.unwrap_or_else(|e| panic!("PATH: {e}")));
    program
}

/// The lock of a folder: several tests may want it at once.
fn locked(folder: &Path) -> File {
    let lock = File::create(folder.join("lock")).and_then(|lock| lock.lock().map(|()| lock));
    lock.unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
}

fn expect(npm: &mut Command) {
    let output = npm.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("cannot run npm: {e}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "npm failed (it needs a package registry): {}", String::from_utf8_lossy(&said).trim());
}

/// Copies a Node package to a folder that is not there yet, without what was built in it, and gives it the packages of its `package-lock.json`:
/// installed from the registry, once, into the user's cache folder, by a name.
pub fn package(name: &str, package: &Path, to: &Path) {
    let wanted = fs::read_to_string(package.join("package-lock.json")).unwrap_or_else(|e| panic!("{}: {e}", package.display()));
    let folder = cache(name);
    let _lock = locked(&folder);
    let done = folder.join("installed");
    if !fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        let _ = fs::remove_file(&done);
        for file in ["package.json", "package-lock.json"] {
            fs::copy(package.join(file), folder.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        }
        expect(Command::new("npm").args(["ci", "--no-fund", "--no-audit", "--ignore-scripts"]).current_dir(&folder));
        fs::write(&done, &wanted).unwrap_or_else(|e| panic!("{}: {e}", done.display()));
    }
    copy(package, to);
    symlink(folder.join("node_modules"), to.join("node_modules")).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
}

fn copy(from: &Path, to: &Path) {
    let copied = || -> std::io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if entry.is_dir() && !["node_modules", "dist"].iter().any(|built| name == *built) {
                copy(&entry, &to.join(&name));
            } else if entry.is_file() {
                fs::copy(&entry, to.join(&name))?;
            }
        }
        Ok(())
    };
    copied().unwrap_or_else(|e| panic!("cannot copy {}: {e}", from.display()));
}
