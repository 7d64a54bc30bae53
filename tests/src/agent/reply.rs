//! Answers of our API, as the events that the real one sends.

use serde_json::{Value, json};

/// A block of a message.
#[derive(Clone, Debug)]
pub enum Block {
    /// Text.
    Text(String),
    /// A call of a tool.
    Tool {
        /// The tool.
        name: String,
        /// Its input.
        input: Value,
    },
}

/// A block of text.
pub fn text(text: &str) -> Block {
    Block::Text(text.into())
}

/// A call of a tool.
pub fn tool(name: &str, input: Value) -> Block {
    Block::Tool { name: name.into(), input }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status; anything but 200 is an error, and has no blocks.
    pub status: u16,
    /// Blocks of the model's answer.
    pub blocks: Vec<Block>,
}

impl Reply {
    /// A message of some blocks.
    pub fn of(blocks: impl IntoIterator<Item = Block>) -> Self {
        Reply { status: 200, blocks: blocks.into_iter().collect() }
    }

    /// A message of text.
    pub fn text(words: &str) -> Self {
        Reply::of([text(words)])
    }

    /// An error.
    pub fn error(status: u16) -> Self {
        Reply { status, blocks: Vec::new() }
    }

    /// True if it calls tools.
    pub fn calls_tools(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Tool { .. }))
    }
}

/// The id of the message that answers a request, and of its blocks that call tools.
pub(super) fn message_id(number: usize) -> String {
    format!("msg_{number:04}")
}

pub(super) fn tool_id(number: usize, block: usize) -> String {
    format!("toolu_{number:04}_{block}")
}

/// Tokens that a message is said to have taken, each kind another number.
pub(super) fn usage(number: usize) -> Value {
    json!({
        "input_tokens": 100 + number,
        "output_tokens": 20 + number,
        "cache_creation_input_tokens": 7,
        "cache_read_input_tokens": 1000 * number,
    })
}

/// The events of an answer.
pub(super) fn events(reply: &Reply, number: usize, model: &Value) -> String {
    let mut out = String::new();
    let mut event = |fields: Value| {
        let kind = fields["type"].as_str().unwrap_or_default().to_owned();
        out.push_str(&format!("event: {kind}\ndata: {fields}\n\n"));
    };
    // The API says how much was written only when all is written.
    let mut begun = usage(number);
    begun["output_tokens"] = json!(1);
    let message = json!({"id": message_id(number), "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": begun});
    event(json!({"type": "message_start", "message": message}));
    for (index, block) in reply.blocks.iter().enumerate() {
        let (start, delta) = match block {
            Block::Text(text) => (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text})),
            Block::Tool { name, input } => (
                json!({"type": "tool_use", "id": tool_id(number, index), "name": name, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            ),
        };
        event(json!({"type": "content_block_start", "index": index, "content_block": start}));
        event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        event(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if reply.calls_tools() { "tool_use" } else { "end_turn" };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20 + number}}));
    event(json!({"type": "message_stop"}));
    out
}

/// The one event of an answer of the Gemini API.
pub(super) fn generated(reply: &Reply, number: usize) -> String {
    let part = |block: &Block| match block {
        Block::Text(words) => json!({ "text": words }),
        Block::Tool { name, input } => json!({ "functionCall": { "name": name, "args": input } }),
    };
    let parts: Vec<Value> = reply.blocks.iter().map(part).collect();
    let answer = json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13 },
        "responseId": message_id(number),
    });
    format!("data: {answer}\n\n")
}

/// The events of an answer of the Responses API.
pub(super) fn responses(reply: &Reply, number: usize) -> String {
    let id = format!("resp_{number}");
    let mut events = vec![json!({ "type": "response.created", "response": { "id": id } })];
    for (index, block) in reply.blocks.iter().enumerate() {
        let item = match block {
            Block::Text(words) => json!({
                "type": "message", "role": "assistant", "id": format!("msg_{number}_{index}"),
                "content": [{ "type": "output_text", "text": words }],
            }),
            Block::Tool { name, input } => json!({
                "type": "function_call", "id": format!("fc_{number}_{index}"), "call_id": tool_id(number, index), "name": name,
                "arguments": input.to_string(),
            }),
        };
        events.push(json!({ "type": "response.output_item.done", "item": item }));
    }
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": null, "output_tokens": 3, "output_tokens_details": null, "total_tokens": 13,
    });
    events.push(json!({ "type": "response.completed", "response": { "id": id, "usage": usage } }));
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())).collect()
}
