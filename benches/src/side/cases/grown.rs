//! An agent's log that grows: how much does the store grow by, and how long does it take?

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::datasets::transcript::{GROWTHS, Session, growth_file};
use crate::error::{Context, Result};
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::{Outcome, sync_filesystem};

/// The level that "compressed new bytes" is said of.
const LEVEL: i32 = 3;
const QUICK_GROWTHS: usize = 4;

/// A first checkpoint of the log, and one after each growth.
pub fn run(lab: &mut Lab) -> Result<()> {
    let (base, growths) = content(lab)?;
    note_compressed(lab, &growths)?;
    let work = lab.root.join("work/log");
    process::make_dir(&work)?;
    let log = work.join("session.jsonl");
    lab.stored = false;
    lab.rounds("transcript", |lab| {
        std::fs::write(&log, &base).context(|| "write the log")?;
        for tool in lab.tools.all().filter(|tool| !left_out(tool.name())) {
            tool.fresh(&lab.runner)?;
            sync_filesystem(&lab.root)?;
            let outcome = tool.checkpoint(&lab.runner, &work)?;
            lab.figures.add("transcript-first", tool.name(), outcome);
            let bytes = tool.store_bytes()? as f64;
            lab.figures.set(format!("transcript/first_bytes/{}", tool.name()), bytes);
        }
        grow(lab, &work, &log, &growths)
    })?;
    for tool in lab.tools.all().filter(|tool| !left_out(tool.name())) {
        let bytes = tool.store_bytes()? as f64;
        lab.figures.set(format!("transcript/final_bytes/{}", tool.name()), bytes);
    }
    Ok(())
}

fn grow(lab: &mut Lab, work: &Path, log: &Path, growths: &[Vec<u8>]) -> Result<()> {
    let mut sums = vec![Outcome::default(); lab.tools.all().count()];
    for growth in growths {
        OpenOptions::new().append(true).open(log).and_then(|mut file| file.write_all(growth)).context(|| "append to the log")?;
        for (slot, tool) in lab.tools.all().enumerate() {
            if left_out(tool.name()) {
                continue;
            }
            sync_filesystem(&lab.root)?;
            let outcome = tool.checkpoint(&lab.runner, work)?;
            lab.figures.add("transcript-growth", tool.name(), outcome);
            sums[slot] = sums[slot].then(outcome);
        }
    }
    for (tool, sum) in lab.tools.all().zip(sums) {
        if !left_out(tool.name()) {
            lab.figures.add("transcript-growths", tool.name(), sum);
        }
    }
    Ok(())
}

fn left_out(tool: &str) -> bool {
    matches!(tool, "cp -a" | "bare loop")
}

fn content(lab: &Lab) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
    if lab.options.quick {
        let mut session = Session::new(1);
        let base = (0..1000).map(|_| session.line()).collect::<String>();
        let growths = (0..QUICK_GROWTHS).map(|_| (0..50).map(|_| session.line()).collect::<String>().into_bytes()).collect();
        return Ok((base.into_bytes(), growths));
    }
    let set = lab.root.join("transcript");
    lab.fetch("transcript", &set)?;
    let read = |name: &str| {
        let path = set.join(name);
        std::fs::read(&path).context(|| format!("read {}", path.display()))
    };
    let base = read("base.jsonl")?;
    let growths = (0..GROWTHS).map(|index| read(&growth_file(index))).collect::<Result<_>>()?;
    Ok((base, growths))
}

/// Notes the compressed size of the new bytes: each growth by itself, and all as one.
fn note_compressed(lab: &mut Lab, growths: &[Vec<u8>]) -> Result<()> {
    let compress = |bytes: &[u8]| {
        let packed = zstd::bulk::compress(bytes, LEVEL).context(|| "compress a growth")?;
        Ok(packed.len() as f64)
    };
    let mut alone = 0.0;
    for growth in growths {
        alone += compress(growth)?;
    }
    let together = compress(&growths.concat())?;
    lab.figures.set("transcript/compressed_new_bytes", alone);
    lab.figures.set("transcript/compressed_new_bytes_as_one", together);
    lab.figures.set("transcript/growths", growths.len() as f64);
    Ok(())
}
