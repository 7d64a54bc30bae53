//! A proxy before the servers that an agent starts: put into its configuration, and taken out again. Whatever else the file holds stays as
//! it is, byte for byte.

use std::path::{Path, PathBuf};

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::Value;

use crate::{
    edited::{self, EditOutcome, FileEdit, real_path},
    error::Result,
};

/// The verb that is the proxy.
pub const PROXY: &str = "mcp-proxy";
/// The field with the servers.
const SERVERS: &str = "mcpServers";

/// The command line of the proxy, but for the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyCommand {
    /// Path of our own executable.
    pub program: PathBuf,
    /// The store, where it is not the default one.
    pub store: Option<PathBuf>,
}

/// A file of servers that was edited.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyEdit {
    /// The file, and whether it was changed.
    pub edit: FileEdit,
    /// The servers that have a proxy now, or have none any more.
    pub servers: Vec<String>,
}

/// Puts a proxy before each server of a file that the agent starts. Proxies of ours with another command are replaced.
pub fn wrap(path: &Path, command: &ProxyCommand) -> Result<ProxyEdit> {
    edited_servers(path, &|name, words| {
        let server = behind(words).filter(|server| !is_ours(server)).or((!is_ours(words)).then_some(words))?;
        let store = command.store.iter().flat_map(|store| ["--store".to_owned(), store.to_string_lossy().into_owned()]);
        let proxy = [command.program.to_string_lossy().into_owned()].into_iter().chain(store);
        let proxy = proxy.chain([PROXY.to_owned(), "--name".to_owned(), name.to_owned(), "--".to_owned()]);
        Some(proxy.chain(server.iter().cloned()).collect())
    })
}

/// Takes every proxy of ours out of a file.
pub fn unwrap(path: &Path) -> Result<ProxyEdit> {
    edited_servers(path, &|_, words| behind(words).map(<[String]>::to_vec))
}

/// The servers of a file that have a proxy of ours.
pub fn wrapped(path: &Path) -> Result<Vec<String>> {
    // No word changes, so that the file is only read.
    Ok(edited_servers(path, &|_, words| behind(words).map(|_| words.to_vec()))?.servers)
}

/// True of this program's own server (`parhelia mcp`), which has no state of its own.
fn is_ours(words: &[String]) -> bool {
    let program = words.first().and_then(|program| program.rsplit('/').next());
    program == Some("parhelia") && words.iter().any(|word| word == "mcp")
}

/// The command line of a server without the proxy before it; none where it has none.
pub fn behind(words: &[String]) -> Option<&[String]> {
    let program = words.first()?.rsplit('/').next()?;
    let at = words.iter().position(|word| word == "--")?;
    let is_ours = program == "parhelia" && words[1..at].iter().any(|word| word == PROXY);
    is_ours.then_some(&words[at + 1..]).filter(|server| !server.is_empty())
}

type Edit<'a> = dyn Fn(&str, &[String]) -> Option<Vec<String>> + 'a;

/// Edits the command line of each server. `edit` has the name and the words, and gives the new words; none for those that stay.
fn edited_servers(path: &Path, edit: &Edit<'_>) -> Result<ProxyEdit> {
    let names = std::cell::RefCell::new(Vec::new());
    let real = real_path(path)?;
    if !real.exists() {
        return Ok(ProxyEdit { edit: FileEdit { path: real, changed: false }, servers: Vec::new() });
    }
    let edit = edited::edit(path, &|text| {
        names.borrow_mut().clear();
        if text.trim().is_empty() {
            return Ok(EditOutcome::Unchanged);
        }
        // Strict JSON, as the agent reads it.
        let value: Value = serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
        let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|e| format!("it is not JSON: {e}"))?;
        let Some(object) = root.object_value().filter(|_| value.is_object()) else { return Err("it is no JSON object".into()) };
        let of_folders = object.object_value("projects").into_iter().flat_map(|projects| projects.properties());
        let of_folders = of_folders.filter_map(|project| project.object_value()?.object_value(SERVERS));
        for servers in object.object_value(SERVERS).into_iter().chain(of_folders) {
            for property in servers.properties() {
                let name = property.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default();
                let Some(server) = property.object_value() else { continue };
                let Some(words) = words(&server) else { continue };
                if let Some(new) = edit(&name, &words) {
                    names.borrow_mut().push(name);
                    if new != words {
                        set(&server, &new);
                    }
                }
            }
        }
        let new = root.to_string();
        Ok(if new == text { EditOutcome::Unchanged } else { EditOutcome::Changed(new) })
    })?;
    Ok(ProxyEdit { edit, servers: names.into_inner() })
}

/// The command line of a server; none of one that the agent does not start.
fn words(server: &CstObject) -> Option<Vec<String>> {
    let command = server.get("command")?.value()?.as_string_lit()?.decoded_value().ok()?;
    // What is no list is left to whoever wrote it.
    let arguments = server.get("args").map(|arguments| Some(arguments.value()?.as_array()?.elements()));
    let arguments = arguments.map_or(Some(Vec::new()), |arguments| arguments)?;
    let arguments = arguments.iter().map(|argument| argument.as_string_lit()?.decoded_value().ok());
    std::iter::once(Some(command)).chain(arguments).collect()
}

fn set(server: &CstObject, words: &[String]) {
    let Some((command, arguments)) = words.split_first() else { return };
    let arguments = CstInputValue::Array(arguments.iter().map(|word| CstInputValue::String(word.clone())).collect());
    for (name, value) in [("command", CstInputValue::String(command.clone())), ("args", arguments)] {
        match server.get(name) {
            Some(property) => property.set_value(value),
            None => {
                server.append(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FILE: &str = r#"{
  "numStartups": 3, "big": 12345678901234567890123,
  "mcpServers": {
    "memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {"MEMORY_FILE_PATH": "/m"}},
    "bare": { "command": "serve" },
    "far": {"type": "http", "url": "https://example.org/mcp"},
    "odd": {"command": "x", "args": [1]},
    "text": {"command": "x", "args": "y"},
    "own": {"command": "/usr/bin/parhelia", "args": ["mcp"]}
  },
  "projects": {"/w": {"mcpServers": {"here": {"command": "python3", "args": ["s.py", "--", "x"]}}}}
}
"#;

    fn command() -> ProxyCommand {
        ProxyCommand { program: "/usr/bin/parhelia".into(), store: Some("/a store".into()) }
    }

    #[test]
    fn what_is_wrapped_is_unwrapped_to_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".claude.json");
        fs::write(&path, FILE).unwrap();
        let wrapped = wrap(&path, &command()).unwrap();
        assert_eq!(wrapped.servers, ["memory", "bare", "here"]);
        assert!(wrapped.edit.changed);
        let text = fs::read_to_string(&path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let memory = &value["mcpServers"]["memory"];
        assert_eq!(memory["command"], "/usr/bin/parhelia");
        let words =
            ["--store", "/a store", "mcp-proxy", "--name", "memory", "--", "npx", "-y", "@modelcontextprotocol/server-memory"];
        assert_eq!(memory["args"], serde_json::json!(words));
        for kept in [
            r#""big": 12345678901234567890123"#,
            r#""far": {"type": "http", "url": "https://example.org/mcp"}"#,
            r#""args": [1]"#,
            r#""args": "y""#,
        ] {
            assert!(text.contains(kept), "{text}");
        }
        assert!(!wrap(&path, &command()).unwrap().edit.changed, "a second time changes nothing");
        let other = ProxyCommand { program: "parhelia".into(), store: None };
        assert!(wrap(&path, &other).unwrap().edit.changed, "another command takes the place of the first");
        assert_eq!(unwrap(&path).unwrap().servers, ["memory", "bare", "here"]);
        let after: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let mut before: Value = serde_json::from_str(FILE).unwrap();
        before["mcpServers"]["bare"]["args"] = serde_json::json!([]);
        assert_eq!(after, before);
        assert_eq!(unwrap(&path).unwrap().servers, [""; 0]);
    }

    #[test]
    fn what_is_no_configuration_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".mcp.json");
        assert!(!wrap(&path, &command()).unwrap().edit.changed);
        assert!(!path.exists());
        for text in ["[]", "{", "{\"mcpServers\": {}} // a comment", "{\"mcpServers\": []}", "{\"mcpServers\": {\"a\": 1}}"] {
            fs::write(&path, text).unwrap();
            let _ = wrap(&path, &command());
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn only_our_own_proxy_is_one() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(behind(&words("parhelia mcp-proxy --name a -- b -- c")), Some(&words("b -- c")[..]));
        for text in
            ["parhelia mcp", "parhelia hook -- mcp-proxy", "other mcp-proxy --name a -- b", "parhelia mcp-proxy --name a --"]
        {
            assert_eq!(behind(&words(text)), None, "{text}");
        }
    }
}
