//! Times of the verbs of `phase` among many phase checkpoints, each as a whole process.

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use clap::Parser;
use parhelia_benches::{
    error::{self, Context, Result},
    load::Row,
    process,
};
use serde_json::json;

/// Times verbs of `phase`
#[derive(Debug, Parser)]
#[command(name = "phases")]
struct Options {
    /// An empty folder
    folder: PathBuf,
    /// The binary
    #[arg(long, default_value = "parhelia")]
    parhelia: PathBuf,
    /// Number of phase checkpoints
    #[arg(long, default_value_t = 10_000)]
    phases: usize,
    /// Number of times that each verb is timed
    #[arg(long, default_value_t = 25)]
    rounds: usize,
}

/// The times that the verbs may take.
const CREATE_MAX: Duration = Duration::from_millis(50);
const DETECT_MAX: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    error::report("phases", run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let folder = options.folder.join("checkpoints");
    process::make_dir(&folder)?;
    fs::write(options.folder.join("seed.json"), r#"{"state": {}}"#).context(|| "write the seed")?;
    // All are completed but the oldest: none is found before all are read.
    for number in 0..options.phases {
        let text = json!({
            "id": format!("id{number}"), "sessionId": "a session", "phase": "Build", "phaseNumber": 4,
            "createdAt": format!("2026-01-{:02}T00:00:00Z", 1 + number % 28), "completed": number != 0,
            "taskSummary": "Have the parser take dates of all locales", "iscCriteria": [
                {"id": "1", "subject": "All tests pass", "status": "pending"},
                {"id": "2", "subject": "No date is read as another one", "status": "in_progress"}
            ],
            "metadata": {"branch": format!("dates-{number}"), "files": ["src/parser.rs", "src/locale.rs", "tests/dates.rs"]}
        });
        fs::write(folder.join(format!("ckpt-2026-01-01T00-00-00Z-build-id{number}.json")), text.to_string())
            .context(|| "write")?;
    }
    let create = ["create", "Build", "--number", "4", "--task", "Have the parser take dates of all locales"];
    let cases = [("phase create", &create[..], CREATE_MAX), ("phase detect", &["detect"], DETECT_MAX)];
    println!("| among {} phase checkpoints, median of {} | measured | bar | met |", options.phases, options.rounds);
    println!("|---|---|---|---|");
    // The one that is found first is the oldest again.
    for (what, words, most) in cases.into_iter().rev() {
        let took = median(options, words)?;
        let bar = if most == CREATE_MAX { "50 ms" } else { "100 ms" };
        println!("{}", Row::held(what, format!("{:.1} ms", took.as_secs_f64() * 1000.0), bar, took <= most).line());
    }
    Ok(())
}

/// The median of some runs, behind one that is not counted.
fn median(options: &Options, words: &[&str]) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..=options.rounds {
        let mut command = Command::new(&options.parhelia);
        command.args(["--quiet", "phase", "--folder"]).arg(&options.folder).args(words);
        let began = Instant::now();
        process::output(&mut command)?;
        times.push(began.elapsed());
    }
    times.remove(0);
    times.sort();
    Ok(times[times.len() / 2])
}
