//! `session recover`: finds out what is the matter with a session, and offers what can be done about it.

use std::io::{BufRead, IsTerminal, Write};

use parhelia_session::{
    resume::{self, Choice},
    rollback,
    run::{self, Life},
};
use parhelia_store::{
    Store,
    fold::{Session, Status},
};
use serde_json::json;

use super::{
    pause::{self, EndArgs},
    resume as resume_verb,
};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human,
};

/// Flags of `session recover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name [default: the one whose agent died last]
    session: Option<String>,
    /// Resume it without asking
    #[arg(short, long, conflicts_with = "end")]
    yes: bool,
    /// End it for good
    #[arg(long)]
    end: bool,
}

/// Says how it is, and does what is chosen.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = match &args.session {
        Some(name) => store.view().session_named(name)?,
        None => dead(&store)?,
    };
    let choice = resume::choose(&store, &session, None, false)?;
    let life = life(&store, &session)?;
    describe(context, &session, &choice, &life)?;
    if args.end {
        return pause::end(context, &EndArgs::of(session.id));
    }
    if life.is_alive() || session.status == Status::Ended {
        return Ok(Code::Done);
    }
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage("give --yes to resume it, or --end to end it".into()));
        }
        eprint!("[r]esume, [e]nd for good, or leave it as it is? ");
        let _ = std::io::stderr().flush();
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.map_err(|source| Failure::File { action: "read", path: "standard input".into(), source })?;
        match line.trim() {
            "r" | "resume" => {}
            "e" | "end" => return pause::end(context, &EndArgs::of(session.id)),
            _ => return Ok(Code::Done),
        }
    }
    drop(store);
    resume_verb::run(context, &resume_verb::Args::of(session.id))
}

/// The session that changed last among those whose agent is dead though nobody set them aside.
fn dead(store: &Store) -> Result<Session> {
    let mut found = Vec::new();
    for session in store.view().sessions()? {
        let is_open = matches!(session.status, Status::Active | Status::Starting | Status::Error) && session.run.is_some();
        if is_open && !life(store, &session)?.is_alive() {
            found.push(session);
        }
    }
    found.sort_by_key(|session| session.changed_at);
    found.pop().ok_or_else(|| Failure::Usage("no session needs to be recovered; `parhelia session list` shows all".into()))
}

fn life(store: &Store, session: &Session) -> Result<Life> {
    let run = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    Ok(run.map_or(Life::Over, |run| run::life(&run)))
}

fn describe(context: &mut Context, session: &Session, choice: &Choice, life: &Life) -> Result<()> {
    let agent = match life {
        Life::Agent(process) => format!("is alive (process {})", process.process),
        Life::Starting(_) => "is being started".into(),
        Life::Elsewhere { host, until } => format!("is taken for alive on {host} until {until}"),
        Life::Over => "is dead".into(),
    };
    let workspace = session.workspace.as_ref().map(|place| place.path.clone()).unwrap_or_default();
    let is_there = std::path::Path::new(&workspace).is_dir();
    let from = choice.checkpoint.as_ref();
    context.out.line(format!("Session {} ({}): its agent {agent}.", session.id, session.status.name()))?;
    let state = if is_there { "there; it is kept as it is" } else { "gone; it is restored" };
    context.out.line(format!("Workspace {}: {state}.", human::path(workspace.as_bytes())))?;
    for (id, why) in &choice.skipped {
        context.out.line(format!("Checkpoint {id} is passed over: it {why}."))?;
    }
    match from {
        Some(checkpoint) => {
            let age = human::ago(checkpoint.record.created_at, jiff::Timestamp::now());
            context.out.line(format!("It goes on from checkpoint {} ({age}).", checkpoint.id()))?;
        }
        None => context.out.line("It has no checkpoint to go on from.")?,
    }
    let interrupted = rollback::open(session);
    if let Some(intent) = &interrupted {
        context.out.line(format!("A rollback to {} was interrupted; it is finished first.", intent.target))?;
    }
    context.out.object(
        "session",
        json!({
            "session": session.id,
            "status": session.status,
            "alive": life.is_alive(),
            "workspace": workspace,
            "workspace_exists": is_there,
            "from": from.map(|checkpoint| checkpoint.id()),
            "skipped": choice.skipped.iter().map(|(id, why)| json!({ "id": id.to_string(), "reason": why })).collect::<Vec<_>>(),
            "interrupted_rollback": interrupted.map(|intent| intent.target.to_string()),
        }),
    )?;
    context.out.flush()
}
