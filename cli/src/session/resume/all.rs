//! `session resume --all`: every session whose agent has died though nobody wanted that, each in tmux, in the background.

use jiff::Timestamp;
use parhelia_ledger::Session;
use parhelia_life::{
    overview,
    resume::{Background, Objection, ResumeRequest, in_background, set_aside, unasked},
};
use parhelia_screen::human;
use parhelia_store::Store;
use parhelia_wire::{
    Summary,
    summary::{NotResumed, RemoteSession, ResumedAll},
};

use super::Args;
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    host::Shell,
    interrupt,
    session::tmux,
};

/// Resumes them, one after the other. One that fails stands in no other's way.
pub(super) fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let host = context.host()?;
    let _signals = interrupt::install(&context.cancel())?;
    let (mut resumed, mut failed, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let mut missing = overview::missing(&store)?;
    if args.take_over {
        missing.dead.extend(std::mem::take(&mut missing.elsewhere).into_iter().map(|(session, ..)| session));
    }
    for session in missing.dead {
        if let Some(why) = unasked(&store, &host, &session, args.prompt.as_deref())? {
            if matches!(why, Objection::Policy { .. }) {
                set_aside(&store, &session, &why)?;
            }
            let next = match why {
                Objection::UnknownCommand => "`parhelia session show {}` says more",
                _ => "`parhelia session resume {}` does it",
            };
            tell!("parhelia: session {} is left alone: {why}; {}", session.id, next.replace("{}", &session.id));
            left.push(session.id);
            continue;
        }
        match resume(context, args, &store, &host, &session)? {
            Ok(()) => {
                context.out.did(format!("session {} is resumed", session.id));
                resumed.push(session.id);
            }
            Err(error) => failed.push(NotResumed { id: session.id, error: Some(error) }),
        }
    }
    for (session, why) in missing.unknown {
        tell_unknown(&session.id, &why);
        left.push(session.id);
    }
    for (session, host, until) in &missing.elsewhere {
        tell_elsewhere(session, host, *until);
    }
    context.out.remark(match resumed.len() + failed.len() {
        0 if !missing.elsewhere.is_empty() => "No session was resumed.".to_owned(),
        0 => "No session needs to be resumed.".to_owned(),
        all => format!("Resumed {} of {}.", resumed.len(), human::count(all as u64, "session")),
    })?;
    let code = if failed.is_empty() { Code::Done } else { Code::Partly };
    let of = |(session, host, until): &(Session, String, Timestamp)| RemoteSession {
        id: session.id.clone(),
        host: host.clone(),
        until: *until,
    };
    let elsewhere = missing.elsewhere.iter().map(of).collect();
    context.out.summary(Summary::SessionResumeAll(ResumedAll { resumed, failed, left, elsewhere }))?;
    Ok(code)
}

/// Says of a session that another machine or container may have it, and how to go on. Its processes cannot be seen from here: a container
/// that was restarted looks as one that still runs.
pub fn tell_elsewhere(session: &Session, host: &str, until: Timestamp) {
    tell!(
        "parhelia: session {id} is not resumed: another machine or container may have it, {host}, until {until}; `parhelia session show {id}` \
         says more; if that is over, `parhelia session resume {id} --take-over` does not wait for it",
        id = session.id
    );
}

/// Says of a session that it is not known whether its agent lives, and the next step.
pub fn tell_unknown(session: &str, why: &str) {
    tell!(
        "parhelia: session {session} is not resumed: whether its agent lives is not known ({why}); `parhelia session recover {session}` says what \
         can be done"
    );
}

/// Resumes one. Inside, the failure, which is told; one that the user has called for ends all.
fn resume(context: &mut Context, args: &Args, store: &Store, host: &Shell, session: &Session) -> Result<Result<(), String>> {
    let request = ResumeRequest { from: None, ..args.request(context.global.quiet) };
    let socket = args.tmux.tmux_socket.as_deref();
    let done = in_background(store, host, &session.id, &request, socket, &context.progress());
    let shown = done.map_err(Failure::from).and_then(|done| match done {
        Background::Alive(alive) => super::print_alive(context, &session.id, &alive),
        Background::Started(begun, made) => {
            super::report(context, &begun)?;
            tmux::print(context, &made).map(drop)
        }
    });
    match shown {
        Err(failure) if failure.code() == Code::Interrupted || failure.is_broken_pipe() => Err(failure),
        Err(failure) => {
            tell!("parhelia: {failure}\nparhelia: session {} was not resumed", session.id);
            Ok(Err(failure.to_string()))
        }
        Ok(()) => Ok(Ok(())),
    }
}
