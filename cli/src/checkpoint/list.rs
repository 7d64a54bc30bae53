//! `checkpoint list`: what there is, newest first.

use jiff::Timestamp;
use parhelia_store::record::Checkpoint;
use serde_json::{Value, json};

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
    output::Style,
};

/// Flags of `checkpoint list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this session's
    session: Option<String>,
}

/// Prints the list.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let mut checkpoints = store.checkpoints()?;
    if let Some(session) = &args.session {
        checkpoints.retain(|c| c.record.session == *session);
    }
    checkpoints.reverse();
    if context.out.json {
        for checkpoint in &checkpoints {
            context.out.object("checkpoint", to_json(checkpoint))?;
        }
        context.out.summary(json!({ "checkpoints": checkpoints.len() }))?;
        return Ok(Code::Done);
    }
    if checkpoints.is_empty() {
        let of = args.session.as_ref().map(|session| format!(" of session {session}")).unwrap_or_default();
        context.out.remark(format!("No checkpoints{of} in {}.", store.path().display()))?;
        return Ok(Code::Done);
    }
    print(context, &checkpoints)?;
    Ok(Code::Done)
}

fn print(context: &mut Context, checkpoints: &[Checkpoint]) -> Result<()> {
    let now = Timestamp::now();
    let heading = ["ID", "SESSION", "TRIGGER", "CREATED", "FILES", "SIZE", "", "MESSAGE"].map(str::to_owned).to_vec();
    let mut rows = vec![heading];
    for checkpoint in checkpoints {
        let record = &checkpoint.record;
        rows.push(vec![
            checkpoint.id(),
            human::path(record.session.as_bytes()),
            record.trigger.name().to_owned(),
            human::ago(record.created_at, now),
            record.workspace.files.to_string(),
            human::size(record.workspace.bytes),
            if checkpoint.is_complete() { "" } else { "partial" }.to_owned(),
            human::path(record.message.as_deref().unwrap_or_default().lines().next().unwrap_or_default().as_bytes()),
        ]);
    }
    for (i, line) in human::table(&rows, &[4, 5]).iter().enumerate() {
        let line = if i == 0 { context.out.styled(Style::Bold, line) } else { line.clone() };
        context.out.line(line)?;
    }
    Ok(())
}

/// A checkpoint in a list, for programs.
pub fn to_json(checkpoint: &Checkpoint) -> Value {
    let record = &checkpoint.record;
    json!({
        "id": checkpoint.id(),
        "session": record.session,
        "sequence": checkpoint.sequence,
        "parent": record.parent.map(|id| id.to_string()),
        "depth": record.depth,
        "trigger": record.trigger,
        "trigger_detail": record.trigger_detail,
        "message": record.message,
        "created_at": record.created_at.to_string(),
        "workspace": record.workspace.path,
        "files": record.workspace.files,
        "bytes": record.workspace.bytes,
        "root": record.root,
        "complete": checkpoint.is_complete(),
    })
}
