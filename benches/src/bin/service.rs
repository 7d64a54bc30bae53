//! Load on the service: idle sessions, listeners and requests, resuming, and sessions that change files all the time.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, ValueEnum};
use parhelia_benches::{
    error::{self, Context, Error, Result},
    load::{Busy, Crowd, Place, Row, Workload, busy, cold, crowd, idle, list, resume},
    process,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Measures the service under load and prints a table, with the bars
#[derive(Debug, Parser)]
#[command(name = "service")]
struct Options {
    /// An empty folder for the stores and the sessions' folders
    folder: PathBuf,
    /// The binary
    #[arg(long, value_name = "PATH", env = "PARHELIA_BIN", default_value = "parhelia")]
    parhelia: PathBuf,
    /// Only these cases
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Case>,
    /// Minutes for which sessions change files
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Few sessions, listeners and seconds: does everything work?
    #[arg(long)]
    quick: bool,
}

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Sessions whose agents do nothing
    Idle,
    /// Listeners and requests, while checkpoints are made
    Crowd,
    /// A page of sessions, and numbers for a monitor, among many sessions
    List,
    /// Resuming a paused session whose agent lives
    Resume,
    /// Resuming a session whose agent is gone
    Cold,
    /// Sessions that change files all the time
    Busy,
}

/// Open files that the listeners and their connections need.
const FILES_WANTED: u64 = 8192;

fn main() -> ExitCode {
    error::report("service", run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    raise_files()?;
    process::make_dir(&options.folder)?;
    let folder = options.folder.canonicalize().context(|| "find the folder")?;
    let parhelia = program(&options.parhelia)?;
    println!("| what | measured | bar | met |");
    println!("|---|---|---|---|");
    for case in [Case::Idle, Case::Crowd, Case::List, Case::Resume, Case::Cold, Case::Busy] {
        if options.only.is_empty() || options.only.contains(&case) {
            let place = Place { folder: folder.join(format!("{case:?}").to_lowercase()), parhelia: parhelia.clone() };
            process::make_dir(&place.folder)?;
            measure(options, case, &place)?.iter().for_each(|row| println!("{}", row.line()));
            process::remove(&place.folder)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, case: Case, place: &Place) -> Result<Vec<Row>> {
    let minutes = Duration::from_secs(60 * options.minutes);
    match (case, options.quick) {
        (Case::Idle, false) => idle(place, 200, 60),
        (Case::Idle, true) => idle(place, 5, 2),
        (Case::Crowd, false) => crowd(place, &Crowd { listeners: 1000, rate: 500, seconds: 30 }),
        (Case::Crowd, true) => crowd(place, &Crowd { listeners: 10, rate: 50, seconds: 2 }),
        (Case::List, false) => list(place, &Workload { sessions: 1000, each: 10, live: 300, rounds: 200 }),
        (Case::List, true) => list(place, &Workload { sessions: 20, each: 2, live: 5, rounds: 3 }),
        (Case::Resume, false) => resume(place, 200),
        (Case::Resume, true) => resume(place, 10),
        (Case::Cold, false) => cold(place, 83_000, 5),
        (Case::Cold, true) => cold(place, 100, 1),
        (Case::Busy, false) => busy(place, &Busy { sessions: 50, files: 5000, period: Duration::from_secs(30), lasts: minutes }),
        (Case::Busy, true) => {
            let (period, lasts) = (Duration::from_secs(1), Duration::from_secs(3));
            busy(place, &Busy { sessions: 3, files: 100, period, lasts })
        }
    }
}

/// The absolute path of a program: each case runs it in a folder of its own.
fn program(given: &Path) -> Result<PathBuf> {
    let found =
        if given.components().count() > 1 { Some(given.to_owned()) } else { process::find_program(&given.to_string_lossy()) };
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| Error::new(format!("there is no program {}", given.display())))
}

/// Raises the limit of open files, which the service takes over from this process.
fn raise_files() -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES_WANTED, |maximum| maximum.min(FILES_WANTED));
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).context(|| "raise the limit of open files")
}
