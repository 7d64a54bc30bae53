//! Checkpoints and paths that damage touches: each as a line of `--json`, and for people a summary by checkpoint.

use parhelia_screen::human;
use parhelia_store::{
    check::{CheckReport, Hurt},
    error::Error,
};
use parhelia_wire::Line;

use crate::{
    context::Context,
    exit::{Failure, Result},
};

/// Checkpoints that are shown without `--verbose`.
const CHECKPOINTS_SHOWN: usize = 20;

/// Names hurt paths as they are found.
pub struct HurtPrinter<'a> {
    context: &'a mut Context,
    failed: Option<Failure>,
}

impl<'a> HurtPrinter<'a> {
    pub fn new(context: &'a mut Context) -> Self {
        HurtPrinter { context, failed: None }
    }

    /// Prints one. What cannot be printed stops the check.
    pub fn name(&mut self, hurt: &Hurt) -> parhelia_store::Result<()> {
        self.context.out.object(Line::Hurt(hurt.clone())).map_err(|failure| {
            self.failed = Some(failure);
            Error::Cancelled
        })
    }

    /// Fails with the reason why one could not be printed.
    pub fn finish(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// Shows the hurt checkpoints, newest first.
pub fn print(context: &Context, report: &CheckReport) {
    if report.hurt.is_empty() {
        return;
    }
    let (checkpoints, paths) = (human::count(report.hurt.len() as u64, "checkpoint"), human::count(report.hurt_paths(), "path"));
    tell!("parhelia: damage touches {paths} in {checkpoints}, newest first:");
    let shown = if context.global.verbose { report.hurt.len() } else { CHECKPOINTS_SHOWN };
    for hurt in report.hurt.iter().take(shown) {
        let more = if hurt.paths > hurt.first.len() as u64 { ", …" } else { "" };
        let first: Vec<&str> =
            hurt.first.iter().map(|path| if path.is_empty() { "the whole checkpoint" } else { path.as_str() }).collect();
        let paths = human::count(hurt.paths, "path");
        tell!("  {} of {} ({}): {paths}: {}{more}", hurt.checkpoint, hurt.session, hurt.created_at, first.join(", "));
    }
    if report.hurt.len() > shown {
        let more = human::count((report.hurt.len() - shown) as u64, "older checkpoint");
        tell!("  and {more}, which --verbose lists");
    }
    if report.hurt.iter().any(|hurt| hurt.paths > hurt.first.len() as u64) {
        tell!("  `parhelia --json check` names every path");
    }
}
