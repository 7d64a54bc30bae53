//! The tables that a run prints.

mod bars;
mod mounts;
mod others;
mod row;
mod sessions;

use std::fmt::Write;

use serde_json::{Value, json};

use super::figures::Figures;
use super::options::Options;
use super::tables::{Unit, maybe, table, thousands};
pub use bars::rows;
pub use row::Row;

/// The setting of a run, for the head of the tables and the raw figures.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// Processors that may be used.
    pub cores: usize,
    /// The kernel's series.
    pub kernel: String,
    /// True if it ran on a journaled image.
    pub image: bool,
    /// The tools' versions, in their own words.
    pub versions: Vec<(String, String)>,
}

/// The whole report as Markdown.
pub fn markdown(options: &Options, setting: &Setting, figures: &Figures) -> String {
    let mut text = head(options, setting, figures);
    text.push_str(&bars_table(&rows(figures)));
    for part in [
        others::tree(figures),
        others::releases(figures),
        others::transcript(figures),
        others::curve(figures),
        mounts::beside(figures),
    ]
    .into_iter()
    .flatten()
    {
        text.push('\n');
        text.push_str(&part);
    }
    text
}

fn head(options: &Options, setting: &Setting, figures: &Figures) -> String {
    let mut text = String::new();
    if let (Some(files), Some(bytes)) = (figures.value("tree/files"), figures.value("tree/bytes")) {
        let (files, bytes) = (thousands(files), Unit::Mib.text(bytes));
        let name = if options.quick { "generated" } else { &options.tree };
        let _ = write!(text, "Tree: {name}, {files} files, {bytes}. ");
    }
    let place = if setting.image { "a journaled ext4 image" } else { "a plain folder (no image: the figures are worth little)" };
    let _ = write!(
        text,
        "Medians of {} on {place}, {} cores, kernel {}; everything in the page cache, syncing counted. ",
        plural(options.rounds()),
        setting.cores,
        setting.kernel,
    );
    if let Some(millis) = figures.value("synced_write_ms") {
        let _ = write!(text, "A synced write of 4 KiB takes {millis:.2} ms. ");
    }
    let versions: Vec<&str> = setting.versions.iter().map(|(_, version)| version.as_str()).collect();
    let _ = writeln!(text, "{}.\n", versions.join(" · "));
    text
}

fn plural(rounds: u32) -> String {
    if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") }
}

fn bars_table(rows: &[Row]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.what.clone(),
                maybe(row.measured, |value| row.unit.text(value)),
                row.bar.clone(),
                maybe(row.limit, |value| row.unit.text(value)),
                maybe(row.ratio(), |ratio| format!("{ratio:.2}")),
                row.verdict().to_owned(),
            ]
        })
        .collect();
    table(&["what", "parhelia", "bar", "limit", "measured / limit", "met"], &cells)
}

/// Everything as JSON: the samples, the single figures and the rows.
pub fn raw(options: &Options, setting: &Setting, figures: &Figures) -> Value {
    let rows: Vec<Value> = rows(figures)
        .iter()
        .map(|row| {
            json!({"what": row.what, "measured": row.measured, "bar": row.bar,
                "limit": row.limit, "ratio": row.ratio(), "met": row.met()})
        })
        .collect();
    let versions: serde_json::Map<String, Value> =
        setting.versions.iter().map(|(tool, version)| (tool.clone(), json!(version))).collect();
    json!({
        "rounds": options.rounds(),
        "quick": options.quick,
        "tree": options.tree,
        "cores": setting.cores,
        "kernel": setting.kernel,
        "journaled_image": setting.image,
        "versions": versions,
        "rows": rows,
        "figures": figures,
    })
}
