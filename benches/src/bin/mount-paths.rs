//! Times warm paths through a mount of the whole store beside the same paths through a mount of one checkpoint.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Parser;
use parhelia_benches::error::{self, Context, Error, Result};
use parhelia_benches::{datasets::scale, process};

/// Warm paths through a mount of the whole store, beside those through a mount of one checkpoint.
#[derive(Debug, Parser)]
#[command(name = "mount-paths")]
struct Options {
    /// The parhelia binary
    #[arg(long, value_name = "PATH", env = "PARHELIA_BIN", default_value = "parhelia")]
    parhelia: PathBuf,
    /// The number of small files in the tree
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// The number of timed rounds, after two that are not timed
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// An empty folder for the tree, the store and the mounts
    folder: PathBuf,
}

fn main() -> ExitCode {
    error::report("mount-paths", run(&Options::parse()))
}

/// A mount that goes away with its owner.
struct Mount<'a> {
    options: &'a Options,
    at: PathBuf,
}

impl<'a> Mount<'a> {
    fn new(options: &'a Options, name: &str, what: &[&str]) -> Result<Self> {
        let at = options.folder.join(name);
        process::make_dir(&at)?;
        process::run(parhelia(options).arg("mount").args(what).arg(&at))?;
        Ok(Mount { options, at })
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = process::run(parhelia(self.options).arg("umount").arg(&self.at));
    }
}

fn parhelia(options: &Options) -> Command {
    let mut command = Command::new(&options.parhelia);
    command.env("PARHELIA_STORE", options.folder.join("store"));
    command
}

fn run(options: &Options) -> Result<()> {
    let tree = options.folder.join("tree");
    scale::generate(&tree, options.files)?;
    process::run(parhelia(options).args(["init", "--new", "--quiet"]))?;
    process::run(parhelia(options).args(["checkpoint", "create", "bench", "--workspace"]).arg(&tree))?;
    let (single, store) = (Mount::new(options, "single", &["latest"])?, Mount::new(options, "store-mount", &[])?);
    let session = store.at.join("sessions/bench");
    let latest = fs::read_link(session.join("latest")).context(|| "read the link latest")?;
    let roots = [
        ("one checkpoint", single.at.clone()),
        ("store, by id", session.join(latest).join("workspace")),
        ("store, by latest", session.join("latest/workspace")),
    ];
    let files = listed(&tree)?;
    println!("| warm, median of {} | {} | ratios |", options.rounds, roots.each_ref().map(|(name, _)| *name).join(" | "));
    println!("|---|---|---|---|---|");
    let few: Vec<&PathBuf> = files.iter().step_by(5).collect();
    row(options, "`stat` of a file, µs", &roots, 1e6 / few.len() as f64, |root| {
        each(&few, |file| fs::metadata(root.join(file)).map(drop))
    })?;
    row(options, "open, read and close, µs", &roots, 1e6 / few.len() as f64, |root| {
        let mut bytes = Vec::new();
        each(&few, |file| {
            bytes.clear();
            fs::File::open(root.join(file))?.read_to_end(&mut bytes).map(drop)
        })
    })?;
    row(options, "`find -ls`, ms", &roots, 1e3, |root| quietly(Command::new("find").arg(root.join(".")).arg("-ls"), &[0]))?;
    row(options, "`grep -r`, ms", &roots, 1e3, |root| {
        quietly(Command::new("grep").args(["-r", "no such words"]).arg(root.join(".")), &[1])
    })
}

/// The paths of all files of a tree, relative to it.
fn listed(tree: &Path) -> Result<Vec<PathBuf>> {
    let text = process::output(Command::new("find").arg(tree).args(["-type", "f", "-printf", "%P\\n"]))?;
    Ok(text.lines().map(PathBuf::from).collect())
}

fn each(files: &[&PathBuf], mut act: impl FnMut(&Path) -> std::io::Result<()>) -> Result<()> {
    files.iter().try_for_each(|file| act(file).context(|| format!("read {}", file.display())))
}

fn quietly(command: &mut Command, codes: &[i32]) -> Result<()> {
    let status = command.stdout(Stdio::null()).status().context(|| "start a command")?;
    if status.code().is_some_and(|code| codes.contains(&code)) {
        Ok(())
    } else {
        Err(Error::new(format!("{command:?}: {status}")))
    }
}

/// Times something in each root in turn, and prints the medians and what they are of the first.
fn row(
    options: &Options,
    name: &str,
    roots: &[(&str, PathBuf)],
    scale: f64,
    mut act: impl FnMut(&Path) -> Result<()>,
) -> Result<()> {
    let mut times = vec![Vec::new(); roots.len()];
    for round in 0..options.rounds + 2 {
        for ((_, root), times) in roots.iter().zip(&mut times) {
            let began = Instant::now();
            act(root)?;
            if round >= 2 {
                times.push(began.elapsed().as_secs_f64() * scale);
            }
        }
    }
    let medians = times.into_iter().map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    });
    let medians: Vec<f64> = medians.collect();
    let cells: Vec<String> = medians.iter().map(|median| format!("{median:.2}")).collect();
    let ratios: Vec<String> = medians[1..].iter().map(|median| format!("{:.2}", median / medians[0])).collect();
    println!("| {name} | {} | {} |", cells.join(" | "), ratios.join(", "));
    Ok(())
}
