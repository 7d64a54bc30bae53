//! Models that are asked over HTTP for a summary: Anthropic's Messages API, and OpenAI's Chat Completions API, which many servers of other
//! models have as well.

use std::ffi::OsString;

use parhelia_host::config::{Summary, summary::Api};
use parhelia_knowledge::summary::model::Question;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::http::{self, Answer, Call, Trouble};

/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// The field that bounds an answer, and the one that newer models of OpenAI take in its place. Many servers know the older one alone.
const MAX_TOKENS: &str = "max_tokens";
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

/// The answer of the API that is configured. Fails with a reason, in which the key is not.
pub fn ask(options: &Summary, question: &Question, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<String, String> {
    let key = options.key_variable.as_ref().map(|name| key(name, variable)).transpose()?;
    let asked = ApiRequest { options, question, key: key.as_deref() };
    let answered = asked.answer();
    answered.map_err(|trouble| match &key {
        Some(key) => trouble.without(key).why,
        None => trouble.why,
    })
}

fn key(name: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<String, String> {
    let value = variable(name).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| format!("the environment variable {name} with the API's key is not set"))?;
    value.into_string().map_err(|_| format!("the environment variable {name} with the API's key is not valid UTF-8"))
}

struct ApiRequest<'a> {
    options: &'a Summary,
    question: &'a Question,
    key: Option<&'a str>,
}

impl ApiRequest<'_> {
    fn answer(&self) -> Result<String, Trouble> {
        let answer = match self.options.api {
            Some(Api::OpenAi) => {
                let answer = self.call(MAX_TOKENS)?;
                match answer.status == 400 && answer.body.contains(MAX_COMPLETION_TOKENS) {
                    true => self.call(MAX_COMPLETION_TOKENS)?,
                    false => answer,
                }
            }
            _ => self.call(MAX_TOKENS)?,
        };
        let body: Option<Value> = serde_json::from_str(&answer.body).ok();
        if let Err(trouble) = answer.judged() {
            let words = body.as_ref().and_then(|body| body.pointer("/error/message")).and_then(Value::as_str);
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            return Err(Trouble { why: format!("{}{words}", trouble.why), ..trouble });
        }
        let text = body.as_ref().and_then(|body| self.text(body));
        text.ok_or_else(|| Trouble::for_now("its answer has no text; check `summary.url` and `summary.api`"))
    }

    fn call(&self, bound: &str) -> Result<Answer, Trouble> {
        let (model, bound_tokens) = (&self.options.model, self.options.max_output_tokens);
        let Question { instruction, text } = self.question;
        let user = json!({ "role": "user", "content": text });
        let mut headers = Vec::new();
        let mut bearer = String::new();
        let body = match self.options.api {
            Some(Api::OpenAi) => {
                bearer.extend(self.key.map(|key| format!("Bearer {key}")));
                headers.extend(self.key.map(|_| ("Authorization", bearer.as_str())));
                let system = json!({ "role": "system", "content": instruction });
                json!({ "model": model, bound: bound_tokens, "messages": [system, user] })
            }
            _ => {
                headers.push(("anthropic-version", ANTHROPIC_VERSION));
                headers.extend(self.key.map(|key| ("x-api-key", key)));
                json!({ "model": model, bound: bound_tokens, "system": instruction, "messages": [user] })
            }
        };
        http::call(&Call {
            // The user has named this machine: a conversation goes without TLS to no other one.
            insecure_loopback: true,
            method: Method::POST,
            address: self.options.url.as_deref().unwrap_or_default(),
            headers: &headers,
            body: Some(&body.to_string()),
            limit: self.options.timeout(),
        })
    }

    /// The text of an answer.
    fn text(&self, body: &Value) -> Option<String> {
        match self.options.api {
            Some(Api::OpenAi) => body.pointer("/choices/0/message/content").and_then(Value::as_str).map(str::to_owned),
            _ => {
                let blocks = body["content"].as_array()?.iter().filter(|block| block["type"] == "text");
                let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
                (!texts.is_empty()).then(|| texts.concat())
            }
        }
    }
}
