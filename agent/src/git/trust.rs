//! The owner of a repository, judged as git does: one of another user's is left alone unless the user's own `safe.directory` allows it.

use std::path::{Path, PathBuf};

use super::{Environment, Repository, shadow::Setting};

impl Repository {
    /// The user to whom it belongs, where that is another one and nobody allows to use it. As git, it looks at the folder, at `.git`, and at the folder
    /// that a `.git` file names.
    pub(super) fn stranger(&self, env: &Environment, user: &[Setting]) -> Option<u32> {
        let places = [self.root().to_owned(), self.root().join(".git"), self.git().to_owned()];
        let owners = places.iter().map(|place| rustix::fs::lstat(place).map_or(u32::MAX, |stat| stat.st_uid));
        let stranger = owners.into_iter().find(|owner| !is_own(*owner, env.sudo))?;
        (!is_safe(self.root(), env, user)).then_some(stranger)
    }
}

/// True for files of the user who runs this; where that is root by `sudo`, also for those of the user behind it.
fn is_own(owner: u32, sudo: Option<u32>) -> bool {
    let uid = rustix::process::geteuid();
    owner == uid.as_raw() || uid.is_root() && sudo == Some(owner)
}

/// True if the user's settings name a folder in `safe.directory`. An empty value forgets those before it.
fn is_safe(root: &Path, env: &Environment, user: &[Setting]) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = real(root);
    let mut is_safe = false;
    for value in user.iter().filter_map(|setting| setting.of("safe", "directory")) {
        is_safe = match value {
            "" => false,
            "*" => true,
            _ if is_safe => true,
            _ => match value.strip_suffix("/*") {
                Some(above) => {
                    root.parent().is_some()
                        && root.starts_with(real(&expanded(above, env)))
                        && root != real(&expanded(above, env))
                }
                None => real(&expanded(value, env)) == root,
            },
        };
    }
    is_safe
}

fn expanded(path: &str, env: &Environment) -> PathBuf {
    match (path.strip_prefix('~').filter(|below| below.is_empty() || below.starts_with('/')), &env.home) {
        (Some(below), Some(home)) => Path::new(home).join(below.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}
