//! Ways to a configured server: the program that the agent starts, or an address.

use std::{collections::BTreeMap, ffi::OsString, fmt};

use serde_json::Value;

use super::configured::ServerConfig;

/// The way to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// The agent starts it, and talks over its standard streams.
    Started {
        /// The program and its arguments, without a proxy before them.
        command: Vec<String>,
        /// The variables that the configuration sets.
        variables: BTreeMap<String, String>,
    },
    /// It is there, over HTTP.
    Remote(Remote),
}

/// A server over HTTP.
#[derive(Clone, PartialEq)]
pub struct Remote {
    /// Its address.
    pub url: String,
    /// Headers of each request, which may be credentials.
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({} headers)", self.headers.len())
    }
}

impl ServerConfig {
    /// The way to it; `${NAME}` and `${NAME:-default}` stand for the agent's variables. None where its configuration names none, or one that is
    /// not known here.
    pub fn reached(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Transport> {
        let config = self.unproxied();
        let text = |field: &str| config.get(field).and_then(Value::as_str).map(|text| expanded(text, variable));
        let texts = |field: &str| {
            let fields = config.get(field).and_then(Value::as_object).into_iter().flatten();
            fields.filter_map(|(name, value)| Some((name.clone(), expanded(value.as_str()?, variable))))
        };
        if let Some(command) = text("command") {
            let arguments = config.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let arguments = arguments.map(|argument| expanded(argument, variable));
            let command = std::iter::once(command).chain(arguments).collect();
            return Some(Transport::Started { command, variables: texts("env").collect() });
        }
        let is_http = matches!(config.get("type").and_then(Value::as_str), None | Some("http" | "streamable-http"));
        let url = text("url").filter(|_| is_http)?;
        Some(Transport::Remote(Remote { url, headers: texts("headers").collect() }))
    }
}

/// A text with variables in it. One that is not set, and has no default, stays as it is written.
fn expanded(text: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (inner, behind))) =
        rest.split_once("${").and_then(|(before, tail)| Some((before, tail.split_once('}')?)))
    {
        let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
        let value =
            variable(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty() || default.is_none());
        out.push_str(before);
        match value.or(default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&format!("${{{inner}}}")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::Scope;

    fn reached(config: Value) -> Option<Transport> {
        let variable = |name: &str| match name {
            "HOME" => Some(OsString::from("/home/a")),
            "EMPTY" => Some(OsString::new()),
            _ => None,
        };
        ServerConfig { scope: Scope::User, is_projects: false, config }.reached(&variable)
    }

    #[test]
    fn a_program_is_known_also_behind_a_proxy() {
        let plain =
            reached(json!({"command": "npx", "args": ["-y", "x", "${HOME}/m"], "env": {"A": "${EMPTY:-b}", "B": "${NONE}c"}}));
        let behind = reached(json!({
            "command": "/usr/bin/parhelia",
            "args": ["--store", "/s", "mcp-proxy", "--name", "x", "--", "npx", "-y", "x", "${HOME}/m"],
            "env": {"A": "${EMPTY:-b}", "B": "${NONE}c"}
        }));
        assert_eq!(plain, behind);
        let Some(Transport::Started { command, variables }) = plain else { panic!("{plain:?}") };
        assert_eq!(command, ["npx", "-y", "x", "/home/a/m"]);
        assert_eq!(variables, BTreeMap::from([("A".into(), "b".into()), ("B".into(), "${NONE}c".into())]));
    }

    #[test]
    fn an_address_is_one_over_http_alone() {
        let remote = reached(json!({"type": "http", "url": "http://h/${NONE:-mcp}", "headers": {"X-A": "t"}}));
        assert_eq!(
            remote,
            Some(Transport::Remote(Remote { url: "http://h/mcp".into(), headers: vec![("X-A".into(), "t".into())] }))
        );
        assert!(!format!("{remote:?}").contains("X-A"));
        assert_eq!(reached(json!({"type": "sse", "url": "http://h/"})), None);
        assert_eq!(reached(json!({})), None);
    }
}
