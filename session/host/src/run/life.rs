//! The life of a run: alive, starting, over or elsewhere.

use std::{collections::BTreeMap, ffi::OsString, iter, path::Path};

use jiff::Timestamp;
use parhelia_ledger::{By, End, LedgerView as _, Run, Session, Tmux, known};
use parhelia_store::{Store, clock};

use super::lease;
use crate::{Host, Result};
use parhelia_agent::process::{
    Identity, RUN_MARKER, Roots, boot_id, canonical, host_name, is_here, is_initial, machine, sees_all, within_container,
};

/// The field of a run that says why somebody ends its agent, for people.
pub const STOPPING: &str = "stopping";

/// The field of a run that names the process which started the agent and waits for it.
pub const LAUNCHER: &str = "launcher";

/// The field of a run that says at whose wish its agent is being ended.
pub const STOPPING_BY: &str = "stopping_by";

/// The field of a run that tells until when its agent may take to end by such a wish. Whoever had it may have been killed before.
pub const STOPPING_UNTIL: &str = "stopping_until";

/// The wish at which somebody ends a run's agent; none where nobody does, or where it went on for longer than that was waited for.
pub fn stopping(run: &Run) -> Option<By> {
    let until = text(run, STOPPING_UNTIL).and_then(|until| until.parse::<Timestamp>().ok());
    let is_over = until.is_some_and(|until| until < clock::timestamp());
    By::told(run.extra.get(STOPPING_BY), text(run, STOPPING)).filter(|_| !is_over)
}

/// Checks whether a signal interrupted a run's program, at nobody's wish or with its terminal or machine, or nobody saw its end.
pub fn was_killed(run: &Run) -> bool {
    // An agent that takes the signal of a terminal or a machine that ends may end with a code.
    let is_shutdown = |end: &End| end.by == Some(By::Shutdown);
    ended_unseen(run) || run.ending().is_some_and(|end| end.was_killed() || is_shutdown(&end))
}

/// Checks whether nobody saw the end of a run's program. One whose launcher was killed before it started the program had none.
pub fn ended_unseen(run: &Run) -> bool {
    let has_begun = run.pid.is_some() || launcher_of(run).is_none() || is_elsewhere(run);
    has_begun && (run.extra.contains_key(HEARD) || run.ending().is_none())
}

/// Checks whether a run's program ended by itself with exit code 0.
pub fn has_finished(run: &Run) -> bool {
    run.ending().is_some_and(|end| end.has_finished())
}

/// The field of a run of which nobody saw the end: the time at which it was last heard of.
pub(super) const HEARD: &str = "heard";
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

/// A recorded process of a run as it is numbered here, where it lives in a container that can be looked into, also where its lease has run out: a machine
/// that sleeps renews none.
fn as_seen(run: &Run, recorded: Identity) -> Identity {
    let may_live = || run.is_open() && sees_all() && is_this_boot(run);
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

/// True if the network that this process sees is another one than those that open runs of this machine were started in: what an agent has put into a
/// network of its own reaches nobody whom a person wants told.
pub fn is_apart_in_network(runs: &BTreeMap<String, Run>) -> bool {
    let network = |process: i32| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let begun_by = |run: &Run| launcher_of(run).map_or_else(|| roots_of(run).all().cloned().collect(), |launcher| vec![launcher]);
    let live = runs.values().filter(|run| run.is_open()).flat_map(begun_by).filter(Identity::is_alive);
    let networks: Vec<_> = live.filter_map(|process| network(process.process)).collect();
    network(std::process::id().cast_signed()).is_some_and(|own| !networks.is_empty() && !networks.contains(&own))
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

/// True if some processes, one of which started the next, descend from a run's agent or are of it. One that was killed before it had recorded its agent
/// leaves the marker that the agent was started with.
pub fn is_above(run: &Run, line: &[Identity]) -> bool {
    if roots_of(run).all().any(|root| line.iter().any(|known| known.is_same(root))) {
        return true;
    }
    let is_marked = |known: &Identity| {
        let variables = known.variables().unwrap_or_default();
        variables.iter().any(|(name, value)| name == RUN_MARKER && value == run.id.as_str())
    };
    run.pid.is_none() && is_orphaned(run) && line.iter().any(is_marked)
}

/// True if a run's agent, as it was recorded, is one of some processes, be the run over or not.
pub fn has_recorded(run: &Run, line: &[Identity]) -> bool {
    let is_it = |known: &Identity| run.pid == u32::try_from(known.process).ok() && run.start_time == Some(known.start_time);
    line.iter().any(is_it)
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
    /// On another machine, in a container, or not known.
    Elsewhere,
}

fn place(run: &Run) -> Whereabouts {
    if !is_place_known(run) {
        // Whether the machine was started anew cannot be told either.
        return Whereabouts::Elsewhere;
    }
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
    match () {
        () if !is_place_known(run) => format!("{host} (whether that is this machine cannot be told: /proc cannot be read)"),
        () if host == host_name() => format!("{host} (in a container, or another machine of that name)"),
        () => host,
    }
}

/// True if it can be told whether a run is of this machine: by its boot, which only /proc tells, or as it was begun over the API.
fn is_place_known(run: &Run) -> bool {
    is_elsewhere(run) || boot_id().is_ok()
}

/// The reason why it cannot be told whether an open run lives: nothing can be looked at, or no process of it was ever recorded. None of a run whose
/// processes are looked for, and of one of another machine.
pub fn why_unknown(run: &Run) -> Option<String> {
    if !run.is_open() {
        return None;
    }
    if !is_place_known(run) {
        return Some("whether it lives cannot be seen: /proc cannot be read".to_owned());
    }
    let is_untold = matches!(place(run), Whereabouts::Here) && roots_of(run).all().next().is_none();
    is_untold.then(|| {
        let heard = run.lease.as_ref().and_then(|lease| lease.renewed).unwrap_or(run.started_at);
        format!("it was started by hand, and its process is not known; it was last heard of at {}", second_of(heard))
    })
}

/// A time, to the second.
fn second_of(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn is_this_boot(run: &Run) -> bool {
    boot_id().is_ok_and(|own| run.boot_id.as_ref() == Some(&own))
}

/// The agent of a run that was ended while it lived, as `session end --leave-agent` does.
pub fn left_alive(run: &Run) -> Option<Identity> {
    live_agent_of(run).filter(|_| !run.is_open())
}

/// The life of a session's newest agent, also of one that its run does not know any more.
pub fn life_of(store: &Store, session: &Session) -> Result<Life> {
    let run = store.view().newest_run(session)?;
    Ok(run.map_or(Life::Over, |run| left_alive(&run).map_or_else(|| life(&run), Life::Agent)))
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
    let machine = named(run);
    Some(match run.lease.as_ref().and_then(|lease| Some((lease, lease.renewed?))) {
        None => format!("it has no lease: nothing was heard of it from {machine}"),
        Some((lease, renewed)) if lease::is_ahead(lease, clock::timestamp()) => format!(
            "its lease does not count: {machine} renewed it at {}, which is in the future; the clocks differ",
            second_of(renewed)
        ),
        Some((_, renewed)) => {
            format!("its lease has run out: nothing was heard of it from {machine} since {}", second_of(renewed))
        }
    })
}

/// True if a run in a container had a lease, and nothing was heard of it since that ran out. Of one outside of all containers that says nothing: what
/// it has started may be in one, and see as little of it.
pub fn is_silent(run: &Run) -> bool {
    let now = clock::timestamp();
    let is_over = || run.lease.as_ref().and_then(|lease| lease::runs_out(lease, now)).is_some_and(|until| until <= now);
    text(run, PID_NAMESPACE).is_some_and(|namespace| !is_initial(namespace)) && is_over()
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
    runs_in(store, workspace, but, |run| life(run).is_alive())
}

/// Sessions whose agent was left alive when they were ended, in a workspace, or in one that lies in it or around it.
fn left_in(store: &Store, workspace: &Path) -> Result<Vec<(Session, Run)>> {
    runs_in(store, workspace, "", |run| left_alive(run).is_some())
}

/// Sessions other than `but` whose agents work in a workspace, or in one that lies in it or around it, though some of them were ended.
pub fn beside(store: &Store, workspace: &Path, but: &str) -> Result<Vec<Session>> {
    let all = live_in(store, workspace, but)?.into_iter().chain(left_in(store, workspace)?);
    Ok(all.map(|(session, _)| session).filter(|session| session.id != but).collect())
}

fn runs_in(store: &Store, workspace: &Path, but: &str, is_wanted: impl Fn(&Run) -> bool) -> Result<Vec<(Session, Run)>> {
    let view = store.refresh()?;
    let mut live = Vec::new();
    for session in view.sessions()?.into_iter().filter(|session| session.id != but && session.workspace.is_some()) {
        if let Some(run) = view.newest_run(&session)?
            && is_wanted(&run)
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
    let known = known::among(&others, workspace.ancestors()).into_iter().chain(known::below(&others, iter::once(&**workspace)));
    for (_, session) in known {
        apart.retain(|id| *id != session.id);
    }
    sessions.retain(|session| !apart.contains(&session.id.as_str()));
    sessions
}

#[cfg(test)]
mod tests;
