//! Channels of notifications: Slack, Discord, mail, ntfy, and any program over HTTP.
//!
//! A secret stands in no configuration file: it is `${NAME}` of an environment variable, or in a file of its own.

use std::{collections::BTreeMap, ffi::OsString, fs, path::PathBuf};

use parhelia_store::name::NameExt as _;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// A longer file holds no secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// A place to which notifications are sent; `type` in the configuration names its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Channel {
    /// An incoming webhook of Slack.
    Slack(Hook),
    /// A webhook of Discord.
    Discord(Hook),
    /// A topic of ntfy.
    Ntfy(Ntfy),
    /// A program that takes requests.
    Webhook(Webhook),
    /// Mail.
    Email(Email),
}

/// A webhook whose address is a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// Its address.
    #[serde(default)]
    pub webhook_url: Option<Variable>,
    /// The file with its address.
    #[serde(default)]
    pub webhook_url_file: Option<PathBuf>,
    /// The name under which messages appear.
    #[serde(default)]
    pub username: Option<String>,
}

/// A topic of ntfy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ntfy {
    /// The server's address.
    #[serde(default = "ntfy_server")]
    pub server: String,
    /// The topic, which whoever knows can read.
    pub topic: String,
    /// The token of a user of the server.
    #[serde(default)]
    pub token: Option<Variable>,
    /// The file with the token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

fn ntfy_server() -> String {
    "https://ntfy.sh".into()
}

/// A program that takes requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its address.
    #[serde(default)]
    pub url: Option<String>,
    /// The file with its address.
    #[serde(default)]
    pub url_file: Option<PathBuf>,
    /// The secret with which requests are signed.
    #[serde(default)]
    pub secret: Option<Variable>,
    /// The file with the secret.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
}

/// Mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// The server's name.
    pub smtp_host: String,
    /// TCP port of the server; none for the usual one: 587 for STARTTLS, 465 for TLS, 25 without.
    #[serde(default)]
    pub smtp_port: Option<u16>,
    /// The protection of the connection.
    #[serde(default)]
    pub tls: Tls,
    /// The user's name there.
    #[serde(default)]
    pub username: Option<String>,
    /// The user's password there.
    #[serde(default)]
    pub password: Option<Variable>,
    /// The file with the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The sender.
    pub from_address: String,
    /// The receivers, separated by commas.
    pub to_address: String,
}

/// The protection of a connection to a mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// STARTTLS, without which no mail is sent; port 587 unless another one is given.
    #[default]
    Starttls,
    /// TLS from the beginning; port 465.
    Tls,
    /// None, to this machine alone; port 25.
    None,
}

/// A text with `${NAME}` of an environment variable in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Variable(String);

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if is_variable(&text) {
            return Ok(Variable(text));
        }
        let why = "a secret stands in no configuration: write \"${NAME}\" of an environment variable, or name a file of its own";
        Err(D::Error::custom(why))
    }
}

/// True if a text is a variable, and nothing else.
pub(super) fn is_whole(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['$', '{', '}']))
}

/// True if a text names a variable.
pub(super) fn is_variable(text: &str) -> bool {
    names(text).next().is_some()
}

impl Variable {
    /// The names of its environment variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        names(&self.0)
    }
}

/// The channels of a configuration, each with its type; that of one that is named after its type need not be given. Fails with what does not fit.
pub(super) fn checked(mut value: serde_json::Value) -> Result<serde_json::Value, String> {
    for (name, channel) in value.as_object_mut().into_iter().flatten() {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(format!("'{name}' is no name of a channel: use letters, digits, - and _"));
        }
        let fields = channel.as_object_mut().ok_or_else(|| format!("channel {name} is no table"))?;
        fields.entry("type").or_insert_with(|| name.as_str().into());
        let parsed = serde_json::from_value::<Channel>(fields.clone().into()).map_err(|e| format!("channel {name}: {e}"))?;
        if let Some(why) = parsed.fault() {
            return Err(format!("channel {name}: {why}"));
        }
    }
    Ok(value)
}

/// Variables that are no secret whatever names them, and that programs need.
const EVERYBODYS: [&str; 9] = ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// The names of all environment variables that a channel names, in whatever field.
pub(super) fn variables(channel: &Channel) -> Vec<String> {
    let fields = serde_json::to_value(channel).unwrap_or_default();
    let texts = fields.as_object().into_iter().flat_map(|fields| fields.values()).filter_map(|value| value.as_str());
    let all = texts.flat_map(|text| names(text).map(str::to_owned).collect::<Vec<_>>());
    all.filter(|name| !EVERYBODYS.contains(&name.as_str()) && !name.starts_with("XDG_")).collect()
}

impl Channel {
    /// The name of its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Channel::Slack(_) => "slack",
            Channel::Discord(_) => "discord",
            Channel::Ntfy(_) => "ntfy",
            Channel::Webhook(_) => "webhook",
            Channel::Email(_) => "email",
        }
    }

    fn fault(&self) -> Option<String> {
        let one = |name: &str, has: bool, has_file: bool| {
            (has == has_file).then(|| format!("it needs `{name}` or `{name}_file`, one of the two"))
        };
        let fault = |name: &str, variable: &Option<Variable>, file: &Option<PathBuf>| match variable {
            Some(_) if file.is_some() => Some(format!("`{name}` and `{name}_file` exclude each other")),
            Some(Variable(text)) if !is_whole(text) => {
                Some(format!("`{name}` is \"${{NAME}}\" of an environment variable, and nothing beside it"))
            }
            _ => None,
        };
        match self {
            Channel::Slack(hook) | Channel::Discord(hook) => {
                one("webhook_url", hook.webhook_url.is_some(), hook.webhook_url_file.is_some())
            }
            Channel::Webhook(hook) => one("url", hook.url.is_some(), hook.url_file.is_some())
                .or_else(|| fault("secret", &hook.secret, &hook.secret_file)),
            Channel::Ntfy(ntfy) => fault("token", &ntfy.token, &ntfy.token_file),
            Channel::Email(email) => fault("password", &email.password, &email.password_file),
        }
    }
}

type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A secret, from its variable or its file; none where neither is given. Fails with the reason, which does not tell the secret.
pub fn secret(variable: Option<&Variable>, file: Option<&PathBuf>, env: Env) -> Result<Option<String>, String> {
    if let Some(Variable(text)) = variable {
        return filled(text, env).map(Some);
    }
    let Some(path) = file else { return Ok(None) };
    let failed = |e: std::io::Error| format!("cannot read {}: {e}", path.shown());
    if fs::metadata(path).map_err(failed)?.len() > SECRET_BYTES_MAX {
        return Err(format!("{} is too long for a secret", path.shown()));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.shown())),
        text => Ok(Some(text.to_owned())),
    }
}

/// A text with each `${NAME}` replaced by the variable's value. Fails with the name of one that is not set.
pub fn filled(text: &str, env: Env) -> Result<String, String> {
    let mut done = text.to_owned();
    for name in names(text) {
        let value = env(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("the environment variable {name} is not set"))?;
        done = done.replace(&format!("${{{name}}}"), &value);
    }
    Ok(done)
}

/// The names of the variables in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split("${").skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).filter(|name| !name.is_empty())
}

/// Channels by the names that `[notifications.channels]` gives them.
pub type Channels = BTreeMap<String, Channel>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_channel_that_cannot_work_is_no_configuration() {
        let refused = |channel| checked(json!({ "slack": channel })).unwrap_err();
        assert!(refused(json!({})).contains("`webhook_url` or `webhook_url_file`"));
        assert!(refused(json!({"webhook_url": "https://hooks.slack.com/services/secret"})).contains("${NAME}"));
        assert!(refused(json!({"webhook_url": "${A}", "color": "red"})).contains("color"));
        for secret in ["whsec_bGl0ZXJhbA==${A}", "${A}${B}", "${}"] {
            let webhook = json!({"type": "webhook", "url": "https://x", "secret": secret});
            assert!(checked(json!({ "mine": webhook })).is_err(), "{secret}");
        }
        assert!(checked(json!({"../x": {"type": "ntfy", "topic": "t"}})).unwrap_err().contains("no name"));
        assert!(refused(json!({"type": "pager"})).contains("pager"));
        assert!(refused(json!({"type": "email", "smtp_host": "h", "from_address": "a@b"})).contains("to_address"));
        let mine: Channel = serde_json::from_value(json!({"type": "ntfy", "topic": "${USER}-${T}", "token": "${A}"})).unwrap();
        assert_eq!(variables(&mine).into_iter().collect::<std::collections::BTreeSet<_>>(), ["A", "T"].map(str::to_owned).into());
        let fine = checked(json!({"slack": {"webhook_url": "${A}"}, "mine": {"type": "webhook", "url": "https://x"}})).unwrap();
        assert_eq!(fine["slack"]["type"], "slack");
    }

    #[test]
    fn secrets_come_from_variables_and_files_alone() {
        let env = |name: &str| (name == "A").then(|| OsString::from("value"));
        assert_eq!(filled("https://x/${A}?${A}", &env).unwrap(), "https://x/value?value");
        assert!(filled("${A}${B}", &env).unwrap_err().contains("variable B is not set"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(secret(None, Some(&path), &env).unwrap_err().contains("secret"));
        fs::write(&path, " word\n").unwrap();
        assert_eq!(secret(None, Some(&path), &env).unwrap().as_deref(), Some("word"));
        assert_eq!(secret(Some(&Variable("${A}".into())), None, &env).unwrap().as_deref(), Some("value"));
        assert_eq!(secret(None, None, &env).unwrap(), None);
    }
}
