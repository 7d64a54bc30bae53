//! Stopping what a dead run has left behind: asked first, then forced, and only what is proven to be the run's.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Signal, pidfd_send_signal},
};

use super::survey::{Owner, Process, Roots, found};
use crate::error::{Error, Result};

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// After SIGTERM, or by itself.
    Asked,
    /// After SIGKILL.
    Forced,
    /// Not at all, within the time.
    Not,
}

/// The result of stopping a run's processes.
#[derive(Debug, Default)]
pub struct StopReport {
    /// The run's processes, and how each ended.
    pub ended: Vec<(Process, Termination)>,
    /// Processes in the workspace, or with the run's marker, that are not proven to be the run's; they were left alone.
    pub others: Vec<Process>,
}

impl StopReport {
    /// True if none of the run's processes lives.
    pub fn is_clean(&self) -> bool {
        self.ended.iter().all(|(_, ended)| *ended != Termination::Not)
    }
}

/// New processes may appear while others are stopped; this often is looked again.
const ROUNDS_MAX: u32 = 4;

/// Stops the processes of a run. Each round waits for at most `patience` after SIGTERM, and for as long again after SIGKILL.
///
/// A process that does a hook's work is neither stopped nor waited for: it may wait for a lock that the caller holds, and ends by itself.
pub fn stop(run: &str, roots: &Roots, workspace: &Path, patience: Duration) -> Result<StopReport> {
    let mut all = StopReport::default();
    for _ in 0..ROUNDS_MAX {
        let found = found(run, roots, workspace)?.into_iter().filter(|found| !found.is_of_hooks());
        let (ours, others): (Vec<_>, Vec<_>) = found.partition(|found| found.owner == Owner::Run);
        all.others = others;
        if ours.is_empty() {
            return Ok(all);
        }
        all.ended.retain(|(_, ended)| *ended != Termination::Not);
        all.ended.extend(stop_these(ours, patience)?);
    }
    Ok(all)
}

fn stop_these(ours: Vec<Process>, patience: Duration) -> Result<Vec<(Process, Termination)>> {
    for found in &ours {
        send(found, Signal::TERM)?;
    }
    let until = Instant::now() + patience;
    let (gone, left): (Vec<_>, Vec<_>) = ours.into_iter().partition(|found| has_ended(found, until));
    for found in &left {
        send(found, Signal::KILL)?;
    }
    let until = Instant::now() + patience;
    let mut all: Vec<_> = gone.into_iter().map(|found| (found, Termination::Asked)).collect();
    all.extend(left.into_iter().map(|found| {
        let ended = if has_ended(&found, until) { Termination::Forced } else { Termination::Not };
        (found, ended)
    }));
    Ok(all)
}

fn send(found: &Process, signal: Signal) -> Result<()> {
    match pidfd_send_signal(&found.fd, signal) {
        // It has ended by itself.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(Error::Signal { process: found.identity.process, source: e.into() }),
    }
}

fn has_ended(found: &Process, until: Instant) -> bool {
    found.ends_within(until.saturating_duration_since(Instant::now()))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{Child, Command, Stdio},
    };

    use super::*;
    use crate::process::{Identity, RUN_MARKER};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A shell script in a folder, with or without a marker; it has printed a line when this returns.
    fn start(script: &str, folder: &Path, run: Option<&str>) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).stdout(Stdio::piped()).env_remove(RUN_MARKER);
        if let Some(run) = run {
            command.env(RUN_MARKER, run);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// The name of a process that has a run's marker.
    fn marked(run: &str) -> Option<String> {
        let marker = format!("{RUN_MARKER}={run}");
        let mut processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let has_marker = |path: &std::path::PathBuf| {
            let environment = std::fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
        };
        let found = processes.find(has_marker);
        found.and_then(|path| std::fs::read_to_string(path.join("comm")).ok()).map(|name| name.trim().to_owned())
    }

    fn run_id() -> String {
        format!("test-{}", uuid::Uuid::new_v4())
    }

    fn nobody() -> Roots {
        Roots::default()
    }

    fn owners(found: &[Process]) -> Vec<(i32, Owner)> {
        found.iter().map(|found| (found.identity.process, found.owner)).collect()
    }

    /// Waits until a child has become another program.
    fn wait_until_it_is(child: &Child, name: &str) {
        let began = Instant::now();
        let path = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&path).unwrap().trim() != name {
            assert!(began.elapsed() < PATIENCE, "it is no {name}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn only_what_is_proven_to_be_the_runs_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let run = run_id();
        // The shell ends, and its child lives on, as the agent's tools do.
        let mut orphan = start("sleep 1000 & echo ready", &path, Some(&run));
        orphan.wait().unwrap();
        let began = Instant::now();
        while marked(&run).as_deref() != Some("sleep") {
            assert!(began.elapsed() < PATIENCE, "it does not sleep");
        }
        let mut foreign = start("echo ready; exec sleep 1000", &path, None);
        let mut another = start("echo ready; exec sleep 1000", &path, Some(&run_id()));
        let mut elsewhere = start("echo ready; exec sleep 1000", Path::new("/"), Some(&format!("{run}x")));
        // Somebody's work in another folder, to which a tool has handed on its environment.
        let mut inherited = start("echo ready; exec sleep 1000", Path::new("/"), Some(&run));

        let stopped = stop(&run, &nobody(), &path, PATIENCE).unwrap();
        let ended: Vec<_> = stopped.ended.iter().map(|(found, how)| (found.name.as_str(), *how)).collect();
        assert_eq!(ended, [("sleep", Termination::Asked)]);
        let others = owners(&stopped.others);
        assert!(others.contains(&(foreign.id() as i32, Owner::Unknown)), "{others:?}");
        assert!(others.contains(&(another.id() as i32, Owner::AnotherRun)), "{others:?}");
        assert!(others.contains(&(inherited.id() as i32, Owner::Marked)), "{others:?}");
        assert!(stopped.others.iter().any(|o| o.text().contains("sleep 1000")));
        for child in [&mut foreign, &mut another, &mut elsewhere, &mut inherited] {
            assert!(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(stop(&run, &nobody(), &path, PATIENCE).unwrap().ended.is_empty());
    }

    #[test]
    fn what_descends_from_the_agent_is_the_runs_wherever_it_works() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_id();
        // A tool of the agent in another folder, and an agent that has ended but for what it led.
        let script = "cd /; sleep 1000 & echo ready; wait";
        let mut agent = start(script, folder.path(), Some(&run));
        let identity = Identity::of(agent.id() as i32).unwrap();
        let found = found(&run, &Roots { agent: Some(identity.clone()), ..Roots::default() }, folder.path()).unwrap();
        let mut tools = found.iter().filter(|found| found.identity != identity);
        assert!(tools.all(|tool| tool.owner == Owner::Run), "{:?}", owners(&found));
        assert_eq!(found.len(), 2, "{:?}", owners(&found));
        let launcher = Roots { launcher: Some(identity), ..Roots::default() };
        assert_eq!(stop(&run, &launcher, folder.path(), PATIENCE).unwrap().ended.len(), 1, "its launcher is not the run's");
        agent.wait().unwrap();

        let mut leader = Command::new("sh");
        leader.args(["-c", "cd /; sleep 1000 & echo ready"]).env(RUN_MARKER, &run).stdout(Stdio::piped());
        let mut leader = std::os::unix::process::CommandExt::process_group(&mut leader, 0).spawn().unwrap();
        let identity = Identity::of(leader.id() as i32).unwrap();
        leader.wait().unwrap();
        let began = Instant::now();
        while marked(&run).as_deref() != Some("sleep") {
            assert!(began.elapsed() < PATIENCE, "it does not sleep");
        }
        assert!(stop(&run, &nobody(), folder.path(), PATIENCE).unwrap().ended.is_empty());
        let roots = Roots { agent: Some(identity), ..Roots::default() };
        assert_eq!(stop(&run, &roots, folder.path(), PATIENCE).unwrap().ended.len(), 1);
    }

    #[test]
    fn a_multiplexer_and_what_is_in_its_terminals_are_nobodys_tools() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_id();
        let socket = folder.path().join("socket");
        let tmux = |arguments: &[&str]| {
            let mut command = Command::new("tmux");
            command.arg("-S").arg(&socket).args(["-f", "/dev/null"]).args(arguments).env(RUN_MARKER, &run);
            let output = command.env_remove("TMUX").current_dir(folder.path()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        tmux(&["new-session", "-d", "-s", "x", "sleep 1000"]);
        let server: i32 = tmux(&["display-message", "-p", "#{pid}"]).parse().unwrap();
        let pane: i32 = tmux(&["display-message", "-p", "#{pane_pid}"]).parse().unwrap();
        let stopped = stop(&run, &nobody(), folder.path(), PATIENCE).unwrap();
        assert!(stopped.ended.is_empty(), "{:?}", stopped.ended);
        let others = owners(&stopped.others);
        for process in [server, pane] {
            assert!(others.contains(&(process, Owner::Marked)), "{others:?}");
        }
        tmux(&["kill-server"]);
    }

    #[test]
    fn what_stands_beside_another_runs_agent_is_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (run, other) = (run_id(), run_id());
        let script = format!("{RUN_MARKER}={other} sleep 1000 & echo ready; wait");
        let mut supervisor = start(&script, folder.path(), Some(&run));
        let began = Instant::now();
        while marked(&other).as_deref() != Some("sleep") {
            assert!(began.elapsed() < PATIENCE, "it does not sleep");
        }
        let stopped = stop(&run, &nobody(), folder.path(), PATIENCE).unwrap();
        assert!(stopped.ended.is_empty(), "{:?}", stopped.ended);
        assert_eq!(stop(&other, &nobody(), folder.path(), PATIENCE).unwrap().ended.len(), 1);
        supervisor.wait().unwrap();
    }

    #[test]
    fn another_runs_agent_that_has_inherited_the_marker_is_spared_with_its_tools() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_id();
        let mut agent = start("sleep 1000 & echo ready; wait", folder.path(), Some(&run));
        let apart = vec![Identity::of(agent.id() as i32).unwrap()];
        let stopped = stop(&run, &Roots { apart, ..Roots::default() }, folder.path(), PATIENCE).unwrap();
        assert!(stopped.ended.is_empty(), "{:?}", stopped.ended);
        assert_eq!(stopped.others.len(), 2, "{:?}", owners(&stopped.others));
        assert_eq!(stop(&run, &nobody(), folder.path(), PATIENCE).unwrap().ended.len(), 2);
        agent.wait().unwrap();
    }

    #[test]
    fn folders_are_compared_as_the_kernel_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let run = run_id();
        let mut child = start("echo ready; exec sleep 1000", &real, Some(&run));
        wait_until_it_is(&child, "sleep");
        let owner = |workspace: &Path| owners(&found(&run, &nobody(), workspace).unwrap());
        assert_eq!(owner(&link), [(child.id() as i32, Owner::Run)]);
        // A workspace that was removed under it.
        std::fs::remove_dir(&real).unwrap();
        assert_eq!(owner(&real), [(child.id() as i32, Owner::Run)]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_agent_itself_is_known_by_its_identity() {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = start("echo ready; exec sleep 1000", Path::new("/"), None);
        let identity = Identity::of(agent.id() as i32).unwrap();
        let other = Identity { start_time: identity.start_time + 1, ..identity.clone() };
        let of = |agent: Identity| Roots { agent: Some(agent), ..Roots::default() };
        assert!(stop(&run_id(), &of(other), folder.path(), PATIENCE).unwrap().ended.is_empty());
        assert_eq!(stop(&run_id(), &of(identity), folder.path(), PATIENCE).unwrap().ended.len(), 1);
        agent.wait().unwrap();
    }

    #[test]
    fn what_does_not_listen_is_forced() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_id();
        let mut deaf = start("trap '' TERM; echo ready; while :; do sleep 1000; done", folder.path(), Some(&run));
        let stopped = stop(&run, &nobody(), folder.path(), Duration::from_secs(2)).unwrap();
        assert!(stopped.is_clean());
        assert!(
            stopped.ended.iter().any(|(found, how)| found.name == "sh" && *how == Termination::Forced),
            "{:?}",
            stopped.ended
        );
        deaf.wait().unwrap();
    }
}
