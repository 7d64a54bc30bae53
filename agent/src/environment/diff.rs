//! The differences of two environments, from their values as checkpoints keep them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{variables::is_beside_the_session, versions};

/// A difference of two environments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EnvironmentChange {
    /// Part: claude_code, agent, plugins, mcp_servers, python, packages, variables.
    #[schemars(extend("enum" = ["claude_code", "agent", "plugins", "mcp_servers", "python", "packages", "variables"]))]
    pub section: &'static str,
    /// A plugin, a server, a package, a variable; null if the part is one thing.
    pub name: Option<String>,
    /// Field that differs; null if the whole entry is new or gone, or has a single field.
    pub field: Option<String>,
    /// Value in the older environment; null where there was none.
    pub before: Option<String>,
    /// Value in the newer environment; null where there is none.
    pub after: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// The differences, by section and name.
    pub changes: Vec<EnvironmentChange>,
    /// Parts that one of the two did not capture, so that nothing can be said of them.
    pub unknown: Vec<&'static str>,
}

/// Compares two environments. `freezes` are their full lists of packages, where both are at hand; else the packages that they name
/// themselves are compared. When each was captured does not count.
pub fn diff(before: Option<&Value>, after: Option<&Value>, freezes: (Option<&str>, Option<&str>)) -> Diff {
    let freezes = freezes.0.zip(freezes.1);
    let mut diff = Diff::default();
    let part = |of: Option<&Value>, name: &str| of.and_then(|value| value.get(name)).filter(|value| !value.is_null()).cloned();
    let both = |name: &str| (part(before, name), part(after, name));
    if before.is_none() || after.is_none() {
        diff.unknown.extend(["claude_code", "plugins", "mcp_servers", "python", "packages", "variables"]);
        return diff;
    }
    let failed = |of: Option<&Value>, name: &str| of.and_then(|value| value.get("failed")?.get(name)).is_some();
    for section in ["claude_code", "agent", "plugins", "mcp_servers", "python"] {
        if failed(before, section) || failed(after, section) {
            diff.unknown.push(section);
        }
    }
    for agent in ["claude_code", "agent"] {
        diff.fields(agent, None, &both(agent));
    }
    for section in ["plugins", "mcp_servers"] {
        let (before, after) = both(section);
        diff.named(section, &map(before), &map(after));
    }
    let python = |of| {
        let fields = ["python_version", "python_executable"].map(|name| (name.to_owned(), part(of, name).unwrap_or_default()));
        Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
    };
    diff.fields("python", None, &(Some(python(before)), Some(python(after))));
    let (old, new) = match freezes {
        Some((old, new)) => (texts(versions(old.lines())), texts(versions(new.lines()))),
        None => (map(part(before, "python_packages")), map(part(after, "python_packages"))),
    };
    if diff.named("packages", &old, &new) == 0
        && freezes.is_none()
        && part(before, "pip_freeze_hash") != part(after, "pip_freeze_hash")
    {
        diff.fields("packages", None, &both("pip_freeze_hash"));
    }
    let (old, new) = both("variables");
    // Older checkpoints hold what the process that made them had besides; the terminal is whoever's who made it.
    let of_session = |variables| map(variables).into_iter().filter(|(name, _)| !is_beside_the_session(name)).collect();
    diff.named("variables", &of_session(old), &of_session(new));
    diff.changes.retain(|change| !diff.unknown.contains(&change.section));
    diff
}

fn map(value: Option<Value>) -> BTreeMap<String, Value> {
    match value {
        Some(Value::Object(fields)) => fields.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

fn texts(texts: BTreeMap<String, String>) -> BTreeMap<String, Value> {
    texts.into_iter().map(|(name, text)| (name, text.into())).collect()
}

impl Diff {
    /// Compares two maps; returns how many differences there are.
    fn named(&mut self, section: &'static str, before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> usize {
        let had = self.changes.len();
        for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            self.fields(section, Some(name), &(before.get(name).cloned(), after.get(name).cloned()));
        }
        self.changes.len() - had
    }

    /// Compares two values, field by field where both are objects.
    fn fields(&mut self, section: &'static str, name: Option<&str>, (before, after): &(Option<Value>, Option<Value>)) {
        if before == after {
            return;
        }
        if let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) {
            for field in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
                let (old, new) = (before.get(field), after.get(field));
                if old != new {
                    self.push(section, name, Some(field), old, new);
                }
            }
        } else {
            self.push(section, name, None, before.as_ref(), after.as_ref());
        }
    }

    fn push(
        &mut self,
        section: &'static str,
        name: Option<&str>,
        field: Option<&str>,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let (name, field) = (name.map(str::to_owned), field.map(str::to_owned));
        self.changes.push(EnvironmentChange {
            section,
            name,
            field,
            before: before.and_then(shown),
            after: after.and_then(shown),
        });
    }
}

/// A value in a line: of a thing with several fields what tells its version.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            let telling = ["version", "version_id", "manifest_version", "git_commit"];
            let told = telling.iter().find_map(|name| fields.get(*name).and_then(Value::as_str));
            Some(told.map_or_else(|| value.to_string(), str::to_owned))
        }
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment() -> Value {
        json!({
            "claude_code": {"version": "2.0.0", "binary_hash": "sha256:a", "install_path": "/bin/claude"},
            "plugins": {"p@m": {"git_commit": "1", "manifest_version": "1.0"}},
            "mcp_servers": {"s": {"source_type": "npm", "version_id": "1", "config_hash": "blake3:a"}},
            "python_version": "3.11.2", "python_executable": "/usr/bin/python3",
            "python_packages": {"numpy": "1.0"}, "pip_freeze_hash": "sha256:f", "variables": {"LANG": "C"}, "captured_at": "then",
        })
    }

    fn lines(diff: &Diff) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let line = |c: &EnvironmentChange| {
            format!("{} {} {}: {} > {}", c.section, text(&c.name), text(&c.field), text(&c.before), text(&c.after))
        };
        diff.changes.iter().map(line).collect()
    }

    #[test]
    fn equal_but_for_the_time() {
        let mut later = environment();
        later["captured_at"] = json!("now");
        assert_eq!(diff(Some(&environment()), Some(&later), (None, None)), Diff::default());
    }

    #[test]
    fn every_part() {
        let mut later = environment();
        later["claude_code"]["version"] = json!("2.1.0");
        later["plugins"] = json!({"q@m": {"manifest_version": "2.0"}});
        later["mcp_servers"]["s"]["version_id"] = json!("2");
        later["python_version"] = json!("3.12.0");
        later["python_packages"] = json!({"numpy": "2.0"});
        later["variables"] = json!({"LANG": "C.UTF-8", "CC": "clang"});
        let expected = [
            "claude_code - version: 2.0.0 > 2.1.0",
            "plugins p@m -: 1.0 > -",
            "plugins q@m -: - > 2.0",
            "mcp_servers s version_id: 1 > 2",
            "python - python_version: 3.11.2 > 3.12.0",
            "packages numpy -: 1.0 > 2.0",
            "variables CC -: - > clang",
            "variables LANG -: C > C.UTF-8",
        ];
        assert_eq!(lines(&diff(Some(&environment()), Some(&later), (None, None))), expected);
    }

    #[test]
    fn variables_of_the_process_that_looked_do_not_count() {
        let mut by_a_hook = environment();
        by_a_hook["variables"] =
            json!({"LANG": "C", "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s", "PARHELIA_RUN_ID": "r", "PWD": "/"});
        assert_eq!(diff(Some(&environment()), Some(&by_a_hook), (None, None)), Diff::default());
        by_a_hook["variables"]["CLAUDE_CONFIG_DIR"] = json!("/c");
        assert_eq!(lines(&diff(Some(&environment()), Some(&by_a_hook), (None, None))), ["variables CLAUDE_CONFIG_DIR -: - > /c"]);
    }

    #[test]
    fn packages_from_the_full_lists_or_at_least_that_they_differ() {
        let mut later = environment();
        later["pip_freeze_hash"] = json!("sha256:g");
        let both = |freezes| lines(&diff(Some(&environment()), Some(&later), freezes));
        assert_eq!(both((None, None)), ["packages - -: sha256:f > sha256:g"]);
        let freezes = ("Foo_Bar==1\nsame==1\n", "foo-bar==2\nnew @ git+https://h/n@c\nsame==1\n");
        assert_eq!(
            both((Some(freezes.0), Some(freezes.1))),
            ["packages foo-bar -: 1 > 2", "packages new -: - > git+https://h/n@c"]
        );
    }

    #[test]
    fn what_was_not_captured_is_not_called_gone() {
        let mut later = environment();
        later["failed"] = json!({"mcp_servers": "broken"});
        later["mcp_servers"] = Value::Null;
        let found = diff(Some(&environment()), Some(&later), (None, None));
        assert_eq!((found.changes.len(), found.unknown), (0, vec!["mcp_servers"]));
        assert_eq!(diff(None, Some(&later), (None, None)).unknown.len(), 6);
    }
}
