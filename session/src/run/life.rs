//! The life of a run: alive, starting, over or elsewhere.

use std::{ffi::OsString, iter, path::Path};

use jiff::Timestamp;
use parhelia_store::{
    Store, clock,
    place::{known_among, known_below},
    projection::{By, EndKind, Run, Session, Tmux},
};

use super::lease;
use crate::{error::Result, host::Host};
use parhelia_agent::process::{
    Identity, RUN_MARKER, Roots, boot_id, canonical, host_name, is_here, machine, sees_all, within_container,
};

/// The field of a run that says why somebody ends its agent, for people.
pub const STOPPING: &str = "stopping";

/// The field of a run that names the process which started the agent and waits for it.
pub const LAUNCHER: &str = "launcher";

/// The field of a run that says at whose wish its agent is being ended.
pub const STOPPING_BY: &str = "stopping_by";

/// The wish at which somebody ends a run's agent; none where nobody does.
pub fn stopping(run: &Run) -> Option<By> {
    By::told(run.extra.get(STOPPING_BY), text(run, STOPPING))
}

/// Checks whether a signal interrupted a run's program, or nobody saw its end.
pub fn was_killed(run: &Run) -> bool {
    run.ending().is_none_or(|end| end.kind == EndKind::Signalled)
}

/// Checks whether a run's program ended by itself with exit code 0.
pub fn has_finished(run: &Run) -> bool {
    run.ending().is_some_and(|end| end.has_finished())
}

/// The field of a run that names the namespace in which its process numbers count.
pub const PID_NAMESPACE: &str = "pid_namespace";
/// The namespace of a run that was begun over the API, from where nothing of it is seen here.
pub(super) const ELSEWHERE: &str = "elsewhere";
/// The field of a run that names its machine over all boots.
pub const MACHINE: &str = "machine";

fn text<'a>(run: &'a Run, field: &str) -> Option<&'a str> {
    run.extra.get(field).and_then(|value| value.as_str())
}

/// The life of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its agent runs here: which process.
    Agent(Identity),
    /// Its agent is being started here.
    Starting(Identity),
    /// It is over, or nothing of it is left.
    Over,
    /// It is another machine's, whose lease has not run out.
    Elsewhere {
        /// The machine.
        host: String,
        /// Time at which the lease runs out, if it is not renewed.
        until: Timestamp,
    },
}

impl Life {
    /// Checks whether it may still act.
    pub fn is_alive(&self) -> bool {
        *self != Life::Over
    }
}

/// The process of a run's agent.
pub fn agent_of(run: &Run) -> Option<Identity> {
    let process = i32::try_from(run.pid?).ok()?;
    let pid_namespace = text(run, PID_NAMESPACE).map(str::to_owned);
    Some(as_seen(run, Identity { process, start_time: run.start_time?, boot_id: run.boot_id.clone()?, pid_namespace }))
}

/// A recorded process of a run as it is numbered here, where it lives in a container that can be looked into. What has not been heard of for
/// long is not looked for, as that takes a look at all processes.
fn as_seen(run: &Run, recorded: Identity) -> Identity {
    let may_live = || run.is_open() && until(run).is_some() && sees_all() && is_this_boot(run);
    if recorded.is_visible() || !may_live() {
        return recorded;
    }
    within_container(recorded.process, recorded.start_time).unwrap_or(recorded)
}

/// The field of a run that names the agent's process that its hooks come from, where that is not the run's program, such as a script.
pub const HOOKED_AGENT: &str = "hooked_agent";

/// The agent's process that a run's hooks come from, where that is not the run's program.
pub fn hooked_agent_of(run: &Run) -> Option<Identity> {
    let recorded = run.extra.get(HOOKED_AGENT).and_then(|value| serde_json::from_value(value.clone()).ok());
    recorded.map(|recorded| as_seen(run, recorded))
}

/// The live process of a run's program, or of the agent that this has started.
fn live_agent_of(run: &Run) -> Option<Identity> {
    agent_of(run).into_iter().chain(hooked_agent_of(run)).find(Identity::is_alive)
}

/// The variables that a run's agent was started with; none where it is dead, or cannot be seen from here.
pub fn variables_of(run: &Run) -> Option<Vec<(OsString, OsString)>> {
    // A script may have set more for the agent behind it.
    hooked_agent_of(run).into_iter().chain(agent_of(run)).find_map(|agent| agent.variables().ok())
}

/// The process that started a run's agent, and waits for it.
pub fn launcher_of(run: &Run) -> Option<Identity> {
    let recorded = run.extra.get(LAUNCHER).and_then(|value| serde_json::from_value(value.clone()).ok());
    recorded.map(|recorded| as_seen(run, recorded))
}

/// True if a run goes on without the process that started its agent and was to record its end.
pub fn is_orphaned(run: &Run) -> bool {
    run.is_open() && launcher_of(run).is_some_and(|launcher| launcher.is_visible() && !launcher.is_alive())
}

/// The processes from which everything of a run descends.
pub fn roots_of(run: &Run) -> Roots {
    Roots { agent: agent_of(run), hooked: hooked_agent_of(run), launcher: launcher_of(run), apart: Vec::new() }
}

/// The same, with the live agents of all other runs, none of whose processes are this one's.
pub fn roots_in(store: &Store, run: &Run) -> Result<Roots> {
    let others = store.view().runs()?.into_values().filter(|other| other.id != run.id && other.is_open());
    let apart = others.filter_map(|other| live_agent_of(&other)).collect();
    Ok(Roots { apart, ..roots_of(run) })
}

/// Checks whether the caller is a tool of a run's live agent: it carries the run's marker and descends from the agent. Other processes
/// inherit the marker from a tool that started something of its own. In a sandbox that hides the agent, the marker alone decides.
pub fn is_inside(run: &Run, host: &dyn Host) -> bool {
    let line = host.line();
    host.variable(RUN_MARKER).is_some_and(|id| id == run.id.as_str())
        && roots_of(run).all().any(|root| line.iter().any(|known| known.is_same(root)) || !root.is_visible())
}

/// Place of a run's processes, seen from here.
enum Whereabouts {
    /// In sight.
    Here,
    /// On this machine, before it was started anew.
    Gone,
    /// On another machine, or in a container.
    Elsewhere,
}

fn place(run: &Run) -> Whereabouts {
    let namespace = text(run, PID_NAMESPACE);
    let is_host = run.host.as_ref().is_none_or(|host| *host == host_name());
    let is_here = run.boot_id.as_deref().is_some_and(|boot| is_here(boot, namespace));
    match (namespace, is_here) {
        // Earlier releases recorded the machine's name alone.
        (None, true) if is_host => Whereabouts::Here,
        (None, false) if is_host => Whereabouts::Gone,
        (None, _) => Whereabouts::Elsewhere,
        (Some(_), true) => Whereabouts::Here,
        // Another boot id means that a run is dead only on the machine that it ran on.
        (Some(_), false) => match (text(run, MACHINE), machine()) {
            (Some(theirs), Some(own)) if theirs == own && !is_this_boot(run) => Whereabouts::Gone,
            _ => Whereabouts::Elsewhere,
        },
    }
}

/// True of a run that was begun over the API, by a machine of which nothing is seen here but its lease.
pub fn is_elsewhere(run: &Run) -> bool {
    text(run, PID_NAMESPACE) == Some(ELSEWHERE)
}

/// The machine of a run, as others than it itself call it.
fn named(run: &Run) -> String {
    let host = run.host.clone().unwrap_or_default();
    if host == host_name() { format!("{host} (in a container, or another machine of that name)") } else { host }
}

fn is_this_boot(run: &Run) -> bool {
    boot_id().is_ok_and(|own| run.boot_id.as_ref() == Some(&own))
}

/// The agent of a run that was ended while it lived, as `session end --leave-agent` does.
pub fn left_alive(run: &Run) -> Option<Identity> {
    live_agent_of(run).filter(|_| !run.is_open())
}

/// Looks whether a run lives. A process of this machine is asked, in a container below this one as well; for one that cannot be seen from
/// here, because it is another machine's or outside of this container, there is only the lease.
pub fn life(run: &Run) -> Life {
    if !run.is_open() {
        return Life::Over;
    }
    let place = place(run);
    if matches!(place, Whereabouts::Gone) {
        return Life::Over;
    }
    if let Some(agent) = live_agent_of(run) {
        return Life::Agent(agent);
    }
    if matches!(place, Whereabouts::Elsewhere) {
        return until(run).map_or(Life::Over, |until| Life::Elsewhere { host: named(run), until });
    }
    match launcher_of(run).filter(Identity::is_alive) {
        Some(launcher) if run.pid.is_none() => Life::Starting(launcher),
        _ => Life::Over,
    }
}

/// The end of a run's lease, where that is not over.
fn until(run: &Run) -> Option<Timestamp> {
    let now = clock::timestamp();
    run.lease.as_ref().and_then(|lease| lease::runs_out(lease, now)).filter(|until| *until > now)
}

/// The reason why an open run counts as over if its processes cannot be seen from here; none for any other run.
pub fn why_unheard(run: &Run) -> Option<String> {
    if !run.is_open() || !matches!(place(run), Whereabouts::Elsewhere) {
        return None;
    }
    let (machine, at) = (named(run), |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    Some(match run.lease.as_ref().and_then(|lease| Some((lease, lease.renewed?))) {
        None => format!("it has no lease: nothing was heard of it from {machine}"),
        Some((lease, renewed)) if lease::is_ahead(lease, clock::timestamp()) => format!(
            "its lease does not count: {machine} renewed it at {}, which is in the future; the clocks differ",
            at(renewed)
        ),
        Some((_, renewed)) => {
            format!("its lease has run out: nothing was heard of it from {machine} since {}", at(renewed))
        }
    })
}

/// The pane of tmux that a session's agent is in, while it lives on this machine.
pub fn tmux_of(store: &Store, session: &Session) -> Result<Option<Tmux>> {
    let run = store.view().newest_run(session)?;
    // In a container, the socket's path may be another server's.
    let is_here = |run: &Run| matches!(place(run), Whereabouts::Here) && matches!(life(run), Life::Agent(_));
    Ok(run.filter(is_here).and_then(|run| run.tmux))
}

/// Sessions other than `but` with a live run in a workspace, or in one that lies in it or around it.
pub fn live_in(store: &Store, workspace: &Path, but: &str) -> Result<Vec<(Session, Run)>> {
    let view = store.refresh()?;
    let mut live = Vec::new();
    for session in view.sessions()?.into_iter().filter(|session| session.id != but && session.workspace.is_some()) {
        if let Some(run) = view.newest_run(&session)?
            && life(&run).is_alive()
        {
            live.push((session, run));
        }
    }
    let here = works_in(live.iter().map(|(session, _)| session.clone()).collect(), workspace);
    live.retain(|(session, _)| here.iter().any(|other| other.id == session.id));
    Ok(live)
}

/// Those of some sessions that work in a folder, in one around it or in one below it. One that was moved is known by its folder.
pub fn works_in(mut sessions: Vec<Session>, workspace: &Path) -> Vec<Session> {
    let workspace = &canonical(workspace);
    let is_recorded = |session: &Session| {
        let other = session.workspace.as_ref().map(|place| canonical(&place.folder()));
        other.is_some_and(|other| other.starts_with(workspace) || workspace.starts_with(&other))
    };
    let others: Vec<Session> = sessions.iter().filter(|session| !is_recorded(session)).cloned().collect();
    let mut apart = others.iter().map(|session| session.id.as_str()).collect::<Vec<_>>();
    let known = known_among(&others, workspace.ancestors()).into_iter().chain(known_below(&others, iter::once(&**workspace)));
    for (_, session) in known {
        apart.retain(|id| *id != session.id);
    }
    sessions.retain(|session| !apart.contains(&session.id.as_str()));
    sessions
}

#[cfg(test)]
mod tests;
