//! Twelve releases of one project, one after another at one path.

use std::path::Path;
use std::process::Command;

use crate::datasets::versions::{RELEASES, folder};
use crate::error::Result;
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::{Outcome, sync_filesystem};

/// The case of one release, as it is named in the figures.
pub fn case_of(index: usize) -> String {
    format!("version-{}", folder(index))
}

/// The number of releases in a run.
pub fn releases(quick: bool) -> usize {
    if quick { 3 } else { RELEASES.len() }
}

/// Checkpoints of every release; the time of the checkpoint alone counts.
pub fn run(lab: &mut Lab) -> Result<()> {
    let (data, work) = (lab.root.join("versions"), lab.root.join("work/project"));
    let releases = releases(lab.options.quick);
    for index in 0..releases {
        let set = format!("versions/{}", folder(index));
        lab.fetch(&set, &data.join(folder(index)))?;
    }
    lab.stored = false;
    lab.rounds("versions", |lab| {
        let mut later = vec![Outcome::default(); lab.tools.all().count()];
        for tool in lab.tools.all() {
            tool.fresh(&lab.runner)?;
        }
        for index in 0..releases {
            turn_into(&data.join(folder(index)), &work)?;
            for (slot, tool) in lab.tools.all().enumerate() {
                if left_out(tool.name()) {
                    continue;
                }
                sync_filesystem(&lab.root)?;
                let outcome = tool.checkpoint(&lab.runner, &work)?;
                lab.figures.add(&case_of(index), tool.name(), outcome);
                if index > 0 {
                    later[slot] = later[slot].then(outcome);
                }
            }
        }
        for (tool, outcome) in lab.tools.all().zip(later) {
            if !left_out(tool.name()) {
                lab.figures.add("versions-later", tool.name(), outcome);
            }
        }
        Ok(())
    })?;
    for tool in lab.tools.all() {
        if !left_out(tool.name()) {
            let bytes = tool.store_bytes()? as f64;
            lab.figures.set(format!("versions/store_bytes/{}", tool.name()), bytes);
        }
    }
    process::remove(&data)
}

/// Full copies and the bare loop say nothing here.
fn left_out(tool: &str) -> bool {
    matches!(tool, "cp -a" | "bare loop")
}

/// Makes `work` equal to a release, leaving files alone whose content stays.
fn turn_into(release: &Path, work: &Path) -> Result<()> {
    process::make_dir(work)?;
    process::run(Command::new("rsync").args(["-a", "--delete", "--checksum"]).arg(format!("{}/", release.display())).arg(work))
}
