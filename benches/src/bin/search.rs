//! Times of `checkpoint search` in a store of many checkpoints with conversations: making the index, keeping it up to date, asking it.

use std::{
    fs::{self, OpenOptions as FileOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use parhelia_benches::{
    error::{self, Context, Error, Result},
    text::Text,
};
use parhelia_store::{
    OpenOptions, Store,
    create::{self, CapturedState, CapturedWorkspace, FullWalk, State, StateContent, StateFile},
};
use serde_json::json;

/// Times searches in a store of many checkpoints
#[derive(Debug, Parser)]
#[command(name = "search")]
struct Options {
    /// An empty folder for the store and the sessions' folders; one that was filled before is used as it is
    folder: PathBuf,
    /// The binary
    #[arg(long, default_value = "parhelia")]
    parhelia: PathBuf,
    /// Number of sessions
    #[arg(long, default_value_t = 100)]
    sessions: usize,
    /// Number of checkpoints of each session
    #[arg(long, default_value_t = 100)]
    each: usize,
    /// Number of times that each search is timed
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// Words of the invented language.
const VOCABULARY: usize = 20_000;
/// Sentences that user and agent say in a turn, 1.5 KiB in all.
const SENTENCES: usize = 25;

fn main() -> ExitCode {
    error::report("search", run(&Options::parse()))
}

fn failed(what: &str, e: impl std::fmt::Display) -> Error {
    Error::new(format!("{what}: {e}"))
}

fn run(options: &Options) -> Result<()> {
    let mut talk = Text::new(0x5ea2c4, VOCABULARY);
    let root = options.folder.join("store");
    if !root.exists() {
        build(options, &root, &mut talk)?;
    }
    let index = root.join("cache/search.sqlite");
    println!("| {} checkpoints of {} sessions | |", options.sessions * options.each, options.sessions);
    println!("|---|---|");
    let _ = fs::remove_file(&index);
    println!("| the index is made | {:.1} s |", timed(options, &["search", "nothing"])?.as_secs_f64());
    let bytes = fs::metadata(&index).context(|| "look at the index")?.len();
    println!("| its size | {:.1} MiB |", bytes as f64 / f64::from(1 << 20));
    let (rare, common) = (format!("rare{}", options.sessions * options.each / 2), talk.word().to_owned());
    let cases: [(&str, Vec<&str>); 5] = [
        ("a word of one checkpoint", vec!["search", &rare]),
        ("a common word", vec!["search", &common]),
        ("two words, one of them by its beginning", vec!["search", &common, "rare1*"]),
        ("a word of one session", vec!["search", &common, "--session", "s1"]),
        ("no match", vec!["search", "nothing"]),
    ];
    for (name, arguments) in cases {
        println!("| {name} | {:.1} ms |", median(options, |_| timed(options, &arguments))?);
    }
    let store = parhelia_ledger::open(&root, &OpenOptions::default()).map_err(|e| failed("open the store", e))?;
    let after_one = median(options, |round| {
        checkpoint(&store, options, options.sessions * options.each + round, &mut talk)?;
        timed(options, &["search", &rare])
    })?;
    println!("| a word of one checkpoint, after a new one was made | {after_one:.1} ms |");
    Ok(())
}

/// The median of some runs behind one that is not counted, in milliseconds.
fn median(options: &Options, mut run: impl FnMut(usize) -> Result<Duration>) -> Result<f64> {
    let mut times = (0..=options.rounds).map(&mut run).skip(1).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64() * 1000.0)
}

fn build(options: &Options, root: &Path, talk: &mut Text) -> Result<()> {
    let store = parhelia_ledger::open(root, &OpenOptions { create: true, ..OpenOptions::default() })
        .map_err(|e| failed("open the store", e))?;
    for number in 0..options.sessions * options.each {
        checkpoint(&store, options, number, talk)?;
        if number % 1000 == 999 {
            eprintln!("{} checkpoints", number + 1);
        }
    }
    Ok(())
}

/// Makes a checkpoint of the session whose turn it is, which has said and edited something.
fn checkpoint(store: &Store, options: &Options, number: usize, talk: &mut Text) -> Result<()> {
    let session = format!("s{}", number % options.sessions);
    let folder = options.folder.join("work").join(&session);
    let workspace = folder.join("workspace");
    fs::create_dir_all(&workspace).context(|| "make a folder")?;
    fs::write(workspace.join(format!("file{}.txt", number % 50)), format!("version {number}")).context(|| "write a file")?;
    let transcript = folder.join("transcript.jsonl");
    let mut file = FileOptions::new().create(true).append(true).open(&transcript).context(|| "open a transcript")?;
    for role in ["user", "assistant"] {
        let mut text = format!("rare{number} ");
        (0..SENTENCES / 2).for_each(|_| talk.sentence(&mut text));
        let message = json!({ "id": format!("{role}{number}"), "role": role, "content": [{ "type": "text", "text": text }] });
        let record = json!({ "type": role, "uuid": format!("{role}-{number}"), "sessionId": session, "message": message });
        writeln!(file, "{record}").context(|| "write a transcript")?;
    }
    let bytes = file.metadata().context(|| "look at a transcript")?.len();
    let options = create::Options { workspace, session, threads: 1, ..Default::default() };
    let mut talked = TranscriptState { transcript, bytes };
    create::run_with(store, &options, &FullWalk, &mut talked, &()).map_err(|e| failed("create", e))?;
    Ok(())
}

/// A conversation beside the workspace.
struct TranscriptState {
    transcript: PathBuf,
    bytes: u64,
}

impl State for TranscriptState {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &CapturedWorkspace<'_>) -> CapturedState {
        let content = StateContent::Beginning { path: self.transcript.clone(), bytes: self.bytes };
        let path = "conversation/transcript.jsonl".to_owned();
        CapturedState {
            files: vec![StateFile { path, part: "conversation".into(), content, mtime: None }],
            ..CapturedState::default()
        }
    }
}

fn timed(options: &Options, arguments: &[&str]) -> Result<Duration> {
    let mut command = Command::new(&options.parhelia);
    command.env("PARHELIA_STORE", options.folder.join("store")).env("HOME", &options.folder).args(arguments);
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let took = began.elapsed();
    match status.context(|| "start the binary")? {
        status if status.success() => Ok(took),
        status => Err(failed(&arguments.join(" "), status)),
    }
}
