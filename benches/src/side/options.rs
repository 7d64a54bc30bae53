//! The command line of the side-by-side run.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Run parhelia, tar, cp, restic, borg and a shadow git on the same trees, and print the tables.
#[derive(Debug, Clone, Parser)]
#[command(name = "side-by-side")]
pub struct Options {
    /// The parhelia binary [default: the one in the release folder of the cargo target folder]
    #[arg(long, value_name = "PATH", env = "PARHELIA_BIN")]
    pub parhelia: Option<PathBuf>,

    /// Folder of the input trees [default: `data` in the benchmark folder]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// The set that the cases about one tree run on
    #[arg(long, value_name = "SET", default_value = "node_modules")]
    pub tree: String,

    /// Timed rounds of each case
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// Only these cases
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    pub only: Vec<Case>,

    /// Only these tools
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub tools: Vec<ToolName>,

    /// Leave out tools that are not installed, instead of failing
    #[arg(long)]
    pub skip_missing: bool,

    /// One round on small generated data: does everything work?
    #[arg(long)]
    pub quick: bool,

    /// Also measure the cost per file up to 1,000,000 files
    #[arg(long)]
    pub scale: bool,

    /// Also measure the cost per file at 10,000,000 files (with --scale; needs 80 GiB of disk)
    #[arg(long, requires = "scale")]
    pub huge: bool,

    /// Size of the filesystem image [default: 24, 64 with --scale, 160 with --huge]; the file is sparse
    #[arg(long, value_name = "GIB")]
    pub image_gib: Option<u64>,

    /// Work in a plain folder instead of an image (no root needed; the figures are worth little)
    #[arg(long)]
    pub no_image: bool,

    /// File for the raw figures [default: `side-by-side.json` in the benchmark folder]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Room for ten million files, a folder for each 25 of them and one more around it.
const HUGE_INODES: u64 = 12_000_000;

/// The cases that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Case {
    /// First checkpoint of the tree (also: sizes, peak memory, how long the commit lock is held)
    First,
    /// Another checkpoint of the unchanged tree
    Unchanged,
    /// A checkpoint after ten files were edited
    Edits,
    /// Restore into a new folder
    Restore,
    /// Restore in place where ten files differ
    InPlace,
    /// Diff of two checkpoints in which ten files differ
    Diff,
    /// A few sources that are edited over and over, and reading the last checkpoint of them
    Edited,
    /// Twelve releases of a project at one path
    Versions,
    /// A log that grows
    Transcript,
    /// A thousand small checkpoints in a row, and listing them
    Many,
    /// Cost per file from 10,000 to 1,000,000 files
    Scale,
    /// A mounted checkpoint beside the native tree and other tools' mounts (only when it is named)
    Mounts,
    /// Checkpoints of an agent's session, its hooks, resuming it and rolling it back (only when it is named)
    Sessions,
}

/// The tools that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum ToolName {
    /// The binary under test
    Parhelia,
    /// `tar --zstd`
    Tar,
    /// `cp -a`
    Cp,
    /// restic
    Restic,
    /// borg
    Borg,
    /// A shadow git
    Git,
    /// The bare loop of this crate
    Bare,
}

impl Options {
    /// Checks whether a case is to be run.
    pub fn wants(&self, case: Case) -> bool {
        if self.only.is_empty() {
            return match case {
                Case::Scale => self.scale,
                Case::Mounts | Case::Sessions => false,
                _ => true,
            };
        }
        self.only.contains(&case)
    }

    /// Checks whether a tool is to be run.
    pub fn wants_tool(&self, tool: ToolName) -> bool {
        self.tools.is_empty() || self.tools.contains(&tool)
    }

    /// Timed rounds, with the shortcuts applied.
    pub fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Inodes of the image, where mkfs's own choice is too few.
    pub fn image_inodes(&self) -> Option<u64> {
        self.huge.then_some(HUGE_INODES)
    }

    /// Size of the image in GiB.
    pub fn image_gib(&self) -> u64 {
        let default = match (self.quick, self.wants(Case::Scale), self.huge) {
            (true, _, _) => 4,
            (false, _, true) => 160,
            (false, true, false) => 64,
            (false, false, false) => 24,
        };
        self.image_gib.unwrap_or(default)
    }
}
