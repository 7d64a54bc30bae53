//! Draws the plots of docs/benchmarks.md from the raw figures that `side-by-side` writes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use parhelia_benches::error::{Context, Result, report};
use parhelia_benches::{place, plot};

/// Draw the plots of one or more runs as SVG.
#[derive(Debug, Parser)]
#[command(name = "plots")]
struct Options {
    /// Raw figures of `side-by-side`; of a case in several files, the last counts [default: those of the last run]
    figures: Vec<PathBuf>,

    /// Folder for the plots
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,
}

fn main() -> ExitCode {
    report("plots", run(Options::parse()))
}

/// Writes each plot that has figures, and names it.
fn run(options: Options) -> Result<()> {
    let mut files = options.figures;
    if files.is_empty() {
        files.push(place::bench_dir()?.join("side-by-side.json"));
    }
    let figures = plot::read(&files)?;
    for (name, _) in plot::PLOTS {
        let path = options.to.join(name);
        let Some(svg) = plot::draw(name, &figures)? else {
            eprintln!("{name} is not drawn: none of its figures was measured");
            continue;
        };
        std::fs::write(&path, svg).context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
