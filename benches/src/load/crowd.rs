//! Many listeners and many requests at once, while checkpoints are made.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    Row,
    http::Connection,
    listeners::Listeners,
    milliseconds, percentile,
    served::{Place, Service, file_of, make_files, write},
};
use crate::error::{Error, Result};

/// The bar.
const BAR: Duration = Duration::from_millis(50);
/// The session that is asked about, with its files and checkpoints.
const SESSION: &str = "crowd";
const FILES: usize = 500;
const CHECKPOINTS: usize = 50;
/// Connections over which requests are sent.
const CONNECTIONS: usize = 32;
/// The pause between two checkpoints.
const BETWEEN: Duration = Duration::from_millis(500);

/// The load.
#[derive(Debug)]
pub struct Crowd {
    /// Number of listeners to the service's events.
    pub listeners: usize,
    /// Requests a second.
    pub rate: usize,
    /// Seconds for which requests are sent.
    pub seconds: usize,
}

/// The latencies of requests, the number of those that failed, and the number of checkpoints that were made meanwhile.
#[derive(Default)]
struct Measurement {
    times: Vec<Duration>,
    failed: usize,
    made: usize,
}

/// Measures latencies and missed events under a load.
pub fn crowd(place: &Place, crowd: &Crowd) -> Result<Vec<Row>> {
    let mut served = Service::start(place)?;
    make_files(&served.workspace(SESSION), FILES)?;
    served.agents(&[SESSION.to_owned()])?;
    for version in 1..=CHECKPOINTS {
        checkpoint(&served, version)?;
    }
    let listeners = Listeners::connect(&served.socket(), crowd.listeners, None)?;
    eprintln!("{} listeners are connected", crowd.listeners);
    let begin = sequence(&served)?;
    let asked = ask(&served, crowd)?;
    let end = sequence(&served)?;
    let heard = listeners.heard(end)?;
    let all = Listeners::connect(&served.socket(), 1, Some(begin))?.heard(end)?.concat();
    let missed: usize = heard.into_iter().map(|heard| missed(&all, heard)).sum();
    let (half, most) = (percentile(&asked.times, 0.5), percentile(&asked.times, 0.99));
    let Crowd { listeners, rate, seconds } = crowd;
    let memory = served.peak_memory()? as f64 / 1024.0;
    Ok(vec![
        Row::plain(format!("{listeners} listeners, {rate} requests a second (list, diff), {seconds} s: p50"), milliseconds(half)),
        Row::held("… p99", milliseconds(most), "50 ms", most < BAR),
        Row::held("… requests that failed", asked.failed.to_string(), "0", asked.failed == 0),
        Row::held(
            format!("… events missed, of {} for each listener ({} checkpoints)", all.len(), asked.made),
            missed.to_string(),
            "0",
            missed == 0,
        ),
        Row::plain("… peak memory", format!("{memory:.1} MiB")),
    ])
}

fn missed(all: &[u64], heard: Vec<u64>) -> usize {
    let heard: HashSet<u64> = heard.into_iter().collect();
    all.iter().filter(|sequence| !heard.contains(sequence)).count()
}

fn sequence(served: &Service) -> Result<u64> {
    served.connect()?.get("/health")?["sequence"].as_u64().ok_or_else(|| Error::new("the service tells no sequence"))
}

fn checkpoint(served: &Service, version: usize) -> Result<()> {
    let file = version % FILES;
    write(&file_of(&served.workspace(SESSION), file), file, version)?;
    served.connect()?.post(&format!("/v1/sessions/{SESSION}/checkpoints")).map(drop)
}

/// The paths that are asked for in turn.
fn paths(served: &Service) -> Result<Vec<String>> {
    let list = format!("/v1/sessions/{SESSION}/checkpoints?limit={CHECKPOINTS}");
    let listed = served.connect()?.get(&list)?;
    let ids: Vec<&str> = listed["checkpoints"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    let diffs = ids.windows(2).map(|two| format!("/v1/checkpoints/{}/diff?to={}", two[1], two[0]));
    Ok(diffs.flat_map(|diff| [list.clone(), diff]).collect())
}

/// Sends requests at a fixed rate. Latencies count from the moment at which a request is due, so that waiting for a free connection counts.
fn ask(served: &Service, crowd: &Crowd) -> Result<Measurement> {
    let paths = paths(served)?;
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let total = crowd.rate * crowd.seconds;
    let began = Instant::now();
    let worker = || -> Result<Measurement> {
        let mut connection = served.connect()?;
        let mut asked = Measurement::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return Ok(asked);
            }
            let due = began + Duration::from_secs_f64(number as f64 / crowd.rate as f64);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let is_done = one(served, &mut connection, &paths[number % paths.len()])?;
            asked.times.push(due.elapsed());
            asked.failed += usize::from(!is_done);
        }
    };
    let maker = || -> Result<usize> {
        let mut made = 0;
        while !is_over.load(Ordering::Relaxed) {
            made += 1;
            checkpoint(served, CHECKPOINTS + made)?;
            thread::sleep(BETWEEN);
        }
        Ok(made)
    };
    thread::scope(|scope| {
        let making = scope.spawn(maker);
        let workers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(worker)).collect();
        let mut all = Measurement::default();
        let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        for done in done {
            let asked = done.map_err(|_| Error::new("a worker panicked"))??;
            all.times.extend(asked.times);
            all.failed += asked.failed;
        }
        all.made = making.join().map_err(|_| Error::new("the maker of checkpoints panicked"))??;
        all.times.sort();
        Ok(all)
    })
}

/// Sends a request; false if it fails. A connection that was lost is made anew.
fn one(served: &Service, connection: &mut Connection, path: &str) -> Result<bool> {
    match connection.send("GET", path, "") {
        Ok((status, _)) => Ok(status == 200),
        Err(e) => {
            eprintln!("{}", e.chain());
            *connection = served.connect()?;
            Ok(false)
        }
    }
}
