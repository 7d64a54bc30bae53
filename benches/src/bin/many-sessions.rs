//! Times of verbs in a store of many sessions with many small checkpoints, beside a store of few.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use parhelia_benches::error::{self, Context, Error, Result};
use parhelia_store::{OpenOptions, create, gc};

/// Times verbs in a store of many sessions, and in one of a single session
#[derive(Debug, Parser)]
#[command(name = "many-sessions")]
struct Options {
    /// An empty folder for the stores and the sessions' folders
    folder: PathBuf,
    /// The binary
    #[arg(long, default_value = "parhelia")]
    parhelia: PathBuf,
    /// Number of sessions in the large store
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// Number of checkpoints of each session
    #[arg(long, default_value_t = 100)]
    each: usize,
    /// Number of checkpoints of the session in the small store [default: as many]. With --sessions 1, the times are those of a long session
    /// beside a short one
    #[arg(long)]
    few: Option<usize>,
    /// Number of times that each verb is timed
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// Checkpoints between two collections of garbage, which pack small packs together.
const BETWEEN_GC: usize = 2000;

fn main() -> ExitCode {
    error::report("many-sessions", run(&Options::parse()))
}

fn failed(what: &str, e: impl std::fmt::Display) -> Error {
    Error::new(format!("{what}: {e}"))
}

fn run(options: &Options) -> Result<()> {
    let (few, many) = (options.folder.join("few"), options.folder.join("many"));
    let each_few = options.few.unwrap_or(options.each);
    build(&few, 1, each_few)?;
    build(&many, options.sessions, options.each)?;
    let edit = |store: &Path, round: usize| {
        std::fs::write(work(store, 0).join("file"), format!("edited for round {round}")).context(|| "edit a file")
    };
    let out = options.folder.join("restored");
    println!("| verb | {each_few} checkpoints | {} checkpoints | ratio |", options.sessions * options.each);
    println!("|---|---|---|---|");
    for (number, (name, _)) in verbs(&few, &out).into_iter().enumerate() {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=options.rounds {
            for (store, times) in [&few, &many].into_iter().zip(&mut times) {
                if name == "checkpoint create" {
                    edit(store, round)?;
                }
                let _ = std::fs::remove_dir_all(&out);
                let took = timed(options, store, &verbs(store, &out)[number].1)?;
                if round > 0 {
                    times.push(took);
                }
            }
        }
        let [few, many] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1000.0
        });
        println!("| {name} | {few:.1} ms | {many:.1} ms | {:.2} |", many / few);
    }
    Ok(())
}

/// The verbs, with their arguments for a store.
fn verbs(store: &Path, out: &Path) -> [(&'static str, Vec<String>); 6] {
    let (folder, out) = (work(store, 0).to_string_lossy().into_owned(), out.to_string_lossy().into_owned());
    [
        ("checkpoint create", words(&["checkpoint", "create", "s0", "-w", &folder])),
        ("checkpoint create, unchanged", words(&["checkpoint", "create", "s0", "-w", &folder, "--skip-if-unchanged"])),
        ("checkpoint show s0@latest", words(&["checkpoint", "show", "s0@latest"])),
        ("checkpoint restore s0@latest", words(&["checkpoint", "restore", "s0@latest", "--to", &out])),
        ("session prune s0", words(&["session", "prune", "s0"])),
        ("mounts", words(&["mounts"])),
    ]
}

fn words(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|word| (*word).to_owned()).collect()
}

fn work(store: &Path, session: usize) -> PathBuf {
    store.with_extension("work").join(format!("s{session}"))
}

/// A store of sessions `s0`, `s1`..., whose checkpoints take turns.
fn build(root: &Path, sessions: usize, each: usize) -> Result<()> {
    let store = parhelia_ledger::open(root, &OpenOptions { create: true, ..OpenOptions::default() })
        .map_err(|e| failed("open the store", e))?;
    for number in 0..sessions * each {
        let session = number % sessions;
        let workspace = work(root, session);
        std::fs::create_dir_all(&workspace).context(|| "make a folder")?;
        std::fs::write(workspace.join("file"), format!("version {number}")).context(|| "write a file")?;
        let options = create::Options { workspace, session: format!("s{session}"), threads: 1, ..Default::default() };
        create::run(&store, &options, &()).map_err(|e| failed("create", e))?;
        if number % BETWEEN_GC == BETWEEN_GC - 1 {
            gc::run(&store, &Default::default(), &()).map_err(|e| failed("gc", e))?;
            eprintln!("{} checkpoints", number + 1);
        }
    }
    Ok(())
}

fn timed(options: &Options, store: &Path, arguments: &[String]) -> Result<Duration> {
    let mut command = Command::new(&options.parhelia);
    command.env("PARHELIA_STORE", store).env("HOME", &options.folder).args(arguments);
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let took = began.elapsed();
    match status.context(|| "start the binary")? {
        status if status.success() => Ok(took),
        status => Err(failed(&arguments.join(" "), status)),
    }
}
