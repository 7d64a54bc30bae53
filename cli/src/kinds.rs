//! Kinds of agents that the user has declared, made known to this process.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
};

use parhelia_agent::{declaration::Declaration, kinds, process::ancestors};
use parhelia_host::{
    config::{self, ConfigFiles},
    run::CONFIG,
};

use crate::{caller::environment, context::Context};

/// Makes known what any process above this one, or this one, would find declared. Nothing else of those files counts: whose word this process has
/// is found out by the agents above it, and an agent can give its programs another environment, but not the processes above itself.
pub fn of_all_above() {
    let own = files(&environment);
    let above = ancestors().into_iter().filter_map(|process| process.variables().ok());
    let above = above.flat_map(|variables| {
        let value = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        files(&value)
    });
    let places: BTreeSet<PathBuf> = own.into_iter().chain(above).collect();
    let mut found: Vec<Declaration> = Vec::new();
    for declaration in places.iter().flat_map(|path| config::declared(path)) {
        let known = found.iter_mut().find(|known| known.name == declaration.name);
        match known {
            // Whichever it is, its programs are agents.
            Some(known) => known.programs.extend(declaration.programs),
            None => found.push(declaration),
        }
    }
    declare(&found);
}

/// The files of the user's in which an environment has kinds declared.
fn files(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = variable(CONFIG).map(PathBuf::from).filter(|path| path.is_absolute());
    ConfigFiles::usual(variable, Path::new("/"), None).user.into_iter().chain(named).collect()
}

/// Makes known what the user's own configuration declares, in place of everything else. What is wrong with that is told by whoever needs it.
pub fn of_user(context: &Context) {
    if let Ok(config) = context.own_config() {
        declare(&config.agent);
    }
}

fn declare(found: &[Declaration]) {
    let home = environment("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    kinds::declare(found, home.as_deref());
}
