//! `session pause` and `session end`: a session is set aside, or over for good.

use parhelia_agent::command::Agent;
use parhelia_session::{
    rollback,
    run::{self, Current, Life, Made},
};
use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    fold::{Goal, Session, Status},
};
use serde_json::json;

use super::{
    agent::{actor, stranger_in_newest},
    list::interrupted_text,
};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `session pause`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The session, by id or name
    session: String,
}

/// Flags of `session end`.
#[derive(Debug, clap::Args)]
pub struct EndArgs {
    /// The session, by id or name
    session: String,
    /// Also while its agent is alive: a last checkpoint is made, and the agent is not stopped
    #[arg(long)]
    force: bool,
}

impl EndArgs {
    /// To end a session.
    pub fn of(session: String) -> Self {
        EndArgs { session, force: false }
    }
}

/// Makes a checkpoint, and sets the session aside. A live agent is left alone.
pub fn pause(context: &mut Context, args: &PauseArgs) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    if session.status == Status::Ended {
        return Err(Failure::Usage(format!("session {} has ended, which is for good", session.id)));
    }
    let last = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    let alive = last.as_ref().is_some_and(|run| run::life(run).is_alive());
    // One whose agent has died may be wanted running: setting it aside keeps it from being recovered.
    if session.goal() == Goal::Paused && !alive {
        context.out.remark(format!("Session {} is paused already.", session.id))?;
        let stranger = tell_stranger(&store, &session)?;
        context.out.summary(
            json!({ "session": session.id, "status": "paused", "checkpoint": null, "alive": false, "open_in": stranger, "failed": [] }),
        )?;
        return Ok(Code::Done);
    }
    let progress = context.progress();
    let made = super::checkpoint::of_session(context, &store, &session, last.as_ref(), "pause", &progress)?;
    drop(progress);
    let paused =
        NewEvent::new(kind::SESSION_STATUS, &session.id, actor()).with("status", Status::Paused.name()).with("reason", "paused");
    store.append_events(&[paused], &())?;
    let id = made.outcome.checkpoint.id();
    context.out.did(format!("session {} is paused at checkpoint {id}", session.id));
    context.out.remark(format!("Session {} is paused at checkpoint {id}.", session.id))?;
    let (code, failed) = last_checkpoint(&made);
    for failure in &failed {
        tell!("parhelia: {failure}");
    }
    if alive {
        context.out.remark("Its agent is alive, and was left alone.")?;
        if last.as_ref().and_then(|run| Agent::of(&run.command())).is_some_and(|agent| agent.has_hooks()) {
            context.out.remark("The next prompt in it takes the session up again.")?;
        }
    }
    let stranger = tell_stranger(&store, &session)?;
    context
        .out
        .summary(json!({ "session": session.id, "status": "paused", "checkpoint": id, "alive": alive, "open_in": stranger, "failed": failed }))?;
    Ok(code)
}

/// Says who has a session's newest conversation open and is not its agent.
fn tell_stranger(store: &Store, session: &Session) -> Result<Option<String>> {
    let stranger = stranger_in_newest(store, session)?;
    if let Some(open) = &stranger {
        tell!("parhelia: {open}, which is not the session's agent, and was left alone");
    }
    Ok(stranger)
}

/// Ends a session: nothing resumes it any more. Its checkpoints stay. Of an agent that lives on, a last checkpoint is made before.
pub fn end(context: &mut Context, args: &EndArgs) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    // Whoever brings it back to life or rolls it back is done before it is over.
    let turn = rollback::shared(&store, &session.id, &context.progress())?;
    let session = store.refresh()?.session(&session.id)?.unwrap_or(session);
    let last = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    let life = last.as_ref().map_or(Life::Over, run::life);
    // A checkpoint takes the turn itself.
    let _turn = Some(turn).filter(|_| !life.is_alive());
    if life.is_alive() && !args.force {
        return Err(Failure::Usage(format!("the agent of session {} is alive; end it first, or give --force", session.id)));
    }
    let made = matches!(life, Life::Agent(_) | Life::Starting(_)).then(|| {
        let progress = context.progress();
        super::checkpoint::of_session(context, &store, &session, last.as_ref(), "end", &progress)
    });
    if let Some(run) = last.as_ref().filter(|run| run.is_open()) {
        run::end(
            &store,
            &Current::of(run, Some(&session)),
            "the session was ended",
            (Status::Ended, Some(Goal::Ended)),
            actor(),
        )?;
    } else {
        let ended = NewEvent::new(kind::SESSION_STATUS, &session.id, actor())
            .with("status", Status::Ended.name())
            .with("reason", "ended");
        store.append_events(&[ended], &())?;
    }
    if let Some(intent) = rollback::open(&session) {
        tell!("parhelia: {}", interrupted_text(&session.id, intent.target));
    }
    context.out.did(format!("session {} has ended", session.id));
    let at = match &made {
        Some(Ok(made)) => format!(" at checkpoint {}", made.outcome.checkpoint.id()),
        _ => String::new(),
    };
    context.out.remark(format!("Session {} has ended{at}; its checkpoints stay.", session.id))?;
    let (code, failed) = match &made {
        None => (Code::Done, Vec::new()),
        Some(Ok(made)) => last_checkpoint(made),
        Some(Err(e)) => (Code::Partly, vec![format!("no last checkpoint was made: {e}")]),
    };
    for failure in &failed {
        tell!("parhelia: {failure}");
    }
    if life.is_alive() {
        context
            .out
            .remark("Its agent is alive, and was left alone; from here on no checkpoint is made of it, but by its own hooks.")?;
    }
    let stranger = tell_stranger(&store, &session)?;
    context.out.summary(json!({
        "session": session.id,
        "status": "ended",
        "open_in": stranger,
        "checkpoint": made.and_then(|made| made.ok()).map(|made| made.outcome.checkpoint.id()),
        "alive": life.is_alive(),
        "failed": failed,
    }))?;
    Ok(code)
}

/// Parts that a checkpoint lacks, which are said as well.
fn last_checkpoint(made: &Made) -> (Code, Vec<String>) {
    let id = made.outcome.checkpoint.id();
    if made.is_damaged() {
        tell!("parhelia: checkpoint {id} is damaged; `parhelia checkpoint verify {id}` says where");
    }
    let failed: Vec<String> = made.failed().collect();
    let code = match (made.is_damaged(), failed.is_empty()) {
        (true, _) => Code::Corrupt,
        (_, false) => Code::Partly,
        _ => Code::Done,
    };
    (code, failed)
}
