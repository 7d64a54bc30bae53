//! `session pause` and `session end`: a session is set aside, or over for good.

use std::time::Duration;

use parhelia_agent::command::Agent;
use parhelia_session::{
    rollback,
    run::{self, Current, Life, Made},
};
use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    fold::{Goal, Run, Session, Status},
};
use serde_json::json;

use super::{
    agent::{actor, stranger_in_newest, variable},
    checkpoint::of_session,
    list::interrupted_text,
    stop::end_agent,
};
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `session pause`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// Leave the agent alone; its next prompt takes the session up again
    #[arg(long)]
    leave_agent: bool,
}

/// Flags of `session end`.
#[derive(Debug, clap::Args)]
pub struct EndArgs {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// Also while its agent is alive: a last checkpoint is made, and the agent is left alone
    #[arg(long)]
    leave_agent: bool,
}

impl EndArgs {
    /// To end a session.
    pub fn of(session: String) -> Self {
        EndArgs { session, leave_agent: false }
    }
}

/// So long an agent may take to end, before and after it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes a checkpoint, ends a live agent, and sets the session aside.
pub fn pause(context: &mut Context, args: &PauseArgs) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    if session.status == Status::Ended {
        return Err(Failure::Refused(format!("session {} has ended, which is for good", session.id)));
    }
    let last = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    let alive = last.as_ref().is_some_and(|run| run::life(run).is_alive());
    let ends = last.as_ref().filter(|_| alive && !args.leave_agent);
    if let Some(run) = ends {
        ensure_within_reach(&session, run)?;
    }
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
    let capture = || of_session(context, &store, &session, last.as_ref(), "pause", &progress);
    // An agent that cannot be captured is not ended.
    let mut made = capture()?;
    match ends {
        // What it did until it ended.
        Some(run) => made = end_agent(&store, &session, run, PATIENCE, ("paused", Some(Goal::Paused)), capture)?,
        None => {
            let paused = NewEvent::new(kind::SESSION_STATUS, &session.id, actor()).with("status", Status::Paused.name());
            store.append_events(&[paused.with("reason", "paused")], &())?;
        }
    }
    drop(progress);
    let id = made.outcome.checkpoint.id();
    context.out.did(format!("session {} is paused at checkpoint {id}", session.id));
    context.out.remark(format!("Session {} is paused at checkpoint {id}.", session.id))?;
    let (code, failed) = last_checkpoint(&made);
    for failure in &failed {
        tell!("parhelia: {failure}");
    }
    if ends.is_some() {
        context.out.remark(format!("Its agent has ended; `parhelia session resume {}` goes on.", session.id))?;
    } else if alive {
        context.out.remark("Its agent is alive, and was left alone.")?;
        if last.as_ref().and_then(|run| Agent::of(&run.command())).is_some_and(|agent| agent.has_hooks()) {
            context.out.remark("The next prompt in it takes the session up again.")?;
        }
    }
    let stranger = tell_stranger(&store, &session)?;
    context
        .out
        .summary(json!({ "session": session.id, "status": "paused", "checkpoint": id, "alive": alive && ends.is_none(), "open_in": stranger, "failed": failed }))?;
    Ok(code)
}

/// Fails where the agent of a run cannot be ended from here: on another machine, and by itself.
fn ensure_within_reach(session: &Session, run: &Run) -> Result<()> {
    let why = match run::life(run) {
        Life::Elsewhere { host, .. } => format!("its agent may be alive on {host}"),
        _ if run::is_inside(run, &variable) => "this command is its agent's own".to_owned(),
        _ => return Ok(()),
    };
    let id = &session.id;
    Err(Failure::Refused(format!(
        "cannot pause session {id}: {why}\n`parhelia session pause {id} --leave-agent` leaves the agent alone"
    )))
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
    if life.is_alive() && !args.leave_agent {
        return Err(Failure::Refused(format!(
            "the agent of session {id} is alive; `parhelia session stop {id}` ends it, and --leave-agent leaves it alone",
            id = session.id
        )));
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
pub(super) fn last_checkpoint(made: &Made) -> (Code, Vec<String>) {
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
