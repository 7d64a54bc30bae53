//! Units of systemd that start this program for this store.

#![expect(clippy::disallowed_methods, reason = "writes systemd units of the user's")]

use std::{
    fs,
    path::{Path, PathBuf, absolute},
};

use parhelia_store::name::NameExt as _;

use crate::{
    context::Context,
    exit::{Failure, Result},
};

/// The words of a unit, as systemd reads them.
pub struct Words {
    /// The program and the store, for `ExecStart`.
    pub command: String,
    /// The assignment of `PATH`, for `Environment`.
    pub path: String,
}

impl Words {
    /// Those of this program, this store and this `PATH`.
    pub fn of(context: &Context) -> Result<Self> {
        let failed = |source| Failure::File { action: "find", path: "the program itself".into(), source };
        let program = word(&std::env::current_exe().map_err(failed)?)?;
        let store = word(&context.store_path()?)?;
        let path = std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned();
        let config = context.global.config.as_deref().map(word).transpose()?;
        let config = config.map(|config| format!(" --config {config}")).unwrap_or_default();
        Ok(Words { command: format!("{program} --store {store}{config}"), path: quoted(&format!("PATH={path}")) })
    }
}

/// A path as a word of `ExecStart`.
pub fn word(path: &Path) -> Result<String> {
    let path = absolute(path).map_err(|source| Failure::File { action: "use", path: path.to_owned(), source })?;
    let text = path.to_str().ok_or_else(|| {
        let path = path.shown();
        Failure::Usage(format!(
            "cannot write a unit: {path} is not UTF-8, and units are\nGive a store and a program at other paths"
        ))
    })?;
    Ok(quoted(&text.replace('$', "$$")))
}

/// A word as systemd reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// A unit of systemd for the user's folder of units.
pub struct Unit {
    /// File name, such as `parhelia-resume.service`.
    pub name: &'static str,
    /// Content of the file.
    pub text: String,
}

/// Writes units into the user's folder of units, and says how they are put to use: by commands behind `systemctl --user`. Returns the path of
/// the first one.
pub fn install(context: &mut Context, first: &Unit, others: &[Unit], commands: &[&str]) -> Result<PathBuf> {
    let folder = folder()?;
    let written = folder.join(first.name);
    fs::create_dir_all(&folder).map_err(|source| Failure::File { action: "create folder", path: folder.clone(), source })?;
    for unit in others.iter().chain([first]) {
        let path = folder.join(unit.name);
        fs::write(&path, &unit.text).map_err(|source| Failure::File { action: "write", path: path.clone(), source })?;
        context.out.did(format!("{} is written", path.shown()));
        context.out.remark(format!("Wrote {}.", path.shown()))?;
    }
    context.out.remark("To have it run at each boot:")?;
    for command in commands {
        context.out.remark(format!("  systemctl --user {command}"))?;
    }
    context.out.remark("  loginctl enable-linger    # also before you log in")?;
    Ok(written)
}

fn folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    let config = config.ok_or_else(|| Failure::Usage("no folder for units: set HOME or XDG_CONFIG_HOME".into()))?;
    Ok(config.join("systemd/user"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_systemd_takes_them_for() {
        assert_eq!(word(Path::new("/opt/my tools/parhelia")).unwrap(), "\"/opt/my tools/parhelia\"");
        assert_eq!(word(Path::new("/data/100%/$x")).unwrap(), "\"/data/100%%/$$x\"");
        assert_eq!(quoted("PATH=/a b:/\"c\""), "\"PATH=/a b:/\\\"c\\\"\"");
    }
}
