//! A service of a store of its own, and the sessions in it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::http::Connection;
use crate::{
    error::{Context, Error, Result},
    process,
};

/// The longest wait for sessions to be there.
const LIMIT: Duration = Duration::from_secs(300);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// Folders of a user that must not be taken over from who runs the benchmark.
const USER_FOLDERS: [&str; 5] = ["XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"];

/// The place of a case: a folder, and the binary.
#[derive(Debug, Clone)]
pub struct Place {
    /// Folder of the store, the sessions' folders and the socket.
    pub folder: PathBuf,
    /// The binary.
    pub parhelia: PathBuf,
}

/// A service that runs, with agents of sessions. All of them end with it.
pub struct Service {
    place: Place,
    service: Option<Child>,
    supervisors: Vec<Child>,
}

impl Service {
    /// Starts a service in an empty folder.
    pub fn start(place: &Place) -> Result<Self> {
        let mut served = Self::prepare(place)?;
        served.serve()?;
        Ok(served)
    }

    /// Makes a store in an empty folder. Its service is not started yet.
    pub fn prepare(place: &Place) -> Result<Self> {
        process::make_dir(&place.folder.join("home"))?;
        process::run(command(place, &["init", "--new", "--quiet"]).stdin(Stdio::null()))?;
        Ok(Self { place: place.clone(), service: None, supervisors: Vec::new() })
    }

    /// Starts the service of its store.
    pub fn serve(&mut self) -> Result<()> {
        let path = self.place.folder.join("service.log");
        let log = File::create(&path).context(|| format!("make {}", path.display()))?;
        let mut command = command(&self.place, &["serve", "--socket", "socket", "--tmux-socket", "tmux"]);
        let service = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().context(|| "start the service")?;
        let said = self.service.insert(service).stdout.take().and_then(|stdout| BufReader::new(stdout).lines().next());
        match said {
            Some(Ok(line)) if line.starts_with("Serving ") => Ok(()),
            _ => Err(Error::new(format!("the service does not start; see {}", path.display()))),
        }
    }

    /// The process of the service.
    fn process(&self) -> Result<u32> {
        self.service.as_ref().map(Child::id).ok_or_else(|| Error::new("the service does not run"))
    }

    /// A connection to the service.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(&self.socket())
    }

    pub fn socket(&self) -> PathBuf {
        self.place.folder.join("socket")
    }

    /// The folder in which a session works.
    pub fn workspace(&self, session: &str) -> PathBuf {
        self.place.folder.join("work").join(session)
    }

    /// Starts a run for each session whose folder is there. The agent is a `sleep` that outlives its supervisor.
    pub fn agents(&mut self, sessions: &[String]) -> Result<()> {
        for session in sessions {
            let workspace = self.workspace(session);
            process::make_dir(&workspace)?;
            let workspace = workspace.to_string_lossy();
            let words = ["session", "run", "--name", session, "--interval", "0", "--workspace", &workspace, "--"];
            let mut command = command(&self.place, &words);
            command.args(["sh", "-c", "trap '' HUP TERM; exec sleep 100000"]);
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            self.supervisors.push(child.context(|| format!("start a run of {session}"))?);
            // A handful at a time: otherwise they wait for each other's commits.
            if self.supervisors.len().is_multiple_of(10) {
                self.wait_for(self.supervisors.len())?;
            }
        }
        self.wait_for(self.supervisors.len())
    }

    /// Runs a command of the program to its end.
    pub fn run(&self, words: &[&str]) -> Result<()> {
        let output = command(&self.place, words).stdin(Stdio::null()).output().context(|| format!("run {}", words.join(" ")))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))),
        }
    }

    /// Waits until the service sees this number of live agents.
    pub fn wait_for(&self, wanted: usize) -> Result<()> {
        let mut connection = self.connect()?;
        let began = Instant::now();
        loop {
            let answer = connection.get("/v1/sessions")?;
            let sessions = answer["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let states = sessions.iter().filter_map(|session| session["observed"].as_str());
            let alive = states.filter(|state| matches!(*state, "live" | "idle" | "waiting")).count();
            if alive >= wanted {
                return Ok(());
            }
            if began.elapsed() > LIMIT {
                return Err(Error::new(format!("{alive} of {wanted} sessions have a live agent after {} s", LIMIT.as_secs())));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Kills the supervisors. The agents stay, and the service alone watches over them.
    pub fn kill_supervisors(&mut self) {
        for supervisor in &mut self.supervisors {
            let _ = supervisor.kill();
            let _ = supervisor.wait();
        }
        self.supervisors.clear();
    }

    /// Processor time that the service has taken.
    pub fn processor_time(&self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.process()?);
        let stat = fs::read_to_string(&path).context(|| format!("read {path}"))?;
        // The name of the program, in parentheses, may hold spaces.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().filter_map(|place| fields.get(*place)?.parse::<u64>().ok()).sum();
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// The most memory that the service had, in KiB.
    pub fn peak_memory(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process()?);
        let status = fs::read_to_string(&path).context(|| format!("read {path}"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak.ok_or_else(|| Error::new(format!("{path} has no VmHWM")))
    }

    /// Processes of agents, as the store knows them.
    fn agent_processes(&self) -> Result<Vec<i32>> {
        let mut connection = self.connect()?;
        let answer = connection.get("/v1/sessions")?;
        let mut found = Vec::new();
        for session in answer["sessions"].as_array().into_iter().flatten().filter_map(|session| session["id"].as_str()) {
            let shown = connection.get(&format!("/v1/sessions/{session}"))?;
            let runs = shown["runs"].as_array().into_iter().flatten();
            found.extend(runs.filter(|run| run["ended_at"].is_null()).filter_map(|run| run["pid"].as_i64()));
        }
        Ok(found.into_iter().filter_map(|pid| i32::try_from(pid).ok()).collect())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let agents = self.agent_processes().unwrap_or_default();
        // The service first: it would resume sessions whose agents die.
        if let Some(service) = &mut self.service {
            let _ = service.kill();
            let _ = service.wait();
        }
        self.kill_supervisors();
        for agent in agents.into_iter().filter(|agent| is_stand_in(*agent)).filter_map(Pid::from_raw) {
            let _ = kill_process(agent, Signal::KILL);
        }
    }
}

/// True of a process that still is one of the agents started here: its number may belong to another one by now.
fn is_stand_in(process: i32) -> bool {
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| line == b"sleep\x00100000\x00")
}

fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new(&place.parhelia);
    command.args(words).current_dir(&place.folder);
    for name in USER_FOLDERS {
        command.env_remove(name);
    }
    command.env("HOME", place.folder.join("home")).env("PARHELIA_STORE", place.folder.join("store"));
    command
}

/// Makes files of a few hundred bytes in a folder, below folders of 100.
pub fn make_files(workspace: &Path, files: usize) -> Result<()> {
    for file in 0..files {
        let path = file_of(workspace, file);
        if file % 100 == 0
            && let Some(folder) = path.parent()
        {
            process::make_dir(folder)?;
        }
        write(&path, file, 0)?;
    }
    Ok(())
}

/// The path of a file that `make_files` makes.
pub fn file_of(workspace: &Path, file: usize) -> PathBuf {
    workspace.join(format!("{:03}", file / 100)).join(format!("file-{file}"))
}

/// Writes a version of a file.
pub fn write(path: &Path, file: usize, version: usize) -> Result<()> {
    fs::write(path, content(file, version)).context(|| format!("write {}", path.display()))
}

/// The content of a version of a file.
pub fn content(file: usize, version: usize) -> String {
    format!("file {file}, version {version}\n").repeat(12)
}
