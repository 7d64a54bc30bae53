//! The hooks of a kind of agent, and the settings that they stand in.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::files::Files;
use crate::hooks::{Release, event::Kind};

/// Events that come to our hooks, and for how long the agent waits at most, in the unit of its own settings. Every one is answered in well
/// under a second; the rest is room for a machine under load.
pub type Events = &'static [(&'static str, u64)];

/// The hooks of a kind of agent, and the settings that they stand in.
pub trait Hooks: Files {
    /// The events that come to our hooks.
    fn events(&self) -> Events;

    /// True if a release of its program knows an event. One that cannot be told is none of the oldest.
    fn knows_event(&self, _event: &str, _release: Option<Release>) -> bool {
        true
    }

    /// The release of its program that is found in `search`, where it matters for its hooks.
    fn release(&self, _search: Option<&OsStr>) -> Option<Release> {
        None
    }

    /// The tools, or the kinds of a notification, whose events of a name come to our hooks, as its settings match them (`A|B`); none for all.
    fn matcher(&self, _event: &str) -> Option<&'static str> {
        None
    }

    /// The ways in which a conversation begins, as matchers of its settings name them.
    fn start_sources(&self) -> &'static [&'static str] {
        &["startup", "resume", "clear"]
    }

    /// The file of settings with hooks in its own folder, or in its folder of a project, which has the name of the one in the home folder.
    fn hook_file(&self, folder: &Path) -> PathBuf;

    /// The files of settings with hooks that it reads, each with its layer's name, the one that counts most first.
    fn hook_layers(&self, config: Option<&Path>, workspace: &Path) -> Vec<(&'static str, PathBuf)> {
        let project = ("project", self.hook_file(&workspace.join(self.folder_names().in_home)));
        [project].into_iter().chain(config.map(|config| ("user", self.hook_file(config)))).collect()
    }

    /// The file that brings our hooks in place of its settings; none where its settings do.
    fn plugin(&self) -> Option<&Path> {
        None
    }

    /// True if its settings may have comments.
    fn takes_comments(&self) -> bool {
        false
    }

    /// The setting that turns all hooks off, or ours alone, where its settings do.
    fn hooks_off(&self, settings: &Value) -> Option<&'static str> {
        const NAME: &str = "disableAllHooks";
        settings.get(NAME).and_then(Value::as_bool).unwrap_or_default().then_some(NAME)
    }

    /// True if settings say that hooks are on, whatever settings that count less say.
    fn hooks_on(&self, settings: &Value) -> bool {
        settings.get("disableAllHooks").and_then(Value::as_bool) == Some(false)
    }

    /// The event of a name that is its own, beside the names that agents share.
    fn event(&self, _name: &str) -> Option<Kind> {
        None
    }

    /// The variable that it gives to its tools.
    fn tool_variable(&self) -> Option<&'static str>;
}
