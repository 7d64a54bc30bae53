//! The conversation of an older checkpoint: a transcript, or the messages of `conversation.json`, with an index as every checkpoint has it.
//!
//! No agent goes on with it: the record names no conversation of an agent, as that would be taken for one that was had here.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use parhelia_agent::transcript::{Conversation, Turn, conversation::Capture as Indexed, files::TRANSCRIPT, prefix::Check};
use parhelia_store::{
    Store,
    create::CapturedState,
    files::{self, How},
    id::OpId,
    record::Part,
};
use serde_json::{Map, Value, json};

use super::{IMPORTED, fields::Fields, manifest::Manifest, put};
use parhelia_host::{Result, conversation::STREAM, error::IoContext, state::CONVERSATION};

/// The longest beginning of the system prompt in the index, in bytes; the file that was imported has all of it.
const PROMPT_BYTES_MAX: usize = 16 << 10;

/// The field that says whether an agent could go on with the conversation where it was had.
const RESUMABLE: &str = "has_resume_token";

/// The field with the id of the model's last message. The index knows it only of messages that name their model.
const LAST_MESSAGE: &str = "last_message_id";

/// The conversation in a folder.
#[derive(Clone, Debug, Default)]
pub(super) struct ImportedConversation {
    /// The transcript: lines of JSON.
    transcript: Vec<u8>,
    /// Fields of the index that `conversation.json` tells.
    summary: Map<String, Value>,
    /// The place that the transcript comes from.
    source: &'static str,
}

impl ImportedConversation {
    /// Reads `conversation.json`, and takes the transcript that lies beside it before its messages.
    pub(super) fn read(document: Option<(&Path, &Value)>, transcript: Option<Vec<u8>>) -> Result<Self> {
        let mut told = ImportedConversation::default();
        if let Some((file, document)) = document {
            // Some programs write the list of messages alone.
            let listed = document.is_array().then(|| json!({ "messages": document }));
            let fields = Fields::of(file, listed.as_ref().unwrap_or(document))?;
            told.summary = summary(&fields)?;
            told.source = "conversation.json";
            for message in fields.objects("messages")? {
                let line = line(&message)?;
                if let Some(id) = line["message"].get("id").filter(|id| id.is_string() && line["type"] == "assistant") {
                    told.summary.insert(LAST_MESSAGE.into(), id.clone());
                }
                told.transcript.extend_from_slice(line.to_string().as_bytes());
                told.transcript.push(b'\n');
            }
        }
        if let Some(transcript) = transcript {
            (told.transcript, told.source) = (transcript, TRANSCRIPT);
        }
        Ok(told)
    }

    /// Gives the conversation to a checkpoint. The manifest's counters go before those of the index.
    pub(super) fn take(self, store: &Store, manifest: &Manifest, captured: &mut CapturedState) -> Result<()> {
        let ImportedConversation { mut transcript, summary: told, source } = self;
        let (mut record, mut usage, mut summary) = (Map::new(), Map::new(), Map::new());
        let mut turns: Vec<Turn> = Vec::new();
        let bytes = transcript.len();
        if !transcript.is_empty() {
            let indexed = index(store, &transcript)?;
            let found = indexed.conversation.summary();
            transcript.truncate(found.transcript_bytes as usize);
            (record, usage, summary) = (object(found.record_conversation()), object(found.record_usage()), object(json!(found)));
            turns.extend(indexed.conversation.main.turns);
            if found.tokens_used == 0 {
                // Messages that tell no tokens did not use none.
                [&mut record, &mut summary].into_iter().for_each(|fields| drop(fields.insert("tokens_used".into(), Value::Null)));
                usage.insert("tokens".into(), Value::Null);
            }
        }
        record.insert(RESUMABLE.into(), told.get(RESUMABLE).cloned().unwrap_or_default());
        if let Some(last) = told.get(LAST_MESSAGE) {
            record.insert(LAST_MESSAGE.into(), last.clone());
        }
        // By these, the conversation would be one of this machine's agent.
        record.insert("agent_session_id".into(), Value::Null);
        record.insert(STREAM.into(), Value::Null);
        record.extend(manifest.conversation.clone());
        usage.extend(manifest.usage.clone());
        summary.extend(told.into_iter().chain(manifest.conversation.clone()).filter(|(_, value)| !value.is_null()));
        let is_known = !summary.is_empty();
        captured.conversation = is_known.then(|| record.into());
        captured.usage = (!usage.is_empty()).then(|| usage.into());
        if !is_known {
            return Ok(());
        }
        let path = format!("{CONVERSATION}/{TRANSCRIPT}");
        let has_transcript = !transcript.is_empty();
        let listed = json!({ "path": path, "source": source, "bytes": transcript.len(), "torn_bytes": bytes - transcript.len() });
        let index = json!({
            "schema": 1,
            "captured_at": manifest.created_at.map(|at| at.to_string()),
            "summary": summary,
            "turns": turns,
            "files": if has_transcript { vec![listed] } else { Vec::new() },
            "left_out": [],
        });
        // The part is its transcript: without one, a verification would miss that.
        let part = if has_transcript { CONVERSATION } else { IMPORTED };
        put(captured, part, format!("{CONVERSATION}.json"), serde_json::to_vec_pretty(&index).unwrap_or_default());
        if has_transcript {
            put(captured, part, path, transcript);
            captured.parts.insert(CONVERSATION.into(), Part::Captured);
        }
        Ok(())
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

/// Fields of the index that the state of a conversation has.
fn summary(fields: &Fields<'_>) -> Result<Map<String, Value>> {
    let prompt = fields.long_text("system_prompt")?.map(|text| &text[..text.floor_char_boundary(PROMPT_BYTES_MAX)]);
    let objects = |name: &str| -> Result<Option<Value>> {
        let known = fields.value(name).cloned();
        fields.objects(name).map(|_| known)
    };
    let known = [
        ("agent_session_id", fields.text("session_id")?.map(Value::from)),
        (RESUMABLE, fields.value("resume_token").map(|_| true.into())),
        ("system_prompt", prompt.map(Value::from)),
        ("loaded_files", fields.texts("loaded_files")?.map(Value::from)),
        ("pending_tool_calls", objects("pending_tool_calls")?),
        ("todos", objects("todos")?),
    ];
    Ok(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// A message as a line of what a headless agent prints, which it was once made of.
fn line(message: &Fields<'_>) -> Result<Value> {
    if message.value("message").is_some() {
        return Ok(Value::Object(message.all().map(|(name, value)| (name.clone(), value.clone())).collect()));
    }
    let role = message.text("role")?.or(message.text("type")?).unwrap_or_default();
    let role = match role.as_str() {
        "human" => "user",
        "ai" => "assistant",
        role => role,
    };
    let is_content = |value: &&Value| value.is_string() || value.is_array();
    let mut body = json!({ "role": role, "content": message.value("content").filter(is_content).cloned().unwrap_or("".into()) });
    for name in ["id", "model", "usage"] {
        if let Some(value) = message.value(name) {
            body[name] = value.clone();
        }
    }
    let mut line = json!({ "type": role, "message": body });
    for (name, known) in [("uuid", ["uuid", "id"]), ("timestamp", ["timestamp", "created_at"])] {
        if let Some(value) = known.into_iter().find_map(|known| message.value(known)).filter(|value| value.is_string()) {
            line[name] = value.clone();
        }
    }
    Ok(line)
}

/// A file that is gone once it was read.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = files::remove(&self.0);
    }
}

/// The index of a transcript, which is read from a file.
fn index(store: &Store, transcript: &[u8]) -> Result<Indexed> {
    let temporary = Temporary(store.layout().cache().join(format!("{}.tmp", OpId::generate())));
    let path = &temporary.0;
    let mut file = files::open(path, How::New).at("create", path)?;
    file.write_all(transcript).at("write", path)?;
    Ok(Conversation::capture_stream(None, path, Check::Seam)?)
}
