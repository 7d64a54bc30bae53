//! `remote status`: the remote, and what it does not have yet. Asks the local store alone.

use parhelia_remote::RemoteFolder;
use parhelia_screen::human;
use parhelia_store::{Store, clock};
use parhelia_wire::{Summary, summary::remote::RemoteStatus};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// The sentence that warns of a remote to which nothing could be sent lately; none where all is well, and of a store that has no remote.
pub fn warning(store: &Store) -> Option<String> {
    let last = RemoteFolder::of(store.layout()).last_attempt().ok().flatten()?;
    let (error, since) = (last.error?, human::ago(last.failing_since?, clock::timestamp()));
    let waiting = parhelia_remote::backlog(store).ok()?.checkpoints;
    let waiting = human::count(waiting, "checkpoint");
    Some(format!("the remote could not be reached, or refused, since {since}, and {waiting} not sent: {error}"))
}

/// Prints it.
pub fn run(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    let folder = RemoteFolder::of(store.layout());
    let Some(joined) = folder.joined()? else {
        let hint = match (context.own_config()?.remote.url, folder.last_attempt()?.and_then(|last| last.error)) {
            (Some(_), Some(error)) => {
                format!("the one that is configured could not be joined: {}", human::path(error.as_bytes()))
            }
            (Some(_), None) => "`parhelia remote add` joins the one that is configured, as the next checkpoint does".into(),
            (None, _) => "`parhelia remote add URL` joins one".into(),
        };
        return Err(Failure::NotFound(format!(
            "the store at {} has no remote; {hint}",
            human::path(store.path().as_os_str().as_encoded_bytes())
        )));
    };
    let (backlog, last, machine) = (parhelia_remote::backlog(&store)?, folder.last_attempt()?, folder.machine()?);
    let now = clock::timestamp();
    let encrypted = if joined.encrypted { "encrypted" } else { "not encrypted" };
    let mut facts = vec![("Remote", format!("{}, {encrypted}", human::path(joined.url.as_bytes())))];
    facts.extend(machine.as_ref().map(|state| ("Machine", state.machine.to_string())));
    let waits = match (backlog.is_nothing(), backlog.is_not_known) {
        (true, _) => "nothing: it has everything".to_owned(),
        (_, true) => "not known: no answer came to the last request; the next push settles it".to_owned(),
        _ => {
            let oldest = backlog.oldest.map(|at| format!(", since {}", human::ago(at, now))).unwrap_or_default();
            let (checkpoints, events) = (human::count(backlog.checkpoints, "checkpoint"), human::count(backlog.events, "event"));
            format!("{checkpoints} and {events}{oldest}")
        }
    };
    facts.push(("Waits", waits));
    let pushed = match &last {
        None => "never".to_owned(),
        Some(last) if last.error.is_none() && machine.is_none() => "never".to_owned(),
        Some(last) => match (&last.error, last.failing_since) {
            (Some(error), since) => {
                let since = since.map(|since| format!("; failing since {}", human::ago(since, now))).unwrap_or_default();
                format!("failed {}: {}{since}", human::ago(last.at, now), human::path(error.as_bytes()))
            }
            (None, _) => human::ago(last.at, now).to_string(),
        },
    };
    facts.push(("Last push", pushed));
    let damaged = last.as_ref().map(|last| last.damaged.clone()).unwrap_or_default();
    if !damaged.is_empty() {
        facts.push((
            "Damaged",
            format!("{} were sent without what is damaged here; `parhelia check` says what", damaged.join(", ")),
        ));
    }
    let columns = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    if !context.out.json {
        context.out.facts(facts, columns)?;
    }
    let last = last.as_ref();
    context.out.summary(Summary::RemoteStatus(RemoteStatus {
        url: joined.url,
        bucket: joined.bucket,
        encrypted: joined.encrypted,
        machine: machine.map(|state| state.machine.to_string()),
        waiting_checkpoints: backlog.checkpoints,
        waiting_events: backlog.events,
        oldest_waiting_at: backlog.oldest,
        is_not_known: backlog.is_not_known,
        last_push_at: last.map(|last| last.at),
        last_push_error: last.and_then(|last| last.error.clone()),
        failing_since: last.and_then(|last| last.failing_since),
        damaged,
    }))?;
    Ok(Code::Done)
}
