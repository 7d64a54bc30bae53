//! Sessions that change files all the time, and a checkpoint of each after its changes.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use super::{
    Row, milliseconds, percentile,
    served::{Place, Service, content, file_of, make_files, write},
};
use crate::error::{Error, Result};

/// A checkpoint that takes longer is late.
const LATE: Duration = Duration::from_secs(5);
/// Files that change before each checkpoint.
const CHANGED: usize = 10;

/// The load.
#[derive(Debug)]
pub struct Busy {
    /// Number of sessions that change files at the same time.
    pub sessions: usize,
    /// Number of files in each session's folder.
    pub files: usize,
    /// The time between two changes of a session.
    pub period: Duration,
    /// The time that it takes.
    pub lasts: Duration,
}

/// A checkpoint that was asked for.
struct Attempt {
    took: Duration,
    /// Its id; none if it was refused or nothing was found changed.
    id: Option<String>,
    file: usize,
    version: usize,
}

/// Measures how late checkpoints are, and that each is there with its changes.
pub fn busy(place: &Place, busy: &Busy) -> Result<Vec<Row>> {
    let mut served = Service::start(place)?;
    let names: Vec<String> = (0..busy.sessions).map(|number| format!("busy-{number}")).collect();
    for name in &names {
        make_files(&served.workspace(name), busy.files)?;
    }
    served.agents(&names)?;
    eprintln!("{} sessions of {} files run", busy.sessions, busy.files);
    let made = work(&served, busy, &names)?;
    let mut lost = 0;
    for (name, made) in names.iter().zip(&made) {
        lost += missing(&served, name, made)?;
    }
    let mut times: Vec<Duration> = made.iter().flatten().map(|one| one.took).collect();
    times.sort();
    let late = times.iter().filter(|took| **took > LATE).count();
    let what = format!(
        "{} sessions of {} files, {CHANGED} changed every {} s, {} min, {} checkpoints: p50",
        busy.sessions,
        busy.files,
        busy.period.as_secs(),
        busy.lasts.as_secs() / 60,
        times.len()
    );
    Ok(vec![
        Row::plain(what, milliseconds(percentile(&times, 0.5))),
        Row::plain("… p99", milliseconds(percentile(&times, 0.99))),
        Row::held("… late by more than 5 s", late.to_string(), "0", late == 0),
        Row::held("… lost", lost.to_string(), "0", lost == 0),
        Row::plain("… peak memory", format!("{:.1} MiB", served.peak_memory()? as f64 / 1024.0)),
    ])
}

/// Has all sessions change files and asks for their checkpoints. The sessions take turns within a period.
fn work(served: &Service, busy: &Busy, names: &[String]) -> Result<Vec<Vec<Attempt>>> {
    let began = Instant::now();
    let rounds = (busy.lasts.as_secs_f64() / busy.period.as_secs_f64()).floor().max(1.0) as u32;
    let session = |place: usize| -> Result<Vec<Attempt>> {
        let offset = busy.period.mul_f64(place as f64 / names.len() as f64);
        let rounds = (0..rounds).map(|round| {
            let due = began + offset + busy.period * round;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            turn(served, busy, &names[place], due, round as usize)
        });
        rounds.collect()
    };
    thread::scope(|scope| {
        let session = &session;
        let threads: Vec<_> = (0..names.len()).map(|place| scope.spawn(move || session(place))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| Error::new("a session panicked"))?).collect()
    })
}

/// Changes files and asks for a checkpoint. The time counts from the moment at which the changes are due.
fn turn(served: &Service, busy: &Busy, name: &str, due: Instant, round: usize) -> Result<Attempt> {
    let (workspace, version) = (served.workspace(name), round + 1);
    let mut files = (0..CHANGED).map(|number| (round * CHANGED + number) % busy.files);
    for file in files.clone() {
        write(&file_of(&workspace, file), file, version)?;
    }
    // A connection of its own: the service closes those over which nothing is asked.
    let answer = served.connect()?.post(&format!("/v1/sessions/{name}/checkpoints"));
    let took = due.elapsed();
    let id = answer.inspect_err(|e| eprintln!("{}", e.chain())).ok();
    let id =
        id.filter(|answer| answer["created"] == true).and_then(|answer| Some(answer["checkpoint"]["id"].as_str()?.to_owned()));
    Ok(Attempt { took, id, file: files.next_back().unwrap_or_default(), version })
}

/// The number of checkpoints that are not listed, or do not hold the changes before them.
fn missing(served: &Service, name: &str, made: &[Attempt]) -> Result<usize> {
    let mut connection = served.connect()?;
    let listed = connection.get(&format!("/v1/sessions/{name}/checkpoints?limit=1000"))?;
    let listed: HashSet<&str> =
        listed["checkpoints"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    let mut lost = 0;
    for Attempt { id, file, version, .. } in made {
        let Some(id) = id.as_deref().filter(|id| listed.contains(id)) else {
            lost += 1;
            continue;
        };
        let path = format!("/v1/checkpoints/{id}/files/{:03}/file-{file}", file / 100);
        let (status, bytes) = connection.send("GET", &path, "")?;
        lost += usize::from(status != 200 || bytes != content(*file, *version).as_bytes());
    }
    Ok(lost)
}
