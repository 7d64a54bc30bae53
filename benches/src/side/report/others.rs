//! The tools beside each other.

use crate::side::cases::CURVE_SIZES;
use crate::side::figures::Figures;
use crate::side::launch::Outcome;
use crate::side::tables::{maybe, table, thousands};

const TOOLS: [&str; 8] = ["parhelia", "tar --zstd", "cp -a", "restic", "borg", "shadow git", "bare loop", "bare walk"];

fn seconds(value: Option<f64>) -> String {
    maybe(value, |value| format!("{value:.2}"))
}

fn mib(bytes: Option<f64>) -> String {
    maybe(bytes, |bytes| format!("{:.1}", bytes / 1048576.0))
}

/// Wall and CPU seconds of a case in one cell.
fn wall_cpu(figures: &Figures, case: &str, tool: &str) -> String {
    match (figures.wall_s(case, tool), figures.cpu_s(case, tool)) {
        (Some(wall), Some(cpu)) => format!("{wall:.2} ({cpu:.2})"),
        _ => "–".to_owned(),
    }
}

/// First, unchanged, edits, restores, size and memory of each tool.
pub fn tree(figures: &Figures) -> Option<String> {
    let cases = ["first", "unchanged", "edits", "restore", "in-place"];
    let rows: Vec<Vec<String>> = TOOLS
        .iter()
        .filter(|tool| cases.iter().any(|case| !figures.of(case, tool).is_empty()))
        .map(|tool| {
            let mut row = vec![(*tool).to_owned()];
            row.extend(cases.iter().map(|case| wall_cpu(figures, case, tool)));
            row.push(mib(figures.value(&format!("first/store_bytes/{tool}"))));
            let rss = cases.iter().filter_map(|case| figures.rss_mib(case, tool));
            row.push(maybe(rss.max_by(f64::total_cmp), |mib| format!("{mib:.0}")));
            row
        })
        .collect();
    let head =
        ["wall s (user + sys s)", "first", "unchanged", "10 edits", "restore", "in place, 10 differ", "size MiB", "peak MiB"];
    (!rows.is_empty()).then(|| table(&head, &rows))
}

/// The releases at one path.
pub fn releases(figures: &Figures) -> Option<String> {
    let rows: Vec<Vec<String>> = TOOLS
        .iter()
        .filter(|tool| !figures.of("versions-later", tool).is_empty())
        .map(|tool| {
            vec![
                (*tool).to_owned(),
                seconds(figures.wall_s("version-01", tool)),
                wall_cpu(figures, "versions-later", tool),
                mib(figures.value(&format!("versions/store_bytes/{tool}"))),
            ]
        })
        .collect();
    let head = ["versions at one path", "first, s", "all later ones, wall s (user + sys s)", "final size MiB"];
    (!rows.is_empty()).then(|| table(&head, &rows))
}

/// The growing log.
pub fn transcript(figures: &Figures) -> Option<String> {
    let rows: Vec<Vec<String>> = TOOLS
        .iter()
        .filter(|tool| !figures.of("transcript-growths", tool).is_empty())
        .map(|tool| {
            vec![
                (*tool).to_owned(),
                mib(figures.value(&format!("transcript/first_bytes/{tool}"))),
                mib(figures.value(&format!("transcript/final_bytes/{tool}"))),
                wall_cpu(figures, "transcript-growths", tool),
            ]
        })
        .collect();
    let head = ["growing transcript", "first size MiB", "final size MiB", "all growths, wall s (user + sys s)"];
    (!rows.is_empty()).then(|| table(&head, &rows))
}

/// Cost per file over the number of files.
pub fn curve(figures: &Figures) -> Option<String> {
    let mut rows = Vec::new();
    for (case, what) in [("scale-first", "first"), ("scale-unchanged", "unchanged")] {
        for tool in TOOLS {
            rows.extend(curve_rows(figures, case, what, tool));
        }
    }
    let head = ["cost per file", "files", "wall s", "µs per file", "CPU µs per file", "peak MiB"];
    (!rows.is_empty()).then(|| table(&head, &rows))
}

fn curve_rows(figures: &Figures, case: &str, what: &str, tool: &str) -> Vec<Vec<String>> {
    CURVE_SIZES
        .into_iter()
        .filter_map(|files| {
            let case = format!("{case}-{files}");
            let wall = figures.wall_s(&case, tool)?;
            let cpu = figures.of(&case, tool).iter().map(Outcome::cpu_s);
            let cpu = crate::side::figures::median(cpu)?;
            let each = |seconds: f64| format!("{:.1}", seconds * 1e6 / files as f64);
            Some(vec![
                format!("{what}, {tool}"),
                thousands(files as f64),
                format!("{wall:.2}"),
                each(wall),
                each(cpu),
                maybe(figures.rss_mib(&case, tool), |mib| format!("{mib:.0}")),
            ])
        })
        .collect()
}
