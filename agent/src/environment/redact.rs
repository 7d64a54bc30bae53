//! Taking credentials out of what is kept: names and values by rules that would rather take too much.
//!
//! Transcripts and terminal scrollback are kept as they are; this is for what parhelia itself writes down of an environment.

use serde_json::{Map, Value};

/// The text that replaces a credential.
pub const REDACTED: &str = "[redacted]";

/// Parts of names that hold secrets, in upper case.
const SECRET_PARTS: [&str; 19] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE",
    "AUTH",
    "COOKIE",
    "BEARER",
    "SIGNATURE",
    "WEBHOOK",
    "DSN",
    "CONNECTION_STRING",
    "DATABASE_URL",
    "HEADER",
];
/// Whole words of names that hold secrets.
const SECRET_WORDS: [&str; 7] = ["KEY", "KEYS", "PAT", "PW", "PWD", "PASS", "SALT"];

/// Prefixes of the tokens of well-known services.
const TOKEN_PREFIXES: [&str; 16] = [
    "sk-",
    "pk-",
    "rk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "npm_",
    "pypi-",
    "AKIA",
];
const TOKEN_BYTES_MIN: usize = 16;

/// True if a name (of a variable, a flag, a header, a field) suggests a secret. Case is ignored; words end at anything but a letter
/// or digit.
pub fn is_secret_name(name: &str) -> bool {
    let spread = name.chars().zip(name.chars().skip(1).chain([' '])).fold(String::new(), |mut out, (c, next)| {
        out.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        if c.is_ascii_lowercase() && next.is_ascii_uppercase() {
            out.push('_');
        }
        out
    });
    // The working directory is no password.
    if matches!(spread.as_str(), "PWD" | "OLDPWD") {
        return false;
    }
    let joined = spread.replace('_', "");
    SECRET_PARTS.iter().any(|part| spread.contains(part) || joined.contains(&part.replace('_', "")))
        || spread.split('_').any(|word| SECRET_WORDS.contains(&word))
}

/// Words before a credential.
const SCHEMES: [&str; 3] = ["Bearer", "Basic", "Token"];

/// A text without the credentials that stand in it: in URLs, behind `Bearer`, and tokens of well-known services.
pub fn text(text: &str) -> String {
    redacted(text, |_, word, _| SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)))
}

/// The same of what people and programs say, where `Basic` and `token` are mostly words: they count behind `Authorization:`, and `Bearer`
/// before what is no word. Values of flags are taken out as well.
pub fn prose(text: &str) -> String {
    redacted(text, |before, word, behind| {
        let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        let is_header = before.trim_end_matches(':').to_ascii_lowercase().ends_with("authorization");
        let is_word = behind.len() < TOKEN_BYTES_MIN && behind.chars().all(char::is_alphabetic);
        let is_flag = word.starts_with("--") && word != "--author" && !word.contains('=') && is_secret_name(word);
        is_scheme && (is_header || word.eq_ignore_ascii_case("Bearer") && !is_word) || is_flag && !behind.starts_with('-')
    })
}

/// A text without credentials. `is_before` tells of a word, with the ones before and behind it, whether it announces one.
fn redacted(text: &str, is_before: impl Fn(&str, &str, &str) -> bool) -> String {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';');
    let mut out = String::with_capacity(text.len());
    let (mut before, mut last) = ("", "");
    for part in text.split_inclusive(is_end) {
        let word = part.trim_end_matches(is_end);
        if word.is_empty() {
            out.push_str(part);
            continue;
        }
        match is_before(before, last, word) {
            true => out.push_str(REDACTED),
            false => out.push_str(&self::word(word)),
        }
        (before, last) = (last, word);
        out.push_str(&part[word.len()..]);
    }
    out
}

/// One word without credentials, such as a URL or an assignment. It is never split as text is, because a password may hold a comma.
pub fn word(word: &str) -> String {
    if let Some(at) = word.find("://") {
        return url(word, at);
    }
    if let Some((name, value)) = word.split_once('=')
        && !value.is_empty()
    {
        let value = if is_secret_name(name) { REDACTED.to_owned() } else { self::word(value) };
        return format!("{name}={value}");
    }
    if is_token(word) { REDACTED.to_owned() } else { word.to_owned() }
}

/// True if a word looks like a token of a well-known service.
fn is_token(word: &str) -> bool {
    word.len() >= TOKEN_BYTES_MIN && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// A URL without user and password, and without the values of query fields that hold secrets. `at` is where its `://` stands.
fn url(word: &str, at: usize) -> String {
    let (scheme, rest) = word.split_at(at + 3);
    let mut end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let (_, port) = rest[..end].rsplit_once(':').unwrap_or_default();
    // A password that nobody has quoted may hold a slash; what ends there is no port.
    if let Some(at) = rest.rfind('@').filter(|_| !rest[..end].contains('@') && !is_port(port)) {
        end = at + rest[at..].find(['/', '?', '#']).unwrap_or(rest.len() - at);
    }
    let (authority, path) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        // A user alone, as in ssh://git@host, is no secret.
        Some((user, host)) if !user.contains(':') && !is_token(user) && scheme.ends_with("ssh://") => format!("{user}@{host}"),
        Some((_, host)) => format!("{REDACTED}@{host}"),
        None => authority.to_owned(),
    };
    let (path, fragment) = path.split_once('#').map_or((path, None), |(path, fragment)| (path, Some(fragment)));
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let path = path.split('/').map(|part| if is_token(part) { REDACTED } else { part }).collect::<Vec<_>>().join("/");
    let query = query.map(|query| format!("?{}", fields(query))).unwrap_or_default();
    let fragment = fragment.map(|fragment| format!("#{}", fields(fragment))).unwrap_or_default();
    format!("{scheme}{authority}{path}{query}{fragment}")
}

/// Fields of a query, or of a fragment, without values that are secrets.
fn fields(text: &str) -> String {
    let fields = text.split('&').map(|field| match field.split_once('=') {
        Some((name, _)) if is_secret_name(name) => format!("{name}={REDACTED}"),
        Some((name, value)) if is_token(value) => format!("{name}={REDACTED}"),
        None if is_token(field) => REDACTED.to_owned(),
        _ => field.to_owned(),
    });
    fields.collect::<Vec<_>>().join("&")
}

/// Arguments without credentials: values of flags whose names say so, headers, assignments, and what [`text`] finds.
pub fn argv<S: AsRef<str>>(arguments: &[S]) -> Vec<String> {
    let mut is_secret = false;
    let mut out = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let argument = argument.as_ref();
        let was_secret = std::mem::take(&mut is_secret);
        if was_secret && !argument.starts_with('-') {
            out.push(REDACTED.to_owned());
            continue;
        }
        if let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.contains('=')) {
            is_secret = is_secret_name(flag);
        }
        out.push(match argument.split_once(": ") {
            Some((header, _)) if !header.contains(' ') && is_secret_name(header) => format!("{header}: {REDACTED}"),
            _ => text(argument),
        });
    }
    out
}

/// A configuration without credentials: fields whose names say so, all values of headers, arguments, and what [`text`] finds.
pub fn json(value: &Value) -> Value {
    match value {
        Value::String(string) => text(string).into(),
        Value::Array(values) => match values.iter().map(Value::as_str).collect::<Option<Vec<_>>>() {
            Some(arguments) => argv(&arguments).into(),
            None => values.iter().map(json).collect(),
        },
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, value)| (name.clone(), field(name, value))).collect()),
        other => other.clone(),
    }
}

fn field(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(headers) if name.eq_ignore_ascii_case("headers") => {
            let fields = headers.keys().map(|name| (name.clone(), Value::from(REDACTED)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Object(_) => json(value),
        _ if is_secret_name(name) => REDACTED.into(),
        _ => json(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_hold_secrets() {
        for name in [
            "ANTHROPIC_API_KEY",
            "apiKey",
            "aws_secret_access_key",
            "GITHUB_TOKEN",
            "db-password",
            "Authorization",
            "CLIENT_SECRET",
            "MY_KEY",
            "AWS_SESSION_TOKEN",
            "NPM_AUTH",
            "sshPrivateKey",
            "DATABASE_URL",
            "SLACK_WEBHOOK_URL",
            "PGPASSWORD",
            "ANTHROPIC_CUSTOM_HEADERS",
            "api-key",
            "GH_PAT",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "HOME", "PWD", "LANG", "EDITOR", "KEYBOARD_LAYOUT", "MONKEY", "PYTHONPATH", "COMPAT", "TERM"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn credentials_in_text() {
        for (from, to) in [
            ("https://user:pw@host/a.git", "https://[redacted]@host/a.git"),
            ("https://ghp_abcdefghijkl@host/a", "https://[redacted]@host/a"),
            ("ssh://git@host/a.git", "ssh://git@host/a.git"),
            ("git@host:a.git", "git@host:a.git"),
            ("https://h/p?api_key=abc&x=1#y", "https://h/p?api_key=[redacted]&x=1#y"),
            ("see https://a:b@c/d, and e", "see https://[redacted]@c/d, and e"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
            ("PASSWORD=x --flag", "PASSWORD=[redacted] --flag"),
            ("sk-ant-api03-abcdefghijklmnop", "[redacted]"),
            ("sk-short plain", "sk-short plain"),
            ("postgres://u:p@h:5/db", "postgres://[redacted]@h:5/db"),
            ("https://u:p/w@h/a", "https://[redacted]@h/a"),
            ("https://h:8080/a@1", "https://h:8080/a@1"),
            ("ssh://ghp_abcdefghijkl@h/a", "ssh://[redacted]@h/a"),
            ("https://h/a#access_token=x&n=1", "https://h/a#access_token=[redacted]&n=1"),
        ] {
            assert_eq!(text(from), to, "{from}");
        }
        assert_eq!(word("git+https://u:a,b;c@h/r@v1#egg=n"), "git+https://[redacted]@h/r@v1#egg=n");
    }

    #[test]
    fn credentials_in_prose() {
        for (from, to) in [
            ("SyntaxError: Unexpected token } in Basic auth", "SyntaxError: Unexpected token } in Basic auth"),
            ("a Bearer token", "a Bearer token"),
            (
                "curl -H 'Authorization: token abc' -H \"authorization: Basic x\"",
                "curl -H 'Authorization: token [redacted]' -H \"authorization: Basic [redacted]\"",
            ),
            ("Bearer abc.def1", "Bearer [redacted]"),
            ("login --api-key abc --token --x", "login --api-key [redacted] --token --x"),
            ("API_KEY=abc make", "API_KEY=[redacted] make"),
            ("git commit --author me", "git commit --author me"),
        ] {
            assert_eq!(prose(from), to, "{from}");
        }
    }

    #[test]
    fn credentials_in_arguments() {
        let given =
            ["run", "--api-key", "abc", "--token=def", "-e", "SECRET=g", "-H", "X-Auth: h", "--verbose", "--key", "--next", "i"];
        let expected = [
            "run",
            "--api-key",
            REDACTED,
            "--token=[redacted]",
            "-e",
            "SECRET=[redacted]",
            "-H",
            "X-Auth: [redacted]",
            "--verbose",
            "--key",
            "--next",
            "i",
        ];
        assert_eq!(argv(&given), expected);
    }

    #[test]
    fn credentials_in_configuration() {
        let given = json!({
            "command": "npx", "args": ["-y", "server", "--token", "abc"], "env": {"API_KEY": "abc", "MODE": "fast"},
            "url": "https://u:p@h/", "headers": {"X-Any": "abc"}, "deep": [{"password": "abc", "n": 5}],
        });
        let kept = json(&given);
        assert!(!kept.to_string().contains("abc"), "{kept}");
        assert_eq!(
            (&kept["env"]["MODE"], &kept["deep"][0]["n"], &kept["args"][1]),
            (&json!("fast"), &json!(5), &json!("server"))
        );
    }
}
