//! `session resume --all`: every session whose agent has died though nobody wanted that, each in tmux, in the background.

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, Stdio},
};

use jiff::Timestamp;
use parhelia_host::Host;
use parhelia_ledger::Session;
use parhelia_life::{
    overview, prompt,
    resume::{Unasked, set_aside, unasked},
};
use parhelia_store::Store;
use parhelia_wire::{
    Summary,
    summary::{Elsewhere, NotResumed, ResumedAll},
};
use serde_json::Value;

use super::Args;
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human, limits,
    session::tmux::{absolute_of, own_words},
};

/// Resumes them, one after the other. One that fails stands in no other's way.
pub(super) fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let host = context.host()?;
    let (mut resumed, mut failed, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let mut missing = overview::missing(&store)?;
    if args.take_over {
        missing.dead.extend(std::mem::take(&mut missing.elsewhere).into_iter().map(|(session, ..)| session));
    }
    for session in missing.dead {
        if let Some(why) = unasked(&store, &host, &session, args.prompt.as_deref())? {
            if matches!(why, Unasked::Policy { .. }) {
                set_aside(&store, &session, &why)?;
            }
            let next = match why {
                Unasked::UnknownCommand => "`parhelia session show {}` says more",
                _ => "`parhelia session resume {}` does it",
            };
            tell!("parhelia: session {} is left alone: {why}; {}", session.id, next.replace("{}", &session.id));
            left.push(session.id);
            continue;
        }
        match resume(context, args, &session)? {
            Ok(()) => {
                context.out.did(format!("session {} is resumed", session.id));
                resumed.push(session.id);
            }
            Err(error) => failed.push(NotResumed { id: session.id, error }),
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
    let of = |(session, host, until): &(Session, String, Timestamp)| Elsewhere {
        id: session.id.clone(),
        host: host.clone(),
        until: until.to_string(),
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

/// True if `resume --all` leaves a session alone, where no prompt is given.
pub fn is_left_alone(store: &Store, host: &dyn Host, session: &Session) -> Result<bool> {
    Ok(unasked(store, host, session, None)?.is_some())
}

/// The words behind this program's name by which another process resumes a session in tmux, in the background; its id follows.
fn words_to_resume(context: &Context, tmux_socket: Option<&Path>) -> Result<Vec<OsString>> {
    let mut words = own_words(context)?;
    words.extend(["session", "resume", "--tmux", "--detach"].map(Into::into));
    if let Some(socket) = tmux_socket {
        words.extend(["--tmux-socket".into(), absolute_of(socket)?]);
    }
    Ok(words)
}

/// A process of its own does it, as if somebody had given the command. Inside, the error of that process, which only `--json` makes readable.
fn resume(context: &mut Context, args: &Args, session: &Session) -> Result<Result<(), Option<String>>> {
    let failed = |source| Failure::File { action: "start", path: "the program itself".into(), source };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(words_to_resume(context, args.tmux.tmux_socket.as_deref())?);
    command.args(["--interval".to_owned(), args.interval.to_string()]);
    command.args(context.out.json.then_some("--json"));
    command.args(args.take_over.then_some("--take-over"));
    command.args(args.launch_variables.then_some("--launch-variables"));
    command.args(args.prompt.as_ref().map(|_| "--prompt-file=-"));
    command.args(["--", &session.id]).stdin(match &args.prompt {
        Some(prompt) => prompt::held(prompt).map_err(failed)?,
        None => Stdio::null(),
    });
    context.out.flush()?;
    if context.out.json {
        command.stdout(Stdio::piped());
    }
    let ended = limits::for_others(|| command.spawn()?.wait_with_output()).map_err(failed)?;
    let mut error = None;
    for line in ended.stdout.split_inclusive(|byte| *byte == b'\n') {
        let read = serde_json::from_slice::<Value>(line).unwrap_or_default();
        // The last line is this process's own.
        match read["type"].as_str() {
            None | Some("summary") => {}
            Some("error") => error = read["message"].as_str().map(str::to_owned),
            Some(_) => context.out.bytes(line)?,
        }
    }
    if ended.status.success() {
        return Ok(Ok(()));
    }
    tell!("parhelia: session {} was not resumed", session.id);
    Ok(Err(error))
}
