//! Many small checkpoints in a row; parhelia alone.

use crate::error::{Context, Error, Result};
use crate::process;
use crate::rng::Rng;
use crate::side::cases::tree::SHORT_RUNS;
use crate::side::lab::Lab;
use crate::side::tools::{Parhelia, Tool};

/// The number of checkpoints when the store is measured first.
const EARLY: usize = 10;
const FILES: usize = 10;
/// Content that does not compress, so that its share of the store is known exactly.
const FILE_BYTES: usize = 1024;

/// A thousand checkpoints, one file of ten rewritten before each.
pub fn run(lab: &mut Lab) -> Result<()> {
    let Some(parhelia) = &lab.tools.parhelia else {
        return Ok(());
    };
    let mut parhelia = parhelia.with_home(lab.root.join("stores/parhelia-many"));
    parhelia.fresh(&lab.runner)?;
    lab.warm_memory()?;
    let checkpoints = if lab.options.quick { 40 } else { 1000 };
    eprintln!("many: {checkpoints} checkpoints");
    let work = lab.root.join("work/small");
    process::make_dir(&work)?;
    let mut rng = Rng::new(0x3a11);
    let mut content = [0; FILE_BYTES];
    for file in 0..FILES {
        rng.fill(&mut content);
        std::fs::write(work.join(format!("file-{file}")), content).context(|| "write a file")?;
    }
    let mut early_bytes = 0;
    for number in 1..=checkpoints {
        rng.fill(&mut content);
        std::fs::write(work.join(format!("file-{}", number % FILES)), content).context(|| "rewrite a file")?;
        let outcome = parhelia.checkpoint(&lab.runner, &work)?;
        lab.figures.add("many", "parhelia", outcome);
        if number == EARLY {
            early_bytes = parhelia.store_bytes()?;
            look(lab, &parhelia, number, "early")?;
        }
    }
    look(lab, &parhelia, checkpoints, "late")?;
    let grown = parhelia.store_bytes()?.saturating_sub(early_bytes) as f64;
    let each = grown / (checkpoints - EARLY) as f64 - FILE_BYTES as f64;
    lab.figures.set("many/checkpoints", checkpoints as f64);
    lab.figures.set("many/overhead_bytes", each);
    parhelia.discard()
}

/// Times opening the store and listing what is in it, as whole processes.
fn look(lab: &mut Lab, parhelia: &Parhelia, checkpoints: usize, when: &str) -> Result<()> {
    let list = ["checkpoint", "list", "--json"];
    let open = ["checkpoint", "show", "latest"];
    for run in 0..=SHORT_RUNS {
        for (what, args) in [("open", &open[..]), ("list", &list[..])] {
            let outcome = parhelia.read_verb(&lab.runner, args)?;
            if run > 0 {
                lab.figures.add(&format!("{what}-{when}"), "parhelia", outcome);
            }
        }
    }
    let said = lab.runner.stdout()?;
    let newest = parhelia.last_id()?;
    let named = parhelia.created.iter().filter(|made| said.contains(&made.id)).count();
    if named != checkpoints {
        return Err(Error::new(format!("list named {named} of {checkpoints} checkpoints (newest {newest})")));
    }
    Ok(())
}
