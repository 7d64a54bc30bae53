//! Mounts: what is demanded, and the tools beside each other.

use super::row::{Row, millis, row, times};
use crate::side::figures::Figures;
use crate::side::tables::{Unit, maybe, table, thousands};

const SELF: &str = "parhelia";
const NATIVE: &str = "native";
const MIB: f64 = 1048576.0;
const GB: f64 = 1e9;

const ACTS: [(&str, &str); 11] = [
    ("mount-find-cold", "`find -ls`, cold"),
    ("mount-find-warm", "… warm"),
    ("mount-cat-cold", "`cat` of all small files, cold"),
    ("mount-cat-warm", "… warm"),
    ("mount-grep-cold", "`grep -r`, cold"),
    ("mount-grep-warm", "… warm"),
    ("mount-raw-cold", "a big file stored raw, cold"),
    ("mount-raw-warm", "… warm"),
    ("mount-text-cold", "a big file stored compressed, cold"),
    ("mount-text-warm", "… warm"),
    ("mount-copy-cold", "`cp -a` out of it, cold"),
];

/// The demands on a mount.
pub fn rows(figures: &Figures) -> Vec<Row> {
    let ours = |case: &str| figures.wall_s(case, SELF);
    let held = |what: &str, case: &str, bar: &str, limit: Option<f64>| row(what, Unit::Seconds, ours(case), bar, limit);
    let native = |factor: f64, case: &str| times(factor, figures.wall_s(case, NATIVE));
    let checkpoints = figures.value("mount/checkpoints").map_or_else(String::new, thousands);
    let mut rows = vec![row(
        format!("`mount` to the first byte of a file, {checkpoints} checkpoints"),
        Unit::Millis,
        millis(ours("mount-first-byte")),
        "60 ms",
        Some(60.0),
    )];
    for (what, act, factor) in
        [("warm `find -ls`", "find", 1.2), ("warm `cat` of all files", "cat", 1.2), ("warm `grep -r`", "grep", 1.5)]
    {
        let case = format!("mount-{act}-warm");
        rows.push(held(what, &case, &format!("{factor} × native"), native(factor, &case)));
    }
    rows.push(held("random reads of 4 KiB, cached", "mount-random", "1.2 × native", native(1.2, "mount-random")));
    rows.push(held("cold `find -ls`", "mount-find-cold", "1.5 × native, names dropped", native(1.5, "mount-find-cold")));
    rows.push(held("cold `cat` of all small files", "mount-cat-cold", "3 × native, warm", native(3.0, "mount-cat-warm")));
    for peer in ["restic", "borg"] {
        let limit = times(0.25, figures.wall_s("mount-cat-cold", peer));
        rows.push(held(&format!("… ({peer})"), "mount-cat-cold", &format!("0.25 × {peer}'s mount"), limit));
    }
    rows.push(held(
        "cold read of a big file, compressed",
        "mount-text-cold",
        "1 / 0.8 × `zstd -dc`",
        times(1.25, figures.wall_s("mount-text", "zstd -dc")),
    ));
    rows.push(held(
        "cold read of a big file, raw",
        "mount-raw-cold",
        "1 GB/s",
        figures.value("mount/big_bytes").map(|bytes| bytes / GB),
    ));
    rows.push(held("cold `grep -r`", "mount-grep-cold", "5 × native, warm", native(5.0, "mount-grep-warm")));
    rows.push(row("… each block is decompressed", Unit::Times, figures.value("mount-grep/decoded_each"), "1.2 times", Some(1.2)));
    rows.push(held("`cp -a` out of a cold mount", "mount-copy-cold", "2 × native", native(2.0, "mount-copy-cold")));
    let peak = figures.value("mount/peak_bytes");
    rows.push(row("peak memory of the mount after all that", Unit::Mib, peak, "256 MiB", Some(256.0 * MIB)));
    rows
}

/// The native tree and the mounts beside each other.
pub fn beside(figures: &Figures) -> Option<String> {
    let tools: Vec<&str> =
        [NATIVE, SELF, "restic", "borg"].into_iter().filter(|tool| !figures.of("mount-cat-cold", tool).is_empty()).collect();
    if tools.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> = ACTS
        .iter()
        .map(|(case, what)| {
            let mut row = vec![(*what).to_owned()];
            row.extend(tools.iter().map(|tool| maybe(figures.wall_s(case, tool), |wall| format!("{wall:.2}"))));
            row
        })
        .collect();
    let mut head = vec!["in a mount, wall s"];
    head.extend(tools);
    Some(table(&head, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::launch::Outcome;

    #[test]
    fn a_mount_is_held_against_the_native_tree() {
        let mut figures = Figures::default();
        for (tool, wall_s) in [(SELF, 2.9), (NATIVE, 1.0), ("borg", 10.0)] {
            for case in ["mount-cat-cold", "mount-cat-warm"] {
                figures.add(case, tool, Outcome { wall_s, ..Outcome::default() });
            }
        }
        let rows = rows(&figures);
        let verdict = |bar: &str| rows.iter().find(|row| row.bar == bar && row.measured.is_some()).map(Row::verdict);
        assert_eq!(verdict("3 × native, warm"), Some("yes"));
        assert_eq!(verdict("0.25 × borg's mount"), Some("**no**"));
        assert_eq!(verdict("0.25 × restic's mount"), Some("–"));
        assert!(beside(&figures).unwrap().contains("| 2.90"));
    }
}
