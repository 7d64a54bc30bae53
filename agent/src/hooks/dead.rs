//! The reason why hooks that stand in an agent's settings do not run.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

use parhelia_name::NameExt as _;

use super::{command::HookCommand, layers::Layer};
use crate::program;

/// The reason why our hooks do not run, as far as settings tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dead {
    /// A setting turns hooks off.
    Off {
        /// Name of the setting, such as `disableAllHooks`.
        setting: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The program that the hooks call is not there.
    Gone {
        /// Path of the program, as the hook's command has it.
        program: PathBuf,
        /// The file.
        path: PathBuf,
    },
    /// The program that the hooks call is there, and this user may not run it.
    NotExecutable {
        /// Path of the program, as the hook's command has it.
        program: PathBuf,
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dead::Off { setting, path } => write!(f, "{setting} in {} turns them off", path.shown()),
            Dead::Gone { program, path } => {
                write!(f, "{} is not there, which the hooks in {} call", program.shown(), path.shown())
            }
            Dead::NotExecutable { program, path } => {
                write!(f, "{} is not executable, which the hooks in {} call", program.shown(), path.shown())
            }
        }
    }
}

/// The reason why none of our hooks run. `search` is where the agent finds programs by their names.
pub fn dead(layers: &[Layer], search: Option<&OsStr>) -> Option<Dead> {
    // The first one that says anything of it counts.
    let told = layers.iter().find(|layer| layer.off.is_some() || layer.is_on);
    let off = told.and_then(|layer| Some(Dead::Off { setting: layer.off?, path: layer.path.clone() }));
    let commands = || layers.iter().flat_map(|layer| layer.commands.iter().map(move |command| (layer, command)));
    off.or_else(|| {
        let gone = |command: &str| HookCommand::of_text(command).filter(|command| !is_there(&command.program, search));
        if commands().any(|(_, command)| gone(command).is_none()) {
            return None;
        }
        commands().find_map(|(layer, command)| {
            let (program, path) = (gone(command)?.program, layer.path.clone());
            Some(match exists(&program, search) {
                true => Dead::NotExecutable { program, path },
                false => Dead::Gone { program, path },
            })
        })
    })
}

/// True if a program's file exists, whether it can be run or not: by its path, or by its name in `search`.
fn exists(program: &Path, search: Option<&OsStr>) -> bool {
    if program.components().count() > 1 || program.is_absolute() {
        return program.exists();
    }
    let folders = search.map(std::env::split_paths).into_iter().flatten().filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(program)).any(|path| path.is_file())
}

/// True if a program can be run: by its path, or by its name in `search`.
pub fn is_there(program: &Path, search: Option<&OsStr>) -> bool {
    if program.components().count() > 1 || program.is_absolute() {
        return rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok() && program.is_file();
    }
    program::locate(program.as_os_str(), search).is_some()
}
