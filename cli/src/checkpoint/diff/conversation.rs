//! `checkpoint diff --conversation`: what was said between two checkpoints.

use parhelia_agent::transcript::messages::{self, Message, Role};
use parhelia_store::{
    Store,
    blob::BlobReader,
    create::STATE_FOLDER,
    record::Checkpoint,
    tree::{Kind, Node},
};
use parhelia_wire::{Line, Summary};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human,
    output::Style,
};

/// Path of the transcript in a checkpoint.
const TRANSCRIPT: [&[u8]; 3] = [STATE_FOLDER.as_bytes(), b"conversation", b"transcript.jsonl"];
/// No more of a conversation is read than this, from its end.
const READ_BYTES_MAX: u64 = 64 << 20;
/// So much of each message is shown.
const TEXT_BYTES_MAX: usize = 4000;
/// So many bytes before the older end are compared, to tell whether the one conversation continues the other.
const SEAM_BYTES: u64 = 4096;

/// Prints the turns that the newer checkpoint has and the older one does not.
pub fn print(context: &mut Context, store: &Store, old: &Checkpoint, new: &Checkpoint) -> Result<Code> {
    let Some(newer) = transcript(store, new)? else {
        context.out.remark(format!("Checkpoint {} holds no conversation.", new.id()))?;
        context.out.summary(Summary::CheckpointDiffConversation {
            old: old.id(),
            new: new.id(),
            messages: 0,
            turns: 0,
            continues: false,
            bytes: 0,
        })?;
        return Ok(Code::Done);
    };
    let older = transcript(store, old)?;
    let from = match &older {
        Some(older) if continues(older, &newer)? => Some(older.size()),
        _ => None,
    };
    if from.is_none() && older.is_some() {
        context.out.remark("The conversation is another one, or was rewritten: all of the newer one is shown.")?;
    }
    let start = from.unwrap_or(0).max(newer.size().saturating_sub(READ_BYTES_MAX));
    let mut bytes = Vec::new();
    newer.read_range(start..newer.size(), |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    let mut said: Vec<Message> = Vec::new();
    let read = messages::read(bytes.as_slice(), TEXT_BYTES_MAX, |message| said.push(message));
    read.map_err(|source| Failure::File { action: "read", path: "transcript.jsonl".into(), source })?;
    for message in &said {
        show(context, message)?;
    }
    let turns = said.iter().filter(|message| message.role == Role::User).count();
    context.out.remark(format!("{} added.", human::count(turns as u64, "turn")))?;
    context.out.summary(Summary::CheckpointDiffConversation {
        old: old.id(),
        new: new.id(),
        messages: said.len() as u64,
        turns: turns as u64,
        continues: from.is_some(),
        bytes: newer.size() - start,
    })?;
    Ok(Code::Done)
}

fn show(context: &mut Context, message: &Message) -> Result<()> {
    context.out.object(Line::Message(message.into()))?;
    let (who, style) = match message.role {
        Role::User => ("User", Style::Green),
        Role::Assistant => ("Agent", Style::Cyan),
        Role::Tool if message.is_error => ("Failed", Style::Red),
        Role::Tool => ("Result", Style::Dim),
    };
    let at = message.at.as_deref().map(|at| format!("  {at}")).unwrap_or_default();
    context.out.line(format!("{}{}", context.out.styled(style, who), human::path(at.as_bytes())))?;
    for line in message.text.lines() {
        context.out.line(format!("  {}", human::path(line.as_bytes())))?;
    }
    for call in &message.calls {
        context.out.line(format!("  → {}: {}", human::path(call.tool.as_bytes()), human::path(call.about.as_bytes())))?;
    }
    Ok(())
}

fn transcript<'a>(store: &'a Store, checkpoint: &Checkpoint) -> Result<Option<BlobReader<'a>>> {
    let mut tree = checkpoint.record.root;
    let mut found: Option<Node> = None;
    for name in TRANSCRIPT {
        let Some(node) = store.entry(tree, name)? else { return Ok(None) };
        if let Some((below, _)) = node.as_folder() {
            tree = below;
        }
        found = Some(node);
    }
    match found.map(|node| node.kind) {
        Some(Kind::File { size, blob, .. }) => Ok(Some(store.blob(blob, size)?)),
        _ => Ok(None),
    }
}

/// Checks whether the newer transcript begins with the older one. Only the end of the older one is compared.
fn continues(older: &BlobReader<'_>, newer: &BlobReader<'_>) -> Result<bool> {
    let end = older.size();
    if newer.size() < end {
        return Ok(false);
    }
    let seam = |reader: &BlobReader<'_>| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        reader.read_range(end.saturating_sub(SEAM_BYTES)..end, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    };
    Ok(seam(older)? == seam(newer)?)
}
