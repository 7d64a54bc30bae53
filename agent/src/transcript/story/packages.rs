//! Packages that a command installs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command::Part;

/// A package that a command installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct Package {
    /// The program that installed it.
    pub manager: String,
    /// Its name, with its version where the command names one.
    pub name: String,
}

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// The most packages of one command.
const PACKAGES_MAX: usize = 32;

/// Commands that install what they name.
const INSTALLERS: [&[&str]; 37] = [
    &["pip", "install"],
    &["pip3", "install"],
    &["uv", "add"],
    &["uv", "pip", "install"],
    &["uv", "tool", "install"],
    &["poetry", "add"],
    &["pdm", "add"],
    &["rye", "add"],
    &["pipx", "install"],
    &["pipenv", "install"],
    &["conda", "install"],
    &["mamba", "install"],
    &["npm", "install"],
    &["npm", "i"],
    &["npm", "add"],
    &["pnpm", "add"],
    &["pnpm", "install"],
    &["pnpm", "i"],
    &["yarn", "add"],
    &["bun", "add"],
    &["bun", "install"],
    &["deno", "add"],
    &["cargo", "add"],
    &["cargo", "install"],
    &["go", "get"],
    &["go", "install"],
    &["gem", "install"],
    &["bundle", "add"],
    &["composer", "require"],
    &["dotnet", "add", "package"],
    &["apt", "install"],
    &["apt-get", "install"],
    &["apk", "add"],
    &["dnf", "install"],
    &["yum", "install"],
    &["brew", "install"],
    &["rustup", "component", "add"],
];
/// Flags whose value is the next word.
const WITH_VALUE: [&str; 30] = [
    "-r",
    "--requirement",
    "-c",
    "--constraint",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "-t",
    "--target",
    "--prefix",
    "--features",
    "-F",
    "--path",
    "--git",
    "--branch",
    "--rev",
    "--tag",
    "--registry",
    "--group",
    "-G",
    "--package",
    "-p",
    "-C",
    "--root",
    "--python",
    "-w",
    "-e",
    "--editable",
];

/// The packages that a command names for installing.
pub(super) fn installed(part: &Part) -> Vec<Package> {
    let Some(verb) = INSTALLERS.iter().find(|words| part.is(words)) else { return Vec::new() };
    let (mut found, mut verbs, mut is_value) = (Vec::new(), verb.len() - 1, false);
    for word in part.words.iter().skip(1) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if word.starts_with('-') {
            is_value = WITH_VALUE.contains(&word.as_str());
        } else if verbs > 0 {
            verbs -= 1;
        } else if is_name(word) && found.len() < PACKAGES_MAX {
            found.push(Package { manager: verb[0].to_owned(), name: word.clone() });
        }
    }
    found
}

/// True for the name of a package, and not a path, a URL or something that the shell expands.
fn is_name(word: &str) -> bool {
    let is_path = word.starts_with(['.', '/', '~']) || word.contains("://");
    !word.is_empty() && word.len() <= NAME_BYTES_MAX && !is_path && !word.contains(['$', '*', '`'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::story::command::parts;

    #[test]
    fn names_behind_the_verb_are_packages() {
        let found = |line: &str| {
            let packages = parts(line).iter().flat_map(installed).collect::<Vec<_>>();
            packages.iter().map(|package| format!("{} {}", package.manager, package.name)).collect::<Vec<_>>()
        };
        assert_eq!(found("pip install -r dev.txt 'PyJWT==2.8.0' ."), ["pip PyJWT==2.8.0"]);
        assert_eq!(found("python -m pip install -q requests flask"), ["pip requests", "pip flask"]);
        assert_eq!(found("sudo apt-get install -y jq && npm i -D vitest"), ["apt-get jq", "npm vitest"]);
        assert_eq!(found("cargo add serde --features derive"), ["cargo serde"]);
        assert_eq!(found("uv pip install ruff"), ["uv ruff"]);
        assert!(found("npm install; pip install -e .; go test ./...; cargo install --path .").is_empty());
    }
}
