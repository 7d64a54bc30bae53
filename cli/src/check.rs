//! `check`: is everything in the store, and is it what was written?

use parhelia_store::check::{self, CheckOptions, CheckReport, Finding};
use serde_json::{Value, json};

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
};

/// Places of one finding that are shown without `--verbose`.
const TOUCHES_SHOWN: usize = 5;

/// Flags of `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read and hash the stored data, too, or so many percent of it
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "100",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    read_data: Option<u8>,
    /// Make the index anew from packs and journal before checking
    #[arg(long)]
    rebuild_index: bool,
}

/// Checks, and names what is wrong.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let path = context.store_path()?;
    let progress = context.progress();
    if args.rebuild_index {
        check::rebuild_index(&path, &progress)?;
    }
    let report = check::run(&path, &CheckOptions { read_data_percent: args.read_data }, &progress)?;
    drop(progress);
    if args.rebuild_index {
        context.out.remark("The index was made anew.")?;
    }
    for finding in &report.findings {
        context.out.object("finding", serde_json::to_value(finding).unwrap_or_default())?;
        print(context, finding);
    }
    for note in &report.notes {
        context.out.object("note", json!({ "text": note }))?;
        context.out.remark(format!("note: {note}"))?;
    }
    conclude(context, &report, args)?;
    Ok(if report.is_clean() { Code::Done } else { Code::Corrupt })
}

fn print(context: &Context, finding: &Finding) {
    eprintln!("parhelia: {}", finding.message);
    let shown = if context.global.verbose { finding.touches.len() } else { TOUCHES_SHOWN };
    for touched in finding.touches.iter().take(shown) {
        eprintln!("  touches {}:{}", touched.checkpoint, touched.path);
    }
    let more = finding.touches.len().saturating_sub(shown) as u64 + finding.touches_more;
    if more > 0 {
        eprintln!("  and {}", human::count(more, "more place"));
    }
}

fn conclude(context: &mut Context, report: &CheckReport, args: &Args) -> Result<()> {
    let (packs, objects) = (human::count(report.packs, "pack"), human::count(report.objects, "object"));
    let checkpoints = human::count(report.checkpoints, "checkpoint");
    let read = match args.read_data {
        Some(_) => format!("{} of data were read", human::size(report.bytes_read)),
        None => "data were not read; --read-data does".to_owned(),
    };
    context.out.remark(format!("Checked {packs}, {objects}, {checkpoints}; {read}."))?;
    let findings = report.findings.len() as u64 + report.findings_more;
    let verdict =
        if findings == 0 { "Nothing is wrong.".to_owned() } else { format!("{} found.", human::count(findings, "problem")) };
    context.out.remark(verdict)?;
    if report.rebuild_index {
        context.out.remark("`parhelia check --rebuild-index` makes the index anew.")?;
    }
    let mut summary = json!({ "ok": report.is_clean(), "findings": findings });
    if let (Value::Object(summary), Ok(Value::Object(fields))) = (&mut summary, serde_json::to_value(report)) {
        summary.extend(fields.into_iter().filter(|(name, _)| !["findings", "findings_more", "notes"].contains(&name.as_str())));
    }
    context.out.summary(summary)
}
