//! Our entries in the agent's settings: putting them in, taking them out, saying whether they are there. Whatever else the file holds
//! stays as it is, byte for byte; a file that is not understood is not touched.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{
    command::{HookCommand, is_ours},
    edit,
    matcher::MatcherGap,
    release::{Release, events},
};
use crate::{
    edited::{self, FileEdit, read, real_path, refused, without_mark},
    error::Result,
    kind::Kind,
};

/// The entries of ours that a settings file has and lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The file itself, behind symlinks.
    pub path: PathBuf,
    /// Events with an entry of ours.
    pub installed: Vec<String>,
    /// Events that lack one, or have it for some of their values alone.
    pub missing: Vec<String>,
    /// Those of the latter.
    pub narrowed: Vec<MatcherGap>,
    /// The commands of our entries, each once.
    pub commands: Vec<String>,
    /// The setting by which all hooks are turned off in it.
    pub disabled: Option<&'static str>,
    /// True if it says that hooks are on, whatever settings that count less say.
    pub is_enabled: bool,
    /// True if it says that no hooks run but those of managed settings.
    pub is_managed_only: bool,
}

/// Our hooks as settings by themselves, for one start of a release of the agent.
pub fn settings_json(command: &HookCommand, kind: Kind, release: Option<Release>) -> Value {
    let group = |event: &str, timeout: u64| match kind.matcher(event) {
        None => json!([{ "hooks": [entry(command, timeout)] }]),
        Some(matcher) => json!([{ "matcher": matcher, "hooks": [entry(command, timeout)] }]),
    };
    let groups = events(kind, release).map(|(event, timeout)| (event.to_owned(), group(event, timeout)));
    json!({ "hooks": groups.collect::<serde_json::Map<_, _>>() })
}

fn entry(command: &HookCommand, timeout: u64) -> Value {
    json!({ "type": "command", "command": command.text(), "timeout": timeout })
}

/// Puts our entries into a settings file, which is made where there is none. Entries of ours with another command are replaced,
/// and those for events that the release does not know are taken out.
pub fn install(path: &Path, command: &HookCommand, kind: Kind, release: Option<Release>) -> Result<FileEdit> {
    command.ensure_text()?;
    edited::edit(path, &|text| edit::install(text, &command.text(), kind, release))
}

/// Takes all entries of ours out of a settings file.
pub fn uninstall(path: &Path, kind: Kind) -> Result<FileEdit> {
    if !real_path(path)?.exists() {
        return Ok(FileEdit { path: real_path(path)?, changed: false });
    }
    edited::edit(path, &|text| edit::uninstall(text, kind))
}

/// Looks whether our entries for a release of the agent are in a settings file.
pub fn status(path: &Path, kind: Kind, release: Option<Release>) -> Result<Status> {
    let path = real_path(path)?;
    let text = read(&path)?.unwrap_or_default();
    let text = without_mark(&text);
    let value: Value = match text.trim().is_empty() {
        true => json!({}),
        false => edit::value(text, kind).map_err(|e| refused(&path, format!("it is not JSON: {e}")))?,
    };
    let (disabled, is_enabled) = (kind.hooks_off(&value), kind.hooks_on(&value));
    let is_managed_only = value.get("allowManagedHooksOnly").and_then(Value::as_bool).unwrap_or_default();
    let mut status = Status { path, disabled, is_enabled, is_managed_only, ..Status::default() };
    for (event, _) in events(kind, release) {
        let groups = value["hooks"][event].as_array().cloned().unwrap_or_default();
        let (mut ours, mut matchers) = (Vec::new(), Vec::new());
        for group in &groups {
            let hooks = group["hooks"].as_array().into_iter().flatten();
            let commands = hooks.filter_map(|hook| hook["command"].as_str()).filter(|command| is_ours(command));
            let before = ours.len();
            ours.extend(commands.map(str::to_owned));
            matchers.extend((ours.len() > before).then(|| group["matcher"].as_str().unwrap_or_default()));
        }
        let narrowed = if ours.is_empty() { None } else { MatcherGap::of(kind, event, &matchers) };
        match ours.is_empty() || narrowed.is_some() {
            true => status.missing.push(event.into()),
            false => status.installed.push(event.into()),
        }
        status.narrowed.extend(narrowed);
        status.commands.extend(ours);
    }
    status.commands.sort();
    status.commands.dedup();
    Ok(status)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use proptest::prelude::*;

    use super::*;
    use crate::{error::Error, kinds::KINDS};

    const OTHERS: &str = r#"{
    "model": "x",   "permissions": {"allow": ["Bash(ls)" , "Read"]},
    "hooks": {
        "Stop": [
            {"matcher": "", "hooks": [{"type": "command", "command": "other hook", "timeout": 5}]}
        ],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "http", "url": "http://127.0.0.1:1/"}]}]
    },
    "big": 12345678901234567890123, "unknown": {"b": 1.50, "a": "é"}
}
"#;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(text: &[u8]) -> (Self, PathBuf) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("settings.json");
            fs::write(&path, text).unwrap();
            (Folder(folder), path)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn command(program: &str) -> HookCommand {
        HookCommand { program: program.into(), store: None }
    }

    #[test]
    fn what_else_is_there_keeps_its_bytes() {
        let (_folder, path) = Folder::with(OTHERS.as_bytes());
        assert!(install(&path, &command("parhelia"), KINDS[0], None).unwrap().changed);
        let text = fs::read_to_string(&path).unwrap();
        for line in OTHERS.lines().filter(|line| !line.trim().is_empty() && !matches!(line.trim(), "]," | "}" | "},")) {
            let line = line.trim_end_matches(',');
            let kept = text.contains(line) || line.contains("PreToolUse") || line.ends_with("}]}");
            assert!(kept, "{line}\n--\n{text}");
        }
        assert!(text.contains(r#"{"matcher": "Bash", "hooks": [{"type": "http", "url": "http://127.0.0.1:1/"}]}"#), "{text}");
        let found = status(&path, KINDS[0], None).unwrap();
        assert_eq!(found.missing, [""; 0]);
        assert_eq!(found.commands, ["parhelia hook"]);
        assert!(!install(&path, &command("parhelia"), KINDS[0], None).unwrap().changed, "a second time changes nothing");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert!(uninstall(&path, KINDS[0]).unwrap().changed);
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&fs::read_to_string(&path).unwrap()), value(OTHERS));
        assert!(!uninstall(&path, KINDS[0]).unwrap().changed);
        assert_eq!(status(&path, KINDS[0], None).unwrap().installed, [""; 0]);
    }

    #[test]
    fn another_command_of_ours_is_replaced_in_its_place() {
        let (_folder, path) = Folder::with(b"{}");
        install(&path, &command("/old/parhelia"), KINDS[0], None).unwrap();
        assert!(install(&path, &command("/new/parhelia"), KINDS[0], None).unwrap().changed);
        assert_eq!(status(&path, KINDS[0], None).unwrap().commands, ["/new/parhelia hook"]);
        assert!(uninstall(&path, KINDS[0]).unwrap().changed);
        assert_eq!(serde_json::from_str::<Value>(&fs::read_to_string(&path).unwrap()).unwrap(), json!({}));
    }

    #[test]
    fn an_event_for_some_of_its_values_alone_is_missing_until_it_is_installed() {
        let narrow = r#"{"hooks": {"SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "parhelia hook", "timeout": 60}]},
            {"matcher": "clear", "hooks": [{"type": "command", "command": "other"}]}
        ]}}"#;
        let (_folder, path) = Folder::with(narrow.as_bytes());
        install(&path, &command("parhelia"), KINDS[0], None).unwrap();
        let (_other, narrowed) = Folder::with(narrow.as_bytes());
        let found = status(&narrowed, KINDS[0], None).unwrap();
        assert!(found.missing.iter().any(|event| event == "SessionStart"), "{found:?}");
        assert_eq!(found.narrowed[0].left_out, ["resume", "clear", "compact"]);
        let whole = status(&path, KINDS[0], None).unwrap();
        assert_eq!((whole.missing.as_slice(), whole.narrowed.as_slice()), (&[][..], &[][..]));
        let text = fs::read_to_string(&path).unwrap();
        let starts = serde_json::from_str::<Value>(&text).unwrap()["hooks"]["SessionStart"].clone();
        assert_eq!(starts[0]["hooks"][0]["command"], "other", "{text}");
        assert_eq!((starts.as_array().unwrap().len(), starts[1].get("matcher")), (2, None), "{text}");
    }

    #[test]
    fn an_older_release_gets_no_event_that_it_does_not_know() {
        let (_folder, path) =
            Folder::with(br#"{"hooks": {"CwdChanged": [{"hooks": [{"type": "command", "command": "other"}]}]}}"#);
        let (old, new) = (Some(Release(2, 1, 77)), Some(Release(2, 1, 332)));
        install(&path, &command("parhelia"), KINDS[0], old).unwrap();
        let missing = |release| status(&path, KINDS[0], release).unwrap().missing;
        assert_eq!((missing(old), missing(new)), (vec![], vec!["StopFailure".to_owned(), "CwdChanged".to_owned()]));
        assert!(install(&path, &command("parhelia"), KINDS[0], new).unwrap().changed && missing(new).is_empty());
        // The agent was set back to what it was.
        assert!(install(&path, &command("parhelia"), KINDS[0], old).unwrap().changed);
        let left: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(
            (left["hooks"].get("StopFailure"), left["hooks"]["CwdChanged"][0]["hooks"][0]["command"].as_str()),
            (None, Some("other"))
        );
    }

    #[test]
    fn a_byte_order_mark_stays() {
        let (_folder, path) = Folder::with(b"\xef\xbb\xbf{\"a\": 1}");
        assert!(install(&path, &command("parhelia"), KINDS[0], None).unwrap().changed);
        assert!(fs::read(&path).unwrap().starts_with(b"\xef\xbb\xbf{"));
        assert_eq!(status(&path, KINDS[0], None).unwrap().missing, [""; 0]);
        assert!(!install(&path, &command("parhelia"), KINDS[0], None).unwrap().changed);
        assert!(uninstall(&path, KINDS[0]).unwrap().changed);
        let left = fs::read_to_string(&path).unwrap();
        let value: Value = serde_json::from_str(left.strip_prefix('\u{feff}').unwrap()).unwrap();
        assert_eq!(value, json!({"a": 1}));
    }

    #[test]
    fn what_is_not_understood_is_not_touched() {
        let bad: [&[u8]; 9] = [
            b"{",
            b"[]",
            b"{\"hooks\": []}",
            b"{\"hooks\": {\"Stop\": {}}}",
            b"{\"a\": 1,}",
            b"{\"a\": 1} // comment",
            b"\xff\xfe{}",
            b"{\"hooks\": {}, \"hooks\": {}}",
            b"{\"hooks\": {\"Stop\": [], \"Stop\": []}}",
        ];
        for text in bad {
            let (folder, path) = Folder::with(text);
            let error = install(&path, &command("parhelia"), KINDS[0], None).unwrap_err();
            assert!(matches!(error, Error::Settings { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), text);
            assert_eq!(folder.names(), ["settings.json"]);
        }
    }

    #[test]
    fn comments_stay_where_the_agent_takes_them() {
        let kind = KINDS.into_iter().find(|kind| kind.takes_comments()).unwrap();
        let text = "// mine\n{\n  \"ui\": {}, /* theirs */ // \"hooks\": 1\n  \"url\": \"http://x\"\n}\n";
        let (_folder, path) = Folder::with(text.as_bytes());
        assert!(install(&path, &command("parhelia"), kind, None).unwrap().changed);
        assert_eq!(status(&path, kind, None).unwrap().missing, [""; 0]);
        let changed = fs::read_to_string(&path).unwrap();
        for part in ["// mine", "/* theirs */", "// \"hooks\": 1", "\"http://x\""] {
            assert!(changed.contains(part), "{part}: {changed}");
        }
        assert!(!install(&path, &command("parhelia"), kind, None).unwrap().changed);
        assert!(uninstall(&path, kind).unwrap().changed && status(&path, kind, None).unwrap().installed.is_empty());
        assert!(fs::read_to_string(&path).unwrap().contains("/* theirs */"));
        for text in ["{\"a\": 1,} // x", "{a: 1}", "{} /* open"] {
            let (_folder, path) = Folder::with(text.as_bytes());
            assert!(
                install(&path, &command("parhelia"), kind, None).is_err() && fs::read_to_string(&path).unwrap() == text,
                "{text}"
            );
        }
    }

    #[test]
    fn mode_and_symlink_stay_and_a_missing_file_is_made() {
        let (folder, path) = Folder::with(b"");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let real = folder.0.path().join("real.json");
        fs::rename(&path, &real).unwrap();
        std::os::unix::fs::symlink("real.json", &path).unwrap();
        let change = install(&path, &command("parhelia"), KINDS[0], None).unwrap();
        assert!(change.changed && change.path.ends_with("real.json"));
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("real.json"));
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o600);
        assert_eq!(folder.names(), ["real.json", "settings.json"]);
        let new = folder.0.path().join("new/.claude/settings.json");
        assert!(!uninstall(&new, KINDS[0]).unwrap().changed && !new.exists());
        assert!(install(&new, &command("parhelia"), KINDS[0], None).unwrap().changed);
        assert_eq!(status(&new, KINDS[0], None).unwrap().missing, [""; 0]);
    }

    #[test]
    fn settings_for_one_start_say_the_same() {
        let (_folder, path) = Folder::with(b"{}");
        install(&path, &command("parhelia"), KINDS[0], None).unwrap();
        let written: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(written, settings_json(&command("parhelia"), KINDS[0], None));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~é]{0,12}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z]{1,6}", inner), 0..4).prop_map(|f| Value::Object(f.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn in_and_out_again_changes_no_meaning(fields in prop::collection::vec(("[a-z]{1,6}", any_json()), 0..6), pretty: bool) {
            let fields: serde_json::Map<String, Value> = fields.into_iter().filter(|(name, _)| name != "hooks").collect();
            let before = Value::Object(fields);
            let text = if pretty { serde_json::to_string_pretty(&before).unwrap() } else { before.to_string() };
            let (_folder, path) = Folder::with(text.as_bytes());
            install(&path, &command("parhelia"), KINDS[0], None).unwrap();
            prop_assert_eq!(status(&path, KINDS[0], None).unwrap().missing, Vec::<String>::new());
            uninstall(&path, KINDS[0]).unwrap();
            let after: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            prop_assert_eq!(after, before);
        }
    }
}
