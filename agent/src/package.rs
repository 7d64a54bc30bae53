//! The npm package that a program lies in, and the version that is read off a program's place.

use std::{ffi::OsStr, path::Path};

use serde_json::Value;

use crate::regular::read_json;

/// The version of a program that is not run, links resolved; none where neither tells it.
pub(crate) fn installed_version(real: &Path) -> Option<String> {
    let package = package_of(real).and_then(|(_, version)| version);
    let name = real.file_name().and_then(OsStr::to_str).filter(|name| is_version(name) && name.contains('.'));
    package.or(name.map(str::to_owned))
}

pub(crate) fn is_version(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Name and version of the npm package that a program lies in.
pub(crate) fn package_of(real: &Path) -> Option<(Option<String>, Option<String>)> {
    let folder = real.ancestors().find(|folder| folder.parent().is_some_and(is_of_packages))?;
    let manifest = read_json(&folder.join("package.json")).ok().flatten()?;
    let field = |name: &str| manifest.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((field("name"), field("version")))
}

/// True if a folder holds npm packages: `node_modules`, or a scope in it.
fn is_of_packages(folder: &Path) -> bool {
    let is_modules = |folder: &Path| folder.file_name() == Some(OsStr::new("node_modules"));
    let is_scope = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
    is_modules(folder) || (is_scope && folder.parent().is_some_and(is_modules))
}
