//! The layers of an agent's settings: where our hooks stand, and which of them turn hooks off.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Release, command::is_ours, settings};
use crate::{edited::without_mark, kind::Kind, regular};

/// No file of settings is read further, in bytes.
const SETTINGS_BYTES_MAX: u64 = 16 << 20;

/// One file of settings that an agent reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The layer's name: `managed`, `user`, `project`, `local`.
    pub scope: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Commands of our hooks in it, each once.
    pub commands: Vec<String>,
    /// Events that lack one, where it has any.
    pub missing: Vec<String>,
    /// The setting in it by which hooks are turned off.
    pub off: Option<&'static str>,
    /// True if it says that they are on.
    pub is_on: bool,
    /// The reason why it cannot be read.
    pub error: Option<String>,
}

/// The setting of an administrator by which no hooks run but those of managed settings.
const MANAGED_ONLY: &str = "allowManagedHooksOnly";

/// All layers of a release of an agent with this folder of its own that works in `workspace`, the one that counts most first. Files that are not there are none.
pub fn layers(kind: Kind, config: Option<&Path>, workspace: &Path, release: Option<Release>) -> Vec<Layer> {
    let found = kind.hook_layers(config, workspace).into_iter().filter(|(_, path)| path.exists());
    found
        .map(|(scope, path)| {
            let read = settings::status(&path, kind, release);
            let error = read.as_ref().err().map(ToString::to_string);
            let status = read.unwrap_or_default();
            let has_ours = !status.commands.is_empty();
            let off = status.disabled.or_else(|| (scope == "managed" && status.is_managed_only).then_some(MANAGED_ONLY));
            Layer {
                scope,
                path,
                commands: status.commands,
                missing: if has_ours { status.missing } else { Vec::new() },
                off,
                is_on: status.is_enabled,
                error,
            }
        })
        .collect()
}

/// The layer of the hooks that an agent was given on its command line, as a text or in a file; none where it was given none of ours.
pub fn given(argv: &[OsString]) -> Option<Layer> {
    let word = argv.iter().skip_while(|word| *word != "--settings").nth(1)?;
    let text = match word.as_encoded_bytes().first() {
        Some(b'{') => word.to_string_lossy().into_owned(),
        _ => String::from_utf8(regular::read(Path::new(word), SETTINGS_BYTES_MAX).ok()?).ok()?,
    };
    let settings: Value = serde_json::from_str(without_mark(&text)).ok()?;
    let groups = settings.get("hooks")?.as_object()?.values().filter_map(Value::as_array).flatten();
    let hooks = groups.filter_map(|group| group.get("hooks")?.as_array()).flatten();
    let mut commands: Vec<String> =
        hooks.filter_map(|hook| hook.get("command")?.as_str()).filter(|text| is_ours(text)).map(str::to_owned).collect();
    commands.dedup();
    (!commands.is_empty()).then(|| Layer {
        scope: "given",
        path: "its command line".into(),
        commands,
        missing: Vec::new(),
        off: None,
        is_on: false,
        error: None,
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs};

    use super::*;
    use crate::{
        hooks::{HookCommand, dead, is_there},
        kinds::KINDS,
    };

    #[test]
    fn each_layer_is_told_and_why_none_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (config, work) = (folder.path().join("config"), folder.path().join("work"));
        fs::create_dir_all(work.join(".claude")).unwrap();
        let of = || {
            let found = layers(KINDS[0], Some(&config), &work, None);
            found.into_iter().filter(|layer| layer.scope != "managed").collect::<Vec<_>>()
        };
        assert_eq!(of(), []);
        let command = HookCommand { program: "/bin/sh".into(), store: None };
        settings::install(
            &config.join("settings.json"),
            &HookCommand { program: "/gone/parhelia".into(), store: None },
            KINDS[0],
            None,
        )
        .unwrap();
        assert_eq!(of()[0].commands, ["/gone/parhelia hook"]);
        let told = dead(&of(), None).unwrap().to_string();
        assert!(told.contains("/gone/parhelia is not there"), "{told}");
        assert!(is_there(&command.program, None) && is_there(Path::new("sh"), Some(OsStr::new("/bin"))));
        let own = folder.path().join("parhelia");
        fs::write(&own, "").unwrap();
        settings::install(&config.join("settings.json"), &HookCommand { program: own.clone(), store: None }, KINDS[0], None)
            .unwrap();
        let told = dead(&of(), None).unwrap().to_string();
        assert!(told.starts_with(&format!("{} is not executable", own.display())), "{told}");
        fs::write(work.join(".claude/settings.local.json"), "{\"disableAllHooks\": true}").unwrap();
        let told = dead(&of(), None).unwrap().to_string();
        assert!(told.starts_with("disableAllHooks in ") && told.contains("settings.local.json"), "{told}");
        // The layer that counts most decides.
        fs::write(work.join(".claude/settings.local.json"), "{\"disableAllHooks\": false}").unwrap();
        fs::write(work.join(".claude/settings.json"), "{\"disableAllHooks\": true}").unwrap();
        let told = dead(&of(), None).unwrap().to_string();
        assert!(told.contains("is not executable"), "{told}");
    }

    #[test]
    fn hooks_on_a_command_line_are_a_layer_of_their_own() {
        let argv = |settings: &str| ["claude", "--settings", settings].map(OsString::from);
        let ours = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/gone/parhelia hook"}]}]}}"#;
        let told = dead(&[given(&argv(ours)).unwrap()], None).unwrap().to_string();
        assert!(told.starts_with("/gone/parhelia is not there"), "{told}");
        assert_eq!(given(&argv("{}")), None);
    }
}
