//! `checkpoint diff --conversation`: what was said between two checkpoints.

use parhelia_agent::transcript::messages::{Message, Role};
use parhelia_host::conversation::added;
use parhelia_screen::human;
use parhelia_store::{Store, record::Checkpoint};
use parhelia_wire::{Line, Summary, summary::ConversationDiff};

use crate::{
    context::Context,
    exit::{Code, Result},
    output::Style,
};

/// So much of each message is shown.
const TEXT_BYTES_MAX: usize = 4000;
/// Prints the turns that the newer checkpoint has and the older one does not.
pub fn print(context: &mut Context, store: &Store, old: &Checkpoint, new: &Checkpoint) -> Result<Code> {
    let mut said: Vec<Message> = Vec::new();
    let Some(found) = added::read(store, Some(old), new, TEXT_BYTES_MAX, |message| said.push(message))? else {
        context.out.remark(format!("Checkpoint {} holds no conversation.", new.id()))?;
        context.out.summary(Summary::CheckpointDiffConversation(ConversationDiff {
            old: old.id(),
            new: new.id(),
            messages: 0,
            turns: 0,
            continues: false,
            bytes: 0,
        }))?;
        return Ok(Code::Done);
    };
    if !found.continues && found.has_older {
        context.out.remark("The conversation is another one, or was rewritten: all of the newer one is shown.")?;
    }
    for message in &said {
        show(context, message)?;
    }
    let turns = said.iter().filter(|message| message.role == Role::User).count();
    context.out.remark(format!("{} added.", human::count(turns as u64, "turn")))?;
    context.out.summary(Summary::CheckpointDiffConversation(ConversationDiff {
        old: old.id(),
        new: new.id(),
        messages: said.len() as u64,
        turns: turns as u64,
        continues: found.continues,
        bytes: found.bytes,
    }))?;
    Ok(Code::Done)
}

fn show(context: &mut Context, message: &Message) -> Result<()> {
    context.out.object(Line::Message(message.clone()))?;
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
