//! `mounts`: what of the store is mounted where.

use parhelia_wire::{Line, Summary, tool::Mount};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Lists the mounts, after those of dead processes were cleared.
pub fn run(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    let cleared = parhelia_fuse::clear_stale(&store)?;
    for stale in &cleared {
        context.out.did(format!("the mount of dead process {} on {} is cleared", stale.text.process, stale.text.mountpoint));
    }
    for stale in &cleared {
        context.out.remark(format!("Cleared the mount of dead process {} on {}.", stale.text.process, stale.text.mountpoint))?;
    }
    let mut count = 0;
    for found in parhelia_fuse::list(&store)?.into_iter().filter(|found| found.alive) {
        let text = found.text;
        context.out.line(format!("{}  {}  process {}  since {}", text.mountpoint, text.what, text.process, text.started_at))?;
        let (mountpoint, what, process, started_at) = (text.mountpoint, text.what, text.process, text.started_at);
        context.out.object(Line::Mount(Mount { mountpoint, what, process, started_at }))?;
        count += 1;
    }
    context.out.summary(Summary::Mounts { mounts: count, cleared: cleared.len() as u64 })?;
    Ok(Code::Done)
}
