//! Environment variables: those on a list, and never those whose names look like secrets.

use std::{collections::BTreeMap, ffi::OsString};

use serde_json::Value;

use super::redact;

/// Variables captured by default, in two lists; `*` stands for anything. These belong to a terminal, a login, a machine or
/// the agent's own process, and not to the work.
const OF_THE_PLACE: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TERM",
    "COLORTERM",
    "XDG_*",
    "TMPDIR",
    "HOSTNAME",
    "CLAUDE*",
    "PARHELIA_*",
];
/// These belong to the work.
const OF_THE_WORK: [&str; 33] = [
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "CI",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHON*",
    "PYENV_*",
    "NODE_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NVM_DIR",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "CARGO_*",
    "RUSTUP_*",
    "RUST_*",
    "RUSTFLAGS",
    "JAVA_HOME",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "ANTHROPIC_*",
];
/// Variables that an agent sets for its hooks and tools, or parhelia for an agent. They depend on the process that captures, and do not belong
/// to the work. The same is true of a process's working folder.
const OF_ONE_PROCESS: [&str; 19] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PLUGIN_*",
    "CLAUDE_PROJECT_DIR",
    "PARHELIA_RESUMED_FROM",
    "PARHELIA_RUN_ID",
    "PARHELIA_SESSION*",
    "PARHELIA_STORE",
    "PWD",
];
/// Variables of a process's terminal, in which an agent and its hooks may differ.
const OF_A_TERMINAL: [&str; 2] = ["TERM", "COLORTERM"];
const VALUE_BYTES_MAX: usize = 32 << 10;

/// True if a variable is of the process that looks, and not of the session.
fn is_of_one_process(name: &str) -> bool {
    OF_ONE_PROCESS.iter().any(|pattern| matches(pattern, name))
}

/// True if a variable says nothing of a session, so that it does not differ by it.
pub(super) fn is_beside_the_session(name: &str) -> bool {
    is_of_one_process(name) || OF_A_TERMINAL.iter().any(|known| matches(known, name))
}

/// The variables to keep: those on the usual list or on `also`, without those on `never` and those whose names look like secrets;
/// credentials in their values are taken out, too. Values that are no text or too long are left out.
pub fn kept(variables: &[(OsString, OsString)], also: &[String], never: &[String]) -> BTreeMap<String, String> {
    let is_usual = |name: &str| OF_THE_PLACE.iter().chain(&OF_THE_WORK).any(|pattern| matches(pattern, name));
    let is_wanted = |name: &str| is_usual(name) && !is_of_one_process(name) || also.iter().any(|pattern| matches(pattern, name));
    let is_denied = |name: &str| redact::is_secret_name(name) || never.iter().any(|pattern| matches(pattern, name));
    let texts = variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let kept = texts.filter(|(name, value)| is_wanted(name) && !is_denied(name) && value.len() <= VALUE_BYTES_MAX);
    kept.map(|(name, value)| (name.to_owned(), redact::text(value))).collect()
}

/// Those of them that belong to the work: neither to a terminal, a login or a machine, nor to the agent's own process.
pub fn launched(variables: &[(OsString, OsString)], also: &[String], never: &[String]) -> BTreeMap<String, String> {
    let mut kept = kept(variables, also, never);
    kept.retain(|name, _| !OF_THE_PLACE.iter().any(|pattern| matches(pattern, name)));
    kept
}

/// Variables that a launch had and a resuming process lacks. Redacted ones are left out, as they are of no use.
pub fn missing(launched: &BTreeMap<String, String>, has: &dyn Fn(&str) -> bool) -> Vec<(String, OsString)> {
    let texts = launched.iter().map(|(name, value)| (name, value.as_str()));
    let is_bound = |name: &str| OF_THE_PLACE.iter().any(|pattern| matches(pattern, name));
    let is_usable = |name: &str, value: &str| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') && !value.contains(redact::REDACTED)
    };
    let kept = texts.filter(|(name, value)| is_usable(name, value) && !is_bound(name) && !has(name));
    kept.map(|(name, value)| (name.clone(), value.into())).collect()
}

/// The variables of a session without a visible process: those of the work from a checkpoint's environment, and those of the machine and the
/// login from `own`. `also` has further patterns of the work's variables.
pub fn recorded(own: Vec<(OsString, OsString)>, environment: Option<&Value>, also: &[String]) -> Vec<(OsString, OsString)> {
    let all = environment.and_then(|environment| environment.get("variables")).and_then(Value::as_object);
    let Some(all) = all else { return own };
    let is_of_the_work = |name: &str| {
        let patterns = OF_THE_WORK.into_iter().chain(also.iter().map(String::as_str));
        !OF_THE_PLACE.iter().any(|pattern| matches(pattern, name)) && patterns.into_iter().any(|pattern| matches(pattern, name))
    };
    let texts = all.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    let of_the_work = texts.filter(|(name, _)| is_of_the_work(name)).map(|(name, value)| (name.into(), value.into()));
    let others = own.into_iter().filter(|(name, _)| !name.to_str().is_some_and(is_of_the_work));
    others.chain(of_the_work).collect()
}

/// True if a name matches a pattern in which `*` stands for anything. Case is ignored, so that no secret slips through by its spelling.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_uppercase(), name.to_ascii_uppercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut is_exact = true;
    let mut last = first;
    for part in parts {
        is_exact = false;
        last = part;
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    if is_exact { rest.is_empty() } else { last.is_empty() || name.ends_with(last) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("A", "A", true),
            ("A", "AB", false),
            ("LC_*", "lc_all", true),
            ("*", "X", true),
            ("*_URL", "A_URL", true),
            ("*_URL", "A_URLS", false),
            ("A*C*E", "ABCDE", true),
            ("A*C", "AB", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_missing_comes_back_and_nothing_is_overridden() {
        let redacted = format!("--token={}", redact::REDACTED);
        let launched = [
            ("VIRTUAL_ENV", "/v"),
            ("LANG", "C"),
            ("TERM", "xterm"),
            ("CLAUDECODE", "1"),
            ("XDG_RUNTIME_DIR", "/run"),
            ("A=B", "c"),
            ("NODE_OPTIONS", &*redacted),
        ];
        let launched = launched.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = missing(&launched, &|name| name == "LANG");
        assert_eq!(found, [("VIRTUAL_ENV".to_owned(), OsString::from("/v"))]);
        assert_eq!(missing(&BTreeMap::new(), &|_| false), []);
    }

    #[test]
    fn a_session_without_a_process_keeps_the_variables_of_its_work() {
        let pairs = |all: &[(&str, &str)]| all.iter().map(|(n, v)| (OsString::from(n), OsString::from(v))).collect::<Vec<_>>();
        let environment = serde_json::json!({ "variables": {
            "VIRTUAL_ENV": "/v", "HOME": "/elsewhere", "MY_MODE": "quick", "OTHER": "1", "ANTHROPIC_BASE_URL": "https://[redacted]@h",
        }});
        let own =
            pairs(&[("GOPATH", "/foreign"), ("HOME", "/home"), ("MY_MODE", "slow"), ("UNKNOWN", "2"), ("VIRTUAL_ENV", "/w")]);
        let mut found = recorded(own.clone(), Some(&environment), &["MY_*".into()]);
        found.sort();
        let work = [("ANTHROPIC_BASE_URL", "https://[redacted]@h"), ("MY_MODE", "quick"), ("VIRTUAL_ENV", "/v")];
        assert_eq!(found, pairs(&[&work[..1], &[("HOME", "/home")], &work[1..2], &[("UNKNOWN", "2")], &work[2..]].concat()));
        assert_eq!(kept(&found, &[], &[])["ANTHROPIC_BASE_URL"], "https://[redacted]@h");
        assert_eq!(recorded(own.clone(), None, &[]), own);
    }

    #[test]
    fn the_list_of_what_is_never_kept_wins() {
        let given = [
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "a"),
            ("ANTHROPIC_BASE_URL", "https://u:p@h"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "b"),
            ("OTHER", "c"),
            ("MY_MODE", "d"),
            ("MY_SECRET", "e"),
            ("LANG", "f"),
            ("CLAUDECODE", "1"),
            ("PARHELIA_RUN_ID", "g"),
            ("PWD", "/"),
        ];
        let mut given: Vec<_> = given.map(|(name, value)| (OsString::from(name), OsString::from(value))).to_vec();
        given.push(("TERM".into(), OsString::from_vec(vec![0xff])));
        let kept = kept(&given, &["MY_*".into(), "*TOKEN".into()], &["lang".into()]);
        let kept: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(kept, [("ANTHROPIC_BASE_URL", "https://[redacted]@h"), ("MY_MODE", "d"), ("PATH", "/bin")]);
    }
}
