//! `session pause` and `session end`: a session is set aside, or over for good.

use parhelia_host::{Host, run};
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_life::{
    checkpoint::CheckpointReport,
    ending::{self, Over},
};
use parhelia_store::{Store, progress::Progress};
use parhelia_wire::{Summary, summary::SetAside};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    thinned::removed_text,
    words,
};

/// Flags of `session pause`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// End a live agent, instead of leaving it alone
    #[arg(long)]
    end_agent: bool,
    /// The default
    #[arg(long, hide = true, conflicts_with = "end_agent")]
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

/// Makes a checkpoint and sets the session aside. A live agent stays, unless it is to end.
pub fn pause(context: &mut Context, args: &PauseArgs) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    let host = context.host()?;
    let progress = context.progress();
    let paused = ending::pause(&store, &host, &session, args.end_agent, &progress)?;
    drop(progress);
    let id = &session.id;
    let unknown = store.view().newest_run(&session)?.as_ref().and_then(run::why_unknown);
    let Some(made) = &paused.made else {
        context.out.remark(format!("Session {id} is paused already."))?;
        let stranger = tell_stranger(&store, &host, &session, unknown.is_none())?;
        context.out.summary(Summary::SessionPause(SetAside {
            id: id.clone(),
            status: "paused".into(),
            checkpoint: None,
            alive: false,
            open_in: stranger,
            failed: Vec::new(),
        }))?;
        return Ok(Code::Done);
    };
    let checkpoint = made.outcome.checkpoint.id();
    context.out.did(format!("session {id} is paused at checkpoint {checkpoint}"));
    context.out.remark(format!("Session {id} is paused at checkpoint {checkpoint}."))?;
    let (code, failed) = last_checkpoint(context, made);
    for failure in &failed {
        tell!("parhelia: {failure}");
    }
    if paused.has_ended_agent {
        context.out.remark(format!("Its agent has ended; `parhelia session resume {id}` goes on."))?;
    } else if paused.is_alive {
        context.out.remark(format!("Its agent is alive, and was left alone; `parhelia session stop {id}` ends it."))?;
        if paused.has_hooks {
            context.out.remark("The next prompt in it takes the session up again.")?;
        }
    }
    let stranger = tell_stranger(&store, &host, &session, unknown.is_none())?;
    context.out.summary(Summary::SessionPause(SetAside {
        id: id.clone(),
        status: "paused".into(),
        checkpoint: Some(checkpoint),
        alive: paused.is_alive,
        open_in: stranger,
        failed,
    }))?;
    Ok(code)
}

/// Names the process that has a session's newest conversation open and is not its agent, or may be that where this is not known.
fn tell_stranger(store: &Store, host: &dyn Host, session: &Session, is_agent_known: bool) -> Result<Option<String>> {
    let stranger = run::stranger_in_newest(store, host, session)?;
    if let Some(open) = &stranger {
        let which = if is_agent_known { "is not" } else { "may be" };
        tell!("parhelia: {open}, which {which} the session's agent, and was left alone");
    }
    Ok(stranger)
}

/// Ends a session: nothing resumes it any more. Its checkpoints stay. Of an agent that lives on, a last checkpoint is made before.
pub fn end(context: &mut Context, args: &EndArgs) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named_surely(&args.session)?;
    let host = context.host()?;
    let progress = context.progress();
    let Over { made, is_alive, has_hooks, unknown } = ending::end(&store, &host, &session, args.leave_agent, &progress)?;
    drop(progress);
    context.out.did(format!("session {} has ended", session.id));
    let at = match &made {
        Some(Ok(made)) => format!(" at checkpoint {}", made.outcome.checkpoint.id()),
        _ => String::new(),
    };
    context.out.remark(format!("Session {} has ended{at}; its checkpoints stay.", session.id))?;
    let (code, failed) = match &made {
        None => (Code::Done, Vec::new()),
        Some(Ok(made)) => last_checkpoint(context, made),
        Some(Err(e)) => (Code::Partly, vec![format!("no last checkpoint was made: {}", words::error(e))]),
    };
    for failure in &failed {
        tell!("parhelia: {failure}");
    }
    if is_alive {
        let but = if has_hooks { ", but by its own hooks" } else { "" };
        context.out.remark(format!("Its agent is alive, and was left alone; from here on no checkpoint is made of it{but}."))?;
    }
    if let Some(why) = &unknown {
        tell!("parhelia: whether its agent lives is not known ({why}); it was left alone");
    }
    let stranger = tell_stranger(&store, &host, &session, unknown.is_none())?;
    context.out.summary(Summary::SessionEnd(SetAside {
        id: session.id,
        status: "ended".into(),
        checkpoint: made.and_then(|made| made.ok()).map(|made| made.outcome.checkpoint.id()),
        alive: is_alive,
        open_in: stranger,
        failed,
    }))?;
    Ok(code)
}

/// Parts that a checkpoint lacks, which are said as well.
pub(super) fn last_checkpoint(context: &Context, made: &CheckpointReport) -> (Code, Vec<String>) {
    let id = made.outcome.checkpoint.id();
    if made.is_damaged() {
        tell!("parhelia: checkpoint {id} is damaged; `parhelia checkpoint verify {id}` says where");
    }
    if let Some(text) = made.thinned.as_ref().and_then(removed_text) {
        context.progress().notice(&text);
    }
    let failed: Vec<String> = made.failed().collect();
    let code = match (made.is_damaged(), failed.is_empty()) {
        (true, _) => Code::Corrupt,
        (_, false) => Code::Partly,
        _ => Code::Done,
    };
    (code, failed)
}
