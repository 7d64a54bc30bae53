//! Resuming a session whose agent is gone: from the request to the agent's first act, beside the command line.

use std::{fs, path::PathBuf, thread, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use super::{
    Row, milliseconds, percentile,
    served::{Place, Service, make_files},
};
use crate::{
    error::{Context, Error, Result},
    process,
};

/// The time that the service may take longer than the command line.
const OVER_COMMAND: Duration = Duration::from_millis(20);
/// The time that it may take longer than the restore of the workspace alone.
const OVER_RESTORE: Duration = Duration::from_millis(300);
/// The longest wait for an agent.
const LIMIT: Duration = Duration::from_secs(120);

/// An agent that notes when it was started, and knows its conversation again. Its first request to its API would come behind that.
const AGENT: &str = r#"#!/bin/sh
case "$1" in --version) echo 2.1.0; exit;; esac
date +%s%N > "$HOME/draft" && mv "$HOME/draft" "$HOME/started"
for word in "$@"; do case "$before" in --session-id|--resume) id=$word;; esac; before=$word; done
folder=$HOME/.claude/projects/$(pwd | sed 's/[^a-zA-Z0-9]/-/g')
mkdir -p "$folder" "$HOME/.claude/sessions"
printf '{"type":"user","uuid":"%s","sessionId":"%s","message":{"role":"user","content":"a turn"}}\n' "$$" "$id" >> "$folder/$id.jsonl"
echo '{"pid":'$$',"sessionId":"'$id'","status":"idle"}' > "$HOME/.claude/sessions/$$.json"
exec sleep 100000
"#;

/// The session's name.
const SESSION: &str = "cold";

/// Times resuming with the workspace there, and with the workspace gone, in turns with the command line and with a restore.
pub fn cold(place: &Place, files: usize, rounds: usize) -> Result<Vec<Row>> {
    let served = Service::start(place)?;
    let session = Session { served: &served, home: place.folder.join("home"), workspace: served.workspace(SESSION) };
    make_files(&session.workspace, files)?;
    session.begin(&place.folder.join("bin/claude"))?;
    let (mut by_service, mut by_command, mut restored, mut anew) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut restore = || -> Result<()> {
        restored.push(session.restore(&place.folder.join("restored"))?);
        Ok(())
    };
    for round in 0..rounds {
        by_service.push(session.dead(false)?.resumed_by_service()?);
        by_command.push(session.dead(false)?.resumed_by_command()?);
        // Neither is always the one that comes behind the other.
        if round % 2 == 0 {
            restore()?;
        }
        anew.push(session.dead(true)?.resumed_by_service()?);
        if round % 2 == 1 {
            restore()?;
        }
    }
    session.dead(false)?;
    let [by_service, by_command, restored, anew] = [by_service, by_command, restored, anew].map(half);
    let what = format!("resume of a dead session of {files} files, to the agent's first act, median of {rounds}");
    Ok(vec![
        Row::plain(format!("{what}: by the command line"), milliseconds(by_command)),
        Row::held(
            "… by the service",
            milliseconds(by_service),
            "the command line + 20 ms",
            by_service <= by_command + OVER_COMMAND,
        ),
        Row::plain("… restore of its workspace alone", milliseconds(restored)),
        Row::held("… by the service, workspace gone", milliseconds(anew), "the restore + 0.3 s", anew <= restored + OVER_RESTORE),
    ])
}

fn half(mut times: Vec<Duration>) -> Duration {
    times.sort();
    percentile(&times, 0.5)
}

/// Time since 1970.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

struct Session<'a> {
    served: &'a Service,
    home: PathBuf,
    workspace: PathBuf,
}

impl Session<'_> {
    fn started(&self) -> PathBuf {
        self.home.join("started")
    }

    /// Begins it, and makes a checkpoint.
    fn begin(&self, agent: &std::path::Path) -> Result<()> {
        process::make_dir(agent.parent().unwrap_or(agent))?;
        fs::write(agent, AGENT).context(|| "write the agent")?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(agent, executable).context(|| "make the agent a program")?;
        let (workspace, agent) = (self.workspace.to_string_lossy(), agent.to_string_lossy());
        let words = ["session", "run", "--name", SESSION, "--interval", "0", "--tmux", "--detach", "--tmux-socket", "tmux"];
        self.served.run(&[&words[..], &["--workspace", &workspace, "--", &agent]].concat())?;
        self.served.connect()?.post(&format!("/v1/sessions/{SESSION}/checkpoints")).map(drop)
    }

    /// Ends its agent, and removes its workspace where that is asked for.
    fn dead(&self, is_gone: bool) -> Result<&Self> {
        self.wait()?;
        let path = format!("/v1/sessions/{SESSION}/pause");
        self.served.connect()?.expect("POST", &path, r#"{"end_agent": true}"#)?;
        fs::remove_file(self.started()).context(|| "forget the last start")?;
        if is_gone {
            fs::remove_dir_all(&self.workspace).context(|| "remove the workspace")?;
        }
        // The disk's work on what was removed is nobody's who comes then.
        rustix::fs::sync();
        Ok(self)
    }

    /// The time at which the agent was started.
    fn wait(&self) -> Result<Duration> {
        let began = now();
        loop {
            if let Ok(text) = fs::read_to_string(self.started()) {
                return text.trim().parse().map(Duration::from_nanos).context(|| "read the time of the start");
            }
            if now().saturating_sub(began) > LIMIT {
                return Err(Error::new("the agent was not started"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn resumed_by_service(&self) -> Result<Duration> {
        let mut connection = self.served.connect()?;
        let began = now();
        connection.post(&format!("/v1/sessions/{SESSION}/resume"))?;
        Ok(self.wait()?.saturating_sub(began))
    }

    fn resumed_by_command(&self) -> Result<Duration> {
        let began = now();
        self.served.run(&["session", "resume", SESSION, "--tmux", "--detach", "--tmux-socket", "tmux"])?;
        Ok(self.wait()?.saturating_sub(began))
    }

    /// The time of a restore into an empty folder.
    fn restore(&self, folder: &std::path::Path) -> Result<Duration> {
        rustix::fs::sync();
        let began = now();
        let to = folder.to_string_lossy();
        self.served.run(&["checkpoint", "restore", &format!("{SESSION}@latest"), "--to", &to])?;
        let took = now().saturating_sub(began);
        process::remove(folder)?;
        Ok(took)
    }
}
