//! `session stop`: ends the agent of a session.

use std::time::Duration;

use parhelia_agent::process;
use parhelia_session::run::{self, Current, Life};
use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    fold::{Goal, Place, Run, Session, Status},
};
use serde_json::json;

use super::{
    agent::{actor, has_agent, variable},
    checkpoint::of_session,
    pause::last_checkpoint,
};
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `session stop`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// Keep the session wanted, so that `session resume --all` and `session recover` bring it back
    #[arg(long)]
    keep_wanted: bool,
    /// Seconds that the agent may take to end, before and after it is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    patience: u64,
}

/// Ends the agent, and makes a last checkpoint.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    let id = &session.id;
    let last = session.run.as_deref().map(|run| store.view().run(run)).transpose()?.flatten();
    let is_alive = |run: &&Run| run::left_alive(run).is_some() || run::life(run).is_alive();
    let alive = last.as_ref().filter(is_alive);
    if session.status == Status::Ended {
        return stop_ended(context, &store, &session, alive, Duration::from_secs(args.patience));
    }
    if !has_agent(&session) {
        return Err(Failure::Refused(format!("cannot stop session {id}: no agent has worked in it")));
    }
    let goal = if args.keep_wanted { Goal::Running } else { Goal::Paused };
    let stopped = match alive {
        Some(run) => {
            let progress = context.progress();
            let last = || of_session(context, &store, &session, Some(run), "stop", &progress);
            let made = end_agent(&store, &session, run, Duration::from_secs(args.patience), ("stopped", Some(goal)), last)?;
            drop(progress);
            last_checkpoint(&made).1.iter().for_each(|failure| tell!("parhelia: {failure}"));
            true
        }
        None => {
            if session.goal() != goal {
                let status = if goal == Goal::Paused { Status::Paused } else { session.status };
                let changed = NewEvent::new(kind::SESSION_STATUS, id, actor()).with("status", status.name());
                store.append_events(&[changed.with("wanted", goal.name()).with("reason", "stopped")], &())?;
            }
            false
        }
    };
    context.out.did(format!("the agent of session {id} {}", if stopped { "has ended" } else { "was not alive" }));
    let (was, next) = match stopped {
        true => ("has ended", "brings it back"),
        false => ("was not alive", "starts it"),
    };
    let wanted = match goal {
        Goal::Running => "is still wanted: `session resume --all` resumes it",
        _ => "is set aside: `session resume --all` leaves it alone",
    };
    context
        .out
        .remark(format!("The agent of session {id} {was}. The session {wanted}; `parhelia session resume {id}` {next}."))?;
    context.out.summary(json!({ "session": id, "stopped": stopped, "wanted": goal }))?;
    Ok(Code::Done)
}

/// Ends an agent that was left alone when its session ended.
fn stop_ended(context: &mut Context, store: &Store, session: &Session, alive: Option<&Run>, patience: Duration) -> Result<Code> {
    let id = &session.id;
    let run = alive
        .ok_or_else(|| Failure::Refused(format!("session {id} has ended, which is for good, and no agent of it is alive")))?;
    end_agent(store, session, run, patience, ("stopped", None), || Ok(()))?;
    context.out.did(format!("the agent of session {id} has ended"));
    context.out.remark(format!("The agent of session {id} has ended, as the session had before."))?;
    context.out.summary(json!({ "session": id, "stopped": true, "wanted": Goal::Ended }))?;
    Ok(Code::Done)
}

/// Ends the agent of a session, and its run; `between` is done when the agent has ended and its run has not. Fails where the agent does not end,
/// or is out of reach.
pub fn end_agent<T>(
    store: &Store,
    session: &Session,
    run: &Run,
    patience: Duration,
    (reason, goal): (&str, Option<Goal>),
    between: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let id = &session.id;
    if let Life::Elsewhere { host, .. } = run::life(run) {
        return Err(Failure::Refused(format!("the agent of session {id} may be alive on {host}; stop it there")));
    }
    if run::is_inside(run, &variable) {
        return Err(Failure::Refused(format!("cannot end the agent of session {id}: this command is its own")));
    }
    // Whoever waits for the agent does not take its end for a failure.
    let stopping = NewEvent::new(kind::RUN_CHANGED, &run.id, actor()).in_epoch(run.epoch).with(run::STOPPING, reason);
    store.append_events(&[stopping], &())?;
    let workspace = session.workspace.as_ref().map(Place::folder).unwrap_or_default();
    let stopped = process::stop(&run.id, &run::roots_in(store, run)?, &workspace, patience)?;
    if !stopped.is_clean() || matches!(run::life(run), Life::Agent(_)) {
        return Err(Failure::Refused(format!("the agent of session {id} does not end; nothing was changed")));
    }
    store.refresh()?;
    let done = between();
    run::end(store, &Current::of(run, Some(session)), reason, (Status::Paused, goal), actor())?;
    done
}
