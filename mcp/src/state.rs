//! The convention by which servers hand out their state and take it back: a resource and a tool (`docs/mcp.md`).

use parhelia_host::mcp::{State, StateReply};
use parhelia_life::mcp::live::ARGUMENT;
use serde_json::{Value, json};

/// The reason of a server that has none.
pub const NONE: &str = "it has no resource checkpoint://state";
/// The codes by which servers say that they do not know a resource, or resources at all.
pub const UNKNOWN: [i64; 3] = [-32602, -32601, -32002];

/// True of the words with which servers say that they do not know a resource, where they have no code for it.
pub fn is_unknown(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("unknown resource") || (message.contains("resource") && message.contains("not found"))
}

/// The state in the result of `resources/read`. Fails where it is not exactly one, or too long.
pub fn of(result: &Value, bytes_max: u64) -> Result<StateReply, String> {
    let contents = result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let [content] = contents else {
        return Err(format!("its state must be one content, and has {}", contents.len()));
    };
    let field = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let (text, is_base64) = match (field("text"), field("blob")) {
        (Some(text), _) => (text, false),
        (None, Some(blob)) => (blob, true),
        (None, None) => return Err("its state is neither text nor bytes".into()),
    };
    if text.len() as u64 > bytes_max {
        return Err(format!("its state has {} bytes, and {bytes_max} are kept at most (`mcp.max_state_bytes`)", text.len()));
    }
    Ok(StateReply::State(State { text, mime_type: field("mimeType"), is_base64 }))
}

/// The arguments of the tool: the state as text, unless the tool asks for the object that the text has.
pub fn arguments(tool: &Value, state: &State) -> Value {
    let kind = tool.pointer(&format!("/inputSchema/properties/{ARGUMENT}/type")).and_then(Value::as_str);
    let parsed = kind.filter(|kind| *kind != "string" && !state.is_base64).and_then(|_| serde_json::from_str(&state.text).ok());
    json!({ ARGUMENT: parsed.unwrap_or_else(|| Value::from(state.text.as_str())) })
}

/// The words of a tool that failed.
pub fn refused(result: &Value) -> Option<String> {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or("it gave no reason");
    is_error.then(|| format!("it answered: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_one_content_that_is_not_too_long() {
        let of = |result: Value| of(&result, 5);
        let state = |text: &str, mime_type: Option<&str>, is_base64| {
            Ok(StateReply::State(State { text: text.into(), mime_type: mime_type.map(str::to_owned), is_base64 }))
        };
        assert_eq!(of(json!({"contents": [{"uri": "x", "text": "{}", "mimeType": "a/b"}]})), state("{}", Some("a/b"), false));
        assert_eq!(of(json!({"contents": [{"uri": "x", "blob": "AAA="}]})), state("AAA=", None, true));
        for wrong in [
            json!({}),
            json!({"contents": []}),
            json!({"contents": [{"text": "a"}, {"text": "b"}]}),
            json!({"contents": [{"text": 1}]}),
            json!({"contents": [{"text": "123456"}]}),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tool_gets_text_unless_it_asks_for_an_object() {
        let state = |text: &str, is_base64| State { text: text.into(), mime_type: None, is_base64 };
        let tool = |kind: &str| json!({"inputSchema": {"properties": {"state": {"type": kind}}}});
        assert_eq!(arguments(&tool("string"), &state("{\"a\": 1}", false)), json!({"state": "{\"a\": 1}"}));
        assert_eq!(arguments(&json!({}), &state("{\"a\": 1}", false)), json!({"state": "{\"a\": 1}"}));
        assert_eq!(arguments(&tool("object"), &state("{\"a\": 1}", false)), json!({"state": {"a": 1}}));
        assert_eq!(arguments(&tool("object"), &state("no JSON", false)), json!({"state": "no JSON"}));
        assert_eq!(arguments(&tool("object"), &state("1234", true)), json!({"state": "1234"}));
    }
}
