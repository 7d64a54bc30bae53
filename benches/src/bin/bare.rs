//! Reference points as processes of their own, so that they are timed as the tools are.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use parhelia_benches::error::{self, Result};
use parhelia_benches::{bare, memory, random, walk};

/// Bare loops that the tools are compared with.
#[derive(Debug, Parser)]
#[command(name = "bare")]
struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Walk a tree and stat every entry, with two threads
    Walk {
        /// The tree
        tree: PathBuf,
    },
    /// Walk, read, hash, compress and write one file, with two threads
    Store {
        /// The tree
        tree: PathBuf,
        /// The file to write
        out: PathBuf,
    },
    /// Read 4 KiB at random places of a file
    Random {
        /// The file
        file: PathBuf,
        /// The number of reads
        reads: u32,
    },
    /// Touch and free memory
    Touch {
        /// The amount of memory, in MiB
        mib: usize,
    },
}

const THREADS: usize = 2;

fn main() -> ExitCode {
    error::report("bare", run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    match &options.verb {
        Verb::Walk { tree } => {
            let count = walk::count(tree)?;
            println!("{} entries, {} files", count.entries, count.files);
            Ok(())
        }
        Verb::Store { tree, out } => bare::store(tree, out, THREADS),
        Verb::Random { file, reads } => random::read_pages(file, *reads),
        Verb::Touch { mib } => memory::touch(mib << 20),
    }
}
