//! A whole run: place, tools, cases, report.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cases;
use super::image::Place;
use super::lab::Lab;
use super::launch::Runner;
use super::options::{Options, ToolName};
use super::report::{self, Setting};
use super::tools::Toolbox;
use crate::error::{Context, Result};
use crate::{place, process};

/// Measures what the options ask for, prints the tables and writes the raw figures.
pub fn run(options: Options) -> Result<()> {
    let bench_dir = place::bench_dir()?;
    let json = options.json.clone().unwrap_or_else(|| bench_dir.join("side-by-side.json"));
    let json = std::path::absolute(json).context(|| "find the place of the raw figures")?;
    let interrupted = handle_interrupts()?;

    let place = if options.no_image {
        Place::folder(&bench_dir)?
    } else {
        Place::image(&bench_dir, options.image_gib(), options.image_inodes())?
    };
    let tools = Toolbox::new(&options, &place.root.join("stores"))?;
    let setting = setting(&options, &tools, &place)?;
    // Outside of the image, so that writing there changes nothing in it.
    let outputs = bench_dir.join("side-by-side-outputs");
    process::make_dir(&outputs)?;
    let runner = Runner::new(&outputs, interrupted)?;
    let data = options.data.clone().unwrap_or_else(|| bench_dir.join("data"));
    let mut lab = Lab::new(options, place.root.clone(), data, runner, tools);
    lab.note_sync_time()?;
    let outcome = cases::run(&mut lab);

    // What was measured before a failure is worth keeping.
    let raw = report::raw(&lab.options, &setting, &lab.figures);
    let text = serde_json::to_vec_pretty(&raw).context(|| "write the raw figures as JSON")?;
    std::fs::write(&json, text).context(|| format!("write {}", json.display()))?;
    print!("{}", report::markdown(&lab.options, &setting, &lab.figures));
    eprintln!("raw figures: {}", json.display());
    drop(place);
    process::remove(&outputs)?;
    outcome
}

/// Ctrl-C ends the command that runs; then everything is cleaned up as after an error.
fn handle_interrupts() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context(|| "handle interrupts")?;
    Ok(interrupted)
}

fn setting(options: &Options, tools: &Toolbox, place: &Place) -> Result<Setting> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let mut versions = Vec::new();
    if let Some(parhelia) = &tools.parhelia {
        versions.push(version("parhelia", parhelia.binary(), "version"));
    }
    for (name, program, flag) in [
        (ToolName::Tar, "tar", "--version"),
        (ToolName::Tar, "zstd", "--version"),
        (ToolName::Restic, "restic", "version"),
        (ToolName::Borg, "borg", "--version"),
        (ToolName::Git, "git", "--version"),
    ] {
        if options.wants_tool(name) && process::find_program(program).is_some() {
            versions.push(version(program, PathBuf::from(program), flag));
        }
    }
    Ok(Setting {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: series(&kernel.context(|| "read the kernel's release")?),
        image: place.is_image(),
        versions,
    })
}

/// The first two numbers of a kernel's release.
fn series(release: &str) -> String {
    let numbers: Vec<&str> = release.trim().split('.').take(2).collect();
    numbers.join(".")
}

/// A tool's name and the number in the first line of what it says of its version.
fn version(name: &str, program: PathBuf, flag: &str) -> (String, String) {
    let said = process::output(Command::new(program).arg(flag)).unwrap_or_default();
    let number = said
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()))
        .find(|word| word.contains('.'))
        .unwrap_or("(version unknown)");
    (name.to_owned(), format!("{name} {number}"))
}
