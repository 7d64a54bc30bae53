//! Python with packages that a test needs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Python with the packages of a `requirements.txt`, which imports work: installed from the registry, once, into the user's cache folder, by a name.
pub fn python(name: &str, requirements: &Path, imports: &str) -> PathBuf {
    let wanted = fs::read_to_string(requirements).unwrap_or_else(|e| panic!("{}: {e}", requirements.display()));
    let folder = crate::cache(name);
    // Several tests may want it at once.
    let lock = File::create(folder.join("lock")).and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let (place, done) = (folder.join("python"), folder.join("installed"));
    let program = place.join("bin/python");
    let works = || {
        let import = Command::new(&program).args(["-c", &format!("import {imports}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) && works() {
        return program;
    }
    let _ = fs::remove_file(&done);
    let run = |what: &str, command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("cannot {what}: {e}"));
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "cannot {what}: {}", String::from_utf8_lossy(&said).trim());
    };
    let make = "make a Python environment (it needs the Debian packages python3 and python3-venv)";
    run(make, Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place));
    let install = format!("install the packages of {} (it needs a package registry)", requirements.display());
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(&install, Command::new(&program).args(pip).arg(requirements));
    fs::write(&done, &wanted).unwrap_or_else(|e| panic!("{}: {e}", done.display()));
    program
}
