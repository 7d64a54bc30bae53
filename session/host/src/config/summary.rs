//! Summaries by a model: the command or the API that is asked, and how much it may take.
//!
//! None of it can be set by a project, nor by a variable, which an agent's settings in a project may bring: a cloned repository must neither
//! run a command nor say where conversations are sent.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};

/// Fewer tokens would leave no room for a conversation behind the words that say what is wanted.
const INPUT_TOKENS_MIN: u64 = 500;
/// An answer of fewer tokens says nothing.
const OUTPUT_TOKENS_MIN: u64 = 50;

/// Options of summaries by a model. There are none unless `command` or `url` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The command that is asked: its program and arguments.
    pub command: Vec<String>,
    /// The address of the API that is asked.
    pub url: Option<String>,
    /// The form of that API.
    pub api: Option<Api>,
    /// The model's name there.
    pub model: Option<String>,
    /// The name of the environment variable with the API's key.
    pub key_variable: Option<String>,
    /// The time limit of an answer, in seconds.
    pub timeout_seconds: f64,
    /// The most tokens that the model is given.
    pub max_input_tokens: u64,
    /// The most tokens of its answer.
    pub max_output_tokens: u64,
    /// Minutes between two summaries of a session.
    pub every_minutes: u64,
}

/// The form of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, which many servers of other models have as well.
    OpenAi,
}

impl Api {
    /// Its name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Api::Anthropic => "anthropic",
            Api::OpenAi => "openai",
        }
    }
}

impl Summary {
    /// True if a model is asked.
    pub fn is_on(&self) -> bool {
        !self.command.is_empty() || self.url.is_some()
    }

    /// The time limit of an answer.
    pub fn timeout(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout_seconds).unwrap_or(Duration::from_secs(60))
    }

    /// The option that does not fit the others, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        self.fault_of_command().or_else(|| self.fault_of_api()).or_else(|| self.fault_of_limits())
    }

    fn fault_of_command(&self) -> Option<(&'static str, String)> {
        let program = self.command.first()?;
        if self.url.is_some() {
            return Some(("summary.command", "`command` and `url` exclude each other; remove one of them".into()));
        }
        let is_bad = program.is_empty() || program.contains('/') && !Path::new(program).is_absolute();
        is_bad.then(|| ("summary.command", format!("'{program}' is neither a name nor an absolute path")))
    }

    fn fault_of_limits(&self) -> Option<(&'static str, String)> {
        let limits = [
            ("summary.timeout_seconds", self.timeout_seconds > 0.0, "it must be more than 0".to_owned()),
            (
                "summary.max_input_tokens",
                self.max_input_tokens >= INPUT_TOKENS_MIN,
                format!("it must be {INPUT_TOKENS_MIN} or more"),
            ),
            (
                "summary.max_output_tokens",
                self.max_output_tokens >= OUTPUT_TOKENS_MIN,
                format!("it must be {OUTPUT_TOKENS_MIN} or more"),
            ),
        ];
        let bad = limits.into_iter().find(|(_, fits, _)| self.is_on() && !fits);
        bad.map(|(key, _, why)| (key, why))
    }

    fn fault_of_api(&self) -> Option<(&'static str, String)> {
        let Some(url) = &self.url else {
            let parts = [
                ("summary.api", self.api.is_some()),
                ("summary.model", self.model.is_some()),
                ("summary.key_variable", self.key_variable.is_some()),
            ];
            let alone = parts.into_iter().find(|(_, is_set)| *is_set);
            return alone.map(|(key, _)| (key, "it means nothing without `url`; set that, or remove this".into()));
        };
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Some(("summary.url", format!("'{url}' is no address; expected https://..., or http://... of this machine")));
        }
        if self.api.is_none() {
            return Some(("summary.url", "it needs `api` as well: \"anthropic\" or \"openai\"".into()));
        }
        if self.model.is_none() {
            return Some(("summary.url", "it needs `model` as well, the model's name".into()));
        }
        let is_bad = |name: &&String| !is_variable(name);
        let bad = self.key_variable.as_ref().filter(is_bad);
        // It may be the key itself, which belongs in no message.
        bad.map(|_| {
            ("summary.key_variable", "it is no name of an environment variable; a key itself does not belong here".into())
        })
    }
}

fn is_variable(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(is_word) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(change: impl FnOnce(&mut Summary)) -> Option<(&'static str, String)> {
        let mut options = Summary { timeout_seconds: 60.0, max_input_tokens: 8000, max_output_tokens: 800, ..Summary::default() };
        change(&mut options);
        options.fault()
    }

    fn api(options: &mut Summary) {
        options.url = Some("https://api.example/v1/messages".into());
        (options.api, options.model) = (Some(Api::Anthropic), Some("m".into()));
    }

    #[test]
    fn a_command_or_an_api_is_asked() {
        assert_eq!(fault(|_| {}), None);
        assert_eq!(fault(|options| options.command = vec!["llm".into(), "a/b".into()]), None);
        assert_eq!(fault(api), None);
        let both = fault(|options| {
            api(options);
            options.command = vec!["llm".into()];
        });
        assert!(both.is_some_and(|(key, why)| key == "summary.command" && why.contains("exclude each other")));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = |change: &dyn Fn(&mut Summary)| fault(|options| change(options)).map(|(key, _)| key);
        assert_eq!(refused(&|options| options.command = vec!["./llm".into()]), Some("summary.command"));
        let limited = |input| {
            refused(&|options| {
                options.command = vec!["llm".into()];
                options.max_input_tokens = input;
            })
        };
        assert_eq!((limited(499), limited(500)), (Some("summary.max_input_tokens"), None));
        assert_eq!(refused(&|options| options.model = Some("m".into())), Some("summary.model"));
        assert_eq!(refused(&|options| options.url = Some("https://x".into())), Some("summary.url"));
        let with = |change: fn(&mut Summary)| {
            refused(&|options| {
                api(options);
                change(options);
            })
        };
        assert_eq!(with(|options| options.url = Some("file:///etc/passwd".into())), Some("summary.url"));
        assert_eq!(with(|options| options.key_variable = Some("sk-ant-0123".into())), Some("summary.key_variable"));
        assert_eq!(with(|options| options.key_variable = Some("ANTHROPIC_API_KEY".into())), None);
    }
}
