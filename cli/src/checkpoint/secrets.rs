//! Words about the scan of a checkpoint for secrets.

use parhelia_ledger::{Scan, UnscannedCounts};
use parhelia_oversight::scan;
use parhelia_screen::human;

/// The outcome of a scan, as labels and texts.
pub fn facts(scan: &Scan) -> Vec<(&'static str, String)> {
    let files = human::count(scan.files, "new file");
    let found = if scan.found > 0 { human::number(scan.found) } else { "none".to_owned() };
    let mut lines = vec![format!("{found} found in {files}")];
    lines.extend(scan.findings.iter().map(|finding| human::path(scan::named(finding).as_bytes())));
    let more = scan.found.saturating_sub(scan.findings.len() as u64);
    lines.extend((more > 0).then(|| format!("and {} more", human::number(more))));
    lines.extend((scan.allowed > 0).then(|| format!("{} allowed by a comment", human::number(scan.allowed))));
    lines.extend(unscanned(&scan.unscanned).map(|text| format!("not scanned: {text}")));
    lines.into_iter().enumerate().map(|(i, line)| (if i == 0 { "Secrets" } else { "" }, line)).collect()
}

/// The files that were not scanned, by reason.
fn unscanned(files: &UnscannedCounts) -> Option<String> {
    let reasons = [
        (files.binary, "binary"),
        (files.too_large, "longer than 1 MiB"),
        (files.allowed, "allowed by their path"),
        (files.unreadable, "unreadable"),
        (files.not_reached, "not reached before an interruption"),
    ];
    let counted = reasons.into_iter().filter(|(number, _)| *number > 0);
    let texts: Vec<String> = counted.map(|(number, reason)| format!("{} {reason}", human::number(number))).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
