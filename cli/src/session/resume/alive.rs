//! `session resume` of a session that is alive.

use parhelia_session::run::{self, Life};
use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    fold::{Run, Session, Status},
};
use serde_json::json;

use super::{Args, meant};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    session::{agent::actor, tmux},
};

/// The exit code where a run may be alive, and the session is left to it. Fails where it must not be.
pub(super) fn if_alive(context: &mut Context, store: &Store, args: &Args, session: &Session, run: &Run) -> Result<Option<Code>> {
    match run::life(run) {
        Life::Over => Ok(None),
        Life::Elsewhere { .. } if args.take_over => Ok(None),
        Life::Elsewhere { host, until } => Err(Failure::Refused(format!(
            "session {} is taken for alive on {host} until {until}, as its processes cannot be looked at from here; end it there, or give \
             --take-over if that machine is gone",
            session.id
        ))),
        Life::Agent(process) | Life::Starting(process) => {
            already_alive(context, store, args, session, run, process.process).map(Some)
        }
    }
}

/// Says that there is nothing to resume, and where to look at it. One that was paused is active again.
fn already_alive(context: &mut Context, store: &Store, args: &Args, session: &Session, run: &Run, process: i32) -> Result<Code> {
    if let Some(from) = &args.from {
        let from = meant(session, from);
        return Err(Failure::Refused(format!(
            "session {} is alive (process {process}); `parhelia checkpoint rollback {from} --stop` ends it and goes back",
            session.id
        )));
    }
    if session.status == Status::Paused {
        let active = NewEvent::new(kind::SESSION_STATUS, &session.id, actor()).with("status", Status::Active.name());
        store.append_events(&[active.with("reason", "resumed")], &())?;
        context.out.did(format!("session {} is active again", session.id));
    }
    context.out.remark(format!("Session {} is alive already (process {process}); nothing was done.", session.id))?;
    if let Some(shown) = tmux::Shown::of(run) {
        context.out.remark(format!("To look at it: {}", shown.command()))?;
    }
    context.out.summary(json!({ "session": session.id, "alive": true, "process": process }))?;
    Ok(Code::Done)
}
