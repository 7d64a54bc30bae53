//! A page of the list of sessions, and numbers for a monitor, among many sessions with many checkpoints.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use parhelia_agent::process::Identity;
use parhelia_host::run::{self, Begin};
use parhelia_ledger::{End, Goal, Status};
use parhelia_store::{OpenOptions, Store, create, event::Actor};

use super::{
    Row,
    http::Connection,
    milliseconds, percentile,
    served::{Place, Service},
};
use crate::{
    error::{Context, Error, Result},
    process,
};

/// The bar of a page of sessions.
const LIST_BAR: Duration = Duration::from_millis(15);
/// The bar of the numbers.
const METRICS_BAR: Duration = Duration::from_millis(20);
/// The pause before each request: what was seen of live agents is old behind a few of them.
const BETWEEN: Duration = Duration::from_millis(300);
/// A checkpoint is made each time that so many requests were answered.
const ROUNDS_OF_CHECKPOINT: usize = 10;

/// The store and the requests.
#[derive(Debug)]
pub struct Workload {
    /// Number of sessions in the store.
    pub sessions: usize,
    /// Number of checkpoints of each session.
    pub each: usize,
    /// Sessions whose agents live.
    pub live: usize,
    /// Requests of each kind.
    pub rounds: usize,
}

/// Times `GET /v1/sessions?limit=50` and `GET /metrics`.
pub fn list(place: &Place, listed: &Workload) -> Result<Vec<Row>> {
    let mut served = Service::prepare(place)?;
    let agents = Agents(fill(place, listed)?);
    eprintln!("{} sessions are there, {} of them with a live agent", listed.sessions, agents.0.len());
    served.serve()?;
    served.wait_for(agents.0.len())?;
    let mut connection = served.connect()?;
    let (mut pages, mut numbers) = (Vec::new(), Vec::new());
    for round in 0..listed.rounds {
        pages.push(timed(&mut connection, "/v1/sessions?limit=50")?);
        numbers.push(timed(&mut connection, "/metrics")?);
        if round % ROUNDS_OF_CHECKPOINT == 0 {
            let session = format!("s{}", round % listed.sessions);
            fs::write(served.workspace(&session).join("file"), format!("round {round}")).context(|| "change a file")?;
            connection.post(&format!("/v1/sessions/{session}/checkpoints"))?;
        }
    }
    pages.sort();
    numbers.sort();
    let (page, number) = (percentile(&pages, 0.99), percentile(&numbers, 0.99));
    let among = format!(
        "{} sessions ({} live), {} checkpoints, {} requests, one every {} ms",
        listed.sessions,
        listed.live,
        listed.sessions * listed.each,
        listed.rounds,
        BETWEEN.as_millis()
    );
    Ok(vec![
        Row::plain(format!("{among}: `GET /v1/sessions?limit=50` p50"), milliseconds(percentile(&pages, 0.5))),
        Row::held("… p99", milliseconds(page), "15 ms", page <= LIST_BAR),
        Row::plain("… `GET /metrics` p50", milliseconds(percentile(&numbers, 0.5))),
        Row::held("… p99", milliseconds(number), "20 ms", number <= METRICS_BAR),
    ])
}

fn timed(connection: &mut Connection, path: &str) -> Result<Duration> {
    thread::sleep(BETWEEN);
    let began = Instant::now();
    connection.expect("GET", path, "")?;
    Ok(began.elapsed())
}

/// Stand-ins for agents, which end with this.
struct Agents(Vec<Child>);

impl Drop for Agents {
    fn drop(&mut self) {
        for agent in &mut self.0 {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn failed(what: &str, e: impl std::fmt::Display) -> Error {
    Error::new(format!("{what}: {e}"))
}

/// Fills the store of a place with sessions, each with checkpoints that take turns and a run. The last sessions have live agents.
fn fill(place: &Place, listed: &Workload) -> Result<Vec<Child>> {
    let store =
        parhelia_ledger::open(&place.folder.join("store"), &OpenOptions::default()).map_err(|e| failed("open the store", e))?;
    for number in 0..listed.sessions * listed.each {
        let session = format!("s{}", number % listed.sessions);
        let workspace = place.folder.join("work").join(&session);
        process::make_dir(&workspace)?;
        fs::write(workspace.join("file"), format!("version {number}")).context(|| "write a file")?;
        let options = create::Options { workspace, session, threads: 1, ..Default::default() };
        create::run(&store, &options, &()).map_err(|e| failed("make a checkpoint", e))?;
    }
    let mut agents = Vec::new();
    for number in 0..listed.sessions {
        let session = format!("s{number}");
        let workspace = place.folder.join("work").join(&session);
        let is_live = number >= listed.sessions - listed.live;
        agents.extend(ran(&store, session, &workspace, is_live).map_err(|e| failed("record a run", e))?);
    }
    Ok(agents)
}

/// Records a run of a session: one that is over, or one with a live agent, which is returned.
fn ran(
    store: &Store,
    session: String,
    workspace: &Path,
    is_live: bool,
) -> std::result::Result<Option<Child>, Box<dyn std::error::Error>> {
    let agent = match is_live {
        true => Some(Command::new("sleep").arg("100000").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?),
        false => None,
    };
    let identity = agent.as_ref().map(|agent| Identity::of(i32::try_from(agent.id()).unwrap_or_default())).transpose()?;
    let begin = Begin {
        session,
        workspace: workspace.to_owned(),
        folder: workspace.to_owned(),
        argv: vec!["sleep".into(), "100000".into()],
        agent: identity,
        ..Begin::default()
    };
    let current = run::begin(store, &begin)?;
    if !is_live {
        let end = End::exited(0);
        run::end(store, &current, (end, &end.reason()), (Status::Paused, Some(Goal::Paused)), Actor::default())?;
    }
    Ok(agent)
}
