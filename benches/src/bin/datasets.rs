//! Makes the input trees of the benchmarks and of the tests on real input.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use parhelia_benches::datasets::checkout::Checkout;
use parhelia_benches::datasets::npm::NodeModules;
use parhelia_benches::datasets::pip::SitePackages;
use parhelia_benches::datasets::scale::Scale;
use parhelia_benches::datasets::transcript::Transcript;
use parhelia_benches::datasets::versions::Versions;
use parhelia_benches::datasets::{Dataset, make};
use parhelia_benches::error::{self, Result};
use parhelia_benches::{place, process};

/// Make the input trees; what is complete is left alone.
#[derive(Debug, Parser)]
#[command(name = "datasets")]
struct Options {
    /// The sets to make [default: all but `scale`]
    sets: Vec<Set>,

    /// Folder of the sets [default: `data` in the benchmark folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Numbers of files in the `scale` trees
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    files: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
#[value(rename_all = "verbatim")]
enum Set {
    /// About 80,000 files from npm
    #[value(name = "node_modules")]
    NodeModules,
    /// About 600 MB of Python wheels
    #[value(name = "site-packages")]
    SitePackages,
    /// Twelve releases of one project
    #[value(name = "versions")]
    Versions,
    /// A git working tree with history (needs `versions`, which is made first)
    #[value(name = "checkout")]
    Checkout,
    /// An agent's log of 40 MiB, and twenty growths
    #[value(name = "transcript")]
    Transcript,
    /// Trees of many small files
    #[value(name = "scale")]
    Scale,
}

const DEFAULT: [Set; 5] = [Set::Transcript, Set::Versions, Set::Checkout, Set::SitePackages, Set::NodeModules];

fn main() -> ExitCode {
    error::report("datasets", run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let data = match &options.data {
        Some(data) => data.clone(),
        None => place::bench_dir()?.join("data"),
    };
    process::make_dir(&data)?;
    let wanted = if options.sets.is_empty() { &DEFAULT[..] } else { &options.sets };
    for set in wanted {
        for dataset in datasets(*set, &options.files) {
            make(dataset.as_ref(), &data)?;
        }
    }
    Ok(())
}

fn datasets(set: Set, files: &[u64]) -> Vec<Box<dyn Dataset>> {
    match set {
        Set::NodeModules => vec![Box::new(NodeModules)],
        Set::SitePackages => vec![Box::new(SitePackages)],
        Set::Versions => vec![Box::new(Versions)],
        Set::Checkout => vec![Box::new(Versions), Box::new(Checkout)],
        Set::Transcript => vec![Box::new(Transcript)],
        Set::Scale => files.iter().map(|&files| Box::new(Scale { files }) as Box<dyn Dataset>).collect(),
    }
}
