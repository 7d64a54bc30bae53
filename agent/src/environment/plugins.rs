//! The agent's plugins: which are installed, from where, and what is checked out.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::redact;
use crate::{
    git::{Facts, Repository},
    regular::read_json,
};

/// Most plugins that are listed.
const PLUGINS_MAX: usize = 500;

/// A plugin. What is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plugin {
    /// The remote of its repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_remote: Option<String>,
    /// Id of the commit that is checked out; of a copy, the one that the agent's list names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// Branch that is checked out; none on a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The time of its installation, as the agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_at: Option<String>,
    /// The version in its manifest, or else that of the agent's list.
    pub manifest_version: Option<String>,
    /// Its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_path: Option<String>,
}

/// The plugins that a configuration folder lists, by `name@marketplace`. None where it has no list.
pub(super) fn look(config: &Path) -> Result<Option<BTreeMap<String, Plugin>>, String> {
    let folder = config.join("plugins");
    let Some(installed) = read_json(&folder.join("installed_plugins.json"))? else { return Ok(None) };
    let marketplaces = read_json(&folder.join("known_marketplaces.json"))?.unwrap_or_default();
    let Some(listed) = installed.get("plugins").and_then(Value::as_object) else { return Ok(Some(BTreeMap::new())) };
    let found = listed.iter().take(PLUGINS_MAX).filter_map(|(name, entry)| {
        // Newer lists have one entry for each scope that it is installed in; the last was installed last.
        let entry = entry.as_array().map_or(Some(entry), |entries| entries.last())?;
        let marketplace = name.rsplit_once('@').and_then(|(_, marketplace)| marketplaces.get(marketplace));
        Some((name.clone(), plugin(entry, marketplace)))
    });
    Ok(Some(found.collect()))
}

fn plugin(entry: &Value, marketplace: Option<&Value>) -> Plugin {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let install_path = text(entry, "installPath");
    let manifest = install_path.as_deref().and_then(|path| {
        let path = Path::new(path);
        [".claude-plugin/plugin.json", "plugin.json"].iter().find_map(|name| read_json(&path.join(name)).ok().flatten())
    });
    let facts = |path: &Option<String>| {
        path.as_deref().and_then(|path| Repository::at(Path::new(path)).ok().flatten()).map(|r| r.facts())
    };
    let location = marketplace.and_then(|marketplace| text(marketplace, "installLocation"));
    let own = facts(&install_path);
    let checked_out = own.as_ref().and_then(|own| own.commit.clone());
    let facts = own.or_else(|| facts(&location)).unwrap_or_default();
    let Facts { remote, commit, branch } = facts;
    let remote = remote.or_else(|| marketplace.and_then(|marketplace| source(marketplace.get("source")?)));
    Plugin {
        git_remote: remote.map(|remote| redact::text(&remote)),
        // What is checked out runs. Of a copy, the list knows the commit, also where the marketplace has moved on.
        git_commit: checked_out.or_else(|| text(entry, "gitCommitSha")).or(commit),
        git_branch: branch,
        installed_at: text(entry, "installedAt"),
        manifest_version: manifest.and_then(|manifest| text(&manifest, "version")).or_else(|| text(entry, "version")),
        install_path,
    }
}

/// A marketplace's source as a URL.
fn source(source: &Value) -> Option<String> {
    let text = |field: &str| source.get(field).and_then(Value::as_str);
    match text("repo") {
        Some(repository) => Some(format!("https://github.com/{repository}.git")),
        None => text("url").or_else(|| text("path")).map(str::to_owned),
    }
}

/// The folders of installed plugins, by name.
pub(crate) fn installed_plugins(config: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    Ok(folders_of(look(config)?.iter().flatten()))
}

/// Their folders, by name.
pub(super) fn folders_of<'a>(plugins: impl Iterator<Item = (&'a String, &'a Plugin)>) -> Vec<(String, PathBuf)> {
    plugins.filter_map(|(name, plugin)| Some((name.clone(), PathBuf::from(plugin.install_path.as_ref()?)))).collect()
}
