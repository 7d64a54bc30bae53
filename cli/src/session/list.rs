//! `session list`: what there is, the one that changed last first.

use std::collections::HashMap;

use jiff::Timestamp;
use parhelia_store::fold::{Session, Status};
use serde_json::json;

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
    output::Style,
};

/// Flags of `session list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave out sessions that have ended
    #[arg(long)]
    open: bool,
}

/// Prints the list.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let view = store.view();
    let mut sessions: Vec<Session> =
        view.sessions()?.into_iter().filter(|session| !args.open || session.status != Status::Ended).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.changed_sequence));
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for checkpoint in view.checkpoints()? {
        *counts.entry(&checkpoint.record.session).or_default() += 1;
    }
    if context.out.json {
        for session in &sessions {
            let mut object = json!(session);
            object["checkpoints"] = json!(counts.get(session.id.as_str()).copied().unwrap_or(0));
            context.out.object("session", object)?;
        }
        return context.out.summary(json!({ "sessions": sessions.len() })).map(|()| Code::Done);
    }
    if sessions.is_empty() {
        context.out.remark(format!("No sessions in {}.", store.path().display()))?;
        return Ok(Code::Done);
    }
    let now = Timestamp::now();
    let mut rows =
        vec![["SESSION", "STATUS", "CHANGED", "CHECKPOINTS", "EPOCH", "COST", "WORKSPACE"].map(str::to_owned).to_vec()];
    rows.extend(sessions.iter().map(|session| {
        let name = if session.name == session.id { String::new() } else { format!(" ({})", session.name) };
        vec![
            human::path(format!("{}{name}", session.id).as_bytes()),
            session.status.name().to_owned(),
            human::ago(session.changed_at, now),
            counts.get(session.id.as_str()).copied().unwrap_or(0).to_string(),
            session.epoch.to_string(),
            session.totals.cost_usd.map_or_else(|| "–".to_owned(), human::cost),
            session.workspace.as_ref().map_or_else(|| "–".to_owned(), |place| place.path.clone()),
        ]
    }));
    for (i, line) in human::table(&rows, &[3, 4, 5]).iter().enumerate() {
        let line = if i == 0 { context.out.styled(Style::Bold, line) } else { line.clone() };
        context.out.line(line)?;
    }
    Ok(Code::Done)
}
