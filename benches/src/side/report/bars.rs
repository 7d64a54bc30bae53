//! The demands on parhelia, beside the measured figures.

use super::row::{Row, millis, row, times};
use crate::side::cases::{CURVE_SIZES, FRESH};
use crate::side::figures::Figures;
use crate::side::tables::{Unit, thousands};

const SELF: &str = "parhelia";
const TAR: &str = "tar --zstd";
const GIT: &str = "shadow git";
const BARE: &str = "bare loop";
const WALK: &str = "bare walk";
const RESTIC: &str = "restic";
const MIB: f64 = 1048576.0;
/// Whole processes of a few milliseconds differ by this much from run to run.
const NOISE_MS: f64 = 2.0;

/// Every demand of which something was measured.
pub fn rows(figures: &Figures) -> Vec<Row> {
    let mut rows = first(figures);
    rows.extend(sizes(figures));
    rows.extend(edited(figures));
    rows.extend(releases(figures));
    rows.extend(transcript(figures));
    rows.extend(restores(figures));
    rows.extend(short_verbs(figures));
    rows.extend(many(figures));
    rows.extend(memory(figures));
    rows.extend(curve(figures));
    rows.extend(super::mounts::rows(figures));
    rows.extend(super::sessions::rows(figures));
    rows.retain(|row| row.measured.is_some() || row.bar.contains('×') && row.limit.is_some());
    rows
}

fn first(figures: &Figures) -> Vec<Row> {
    let wall = |case: &str, tool: &str| figures.wall_s(case, tool);
    let mut rows = vec![
        row("first checkpoint", Unit::Seconds, wall("first", SELF), "1.0 × `tar --zstd`", wall("first", TAR)),
        row("first checkpoint", Unit::Seconds, wall("first", SELF), "1.3 × the bare loop", times(1.3, wall("first", BARE))),
    ];
    for (case, what) in [("unchanged", "unchanged checkpoint"), ("edits", "ten files edited")] {
        rows.push(row(what, Unit::Seconds, wall(case, SELF), "1.0 × shadow git", wall(case, GIT)));
        rows.push(row(
            format!("{what} (aim)"),
            Unit::Seconds,
            wall(case, SELF),
            "1 × bare walk + 0.1 s",
            wall(case, WALK).map(|walk| walk + 0.1),
        ));
    }
    rows
}

fn sizes(figures: &Figures) -> Vec<Row> {
    let tar = figures.value("first/store_bytes/tar --zstd");
    let store = figures.value("first/store_bytes/parhelia");
    let ballast = figures.value("first/ballast_bytes");
    let with_ballast = store.zip(ballast).map(|(store, ballast)| store + ballast);
    let bar = "1.05 × `tar --zstd`";
    vec![
        row("size after the first: data blocks", Unit::Mib, figures.value("first/data_block_bytes"), "1.0 × `tar --zstd`", tar),
        row("… store folder without stat caches and ballast", Unit::Mib, store, bar, times(1.05, tar)),
        row("… and with the ballast", Unit::Mib, with_ballast, bar, times(1.05, tar)),
    ]
}

fn edited(figures: &Figures) -> Vec<Row> {
    let edits = figures.value("edited/edits").map_or_else(String::new, thousands);
    let record = figures.value("edited/record_bytes");
    let mut rows = vec![
        row(
            "ten files edited: packs, journal and stat cache grow by",
            Unit::Kib,
            figures.value("edits/growth_bytes"),
            "20 KiB",
            Some(20.0 * 1024.0),
        ),
        row(
            format!("a source of 40 KiB, {edits} edits: packs grow by, each"),
            Unit::Kib,
            figures.value("edited/packs_each_bytes"),
            "1 KiB and the sealed record",
            record.map(|bytes| bytes + 1024.0),
        ),
    ];
    for (what, case, factor) in [
        ("cold `grep -r`", "edited-grep", 1.15),
        ("cold `cat` of all files", "edited-cat", 1.15),
        ("restore", "edited-restore", 1.1),
    ] {
        rows.push(row(
            format!("200 sources, ten of them edited {edits} times: {what}"),
            Unit::Millis,
            millis(figures.wall_s(case, SELF)),
            format!("{factor} × the same tree in a fresh store"),
            times(factor, millis(figures.wall_s(case, FRESH))),
        ));
    }
    rows
}

fn releases(figures: &Figures) -> Vec<Row> {
    let size = |tool: &str| figures.value(&format!("versions/store_bytes/{tool}"));
    let later: Vec<String> =
        figures.samples.keys().filter(|case| case.starts_with("version-") && *case != "version-01").cloned().collect();
    // Each later one has to meet the bar, so the one that comes nearest to failing it is shown.
    let worst = later
        .iter()
        .filter_map(|case| {
            let (ours, theirs) = (figures.wall_s(case, SELF)?, figures.wall_s(case, RESTIC)?);
            Some((ours / theirs, ours, theirs))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    vec![
        row(
            format!("{} versions at one path: store", later.len() + 1),
            Unit::Mib,
            size(SELF),
            "0.35 × restic",
            times(0.35, size(RESTIC)),
        ),
        row(
            "… each further version (the slowest beside restic)",
            Unit::Seconds,
            worst.map(|(_, ours, _)| ours),
            "0.3 × restic",
            worst.map(|(_, _, theirs)| 0.3 * theirs),
        ),
    ]
}

fn transcript(figures: &Figures) -> Vec<Row> {
    let first = figures.value("transcript/first_bytes/parhelia");
    let last = figures.value("transcript/final_bytes/parhelia");
    let growths = figures.value("transcript/growths").unwrap_or_default();
    vec![row(
        format!("transcript, {growths:.0} growths: the store grows by"),
        Unit::Mib,
        first.zip(last).map(|(first, last)| last - first),
        "1.3 × the compressed new bytes",
        times(1.3, figures.value("transcript/compressed_new_bytes")),
    )]
}

fn restores(figures: &Figures) -> Vec<Row> {
    vec![
        row(
            "restore into a new folder",
            Unit::Seconds,
            figures.wall_s("restore", SELF),
            "0.9 × `tar -xf`",
            times(0.9, figures.wall_s("restore", TAR)),
        ),
        row(
            "restore in place, ten files differ",
            Unit::Seconds,
            figures.wall_s("in-place", SELF),
            "1 × bare walk + 0.2 s",
            figures.wall_s("in-place", WALK).map(|walk| walk + 0.2),
        ),
    ]
}

fn short_verbs(figures: &Figures) -> Vec<Row> {
    let checkpoints = figures.value("many/checkpoints").map_or_else(String::new, thousands);
    vec![
        row("diff of two checkpoints, ten files differ", Unit::Millis, millis(figures.wall_s("diff", SELF)), "30 ms", Some(30.0)),
        row(
            format!("list in a store of {checkpoints} checkpoints"),
            Unit::Millis,
            millis(figures.wall_s("list-late", SELF)),
            "30 ms",
            Some(30.0),
        ),
        row(
            "commit lock held during the first checkpoint (longest)",
            Unit::Millis,
            figures.value("first/lock_held_ms"),
            "100 ms",
            Some(100.0),
        ),
    ]
}

fn many(figures: &Figures) -> Vec<Row> {
    let checkpoints = figures.value("many/checkpoints").map_or_else(String::new, thousands);
    let mut rows = Vec::new();
    for (verb, what) in [("open", "opening (`show latest`)"), ("list", "listing")] {
        let early = millis(figures.wall_s(&format!("{verb}-early"), SELF));
        rows.push(row(
            format!("{what} after {checkpoints} small checkpoints"),
            Unit::Millis,
            millis(figures.wall_s(&format!("{verb}-late"), SELF)),
            format!("as after 10, within {NOISE_MS:.0} ms"),
            early.map(|early| early + NOISE_MS),
        ));
    }
    rows.push(row(
        "… store growth per checkpoint beside new content (trees included)",
        Unit::Kib,
        figures.value("many/overhead_bytes"),
        "8 KiB",
        Some(8.0 * 1024.0),
    ));
    rows
}

fn memory(figures: &Figures) -> Vec<Row> {
    let largest =
        |cases: &[&str]| cases.iter().filter_map(|case| figures.rss_mib(case, SELF)).max_by(f64::total_cmp).map(|mib| mib * MIB);
    let files = figures.value("tree/files").map_or_else(String::new, thousands);
    let mut rows = vec![row(
        format!("peak memory at {files} files (create and restore)"),
        Unit::Mib,
        largest(&["first", "unchanged", "edits", "restore", "in-place"]),
        "200 MiB",
        Some(200.0 * MIB),
    )];
    rows.push(row(
        "peak memory at 1,000,000 files",
        Unit::Mib,
        largest(&["scale-first-1000000", "scale-unchanged-1000000"]),
        "400 MiB",
        Some(400.0 * MIB),
    ));
    rows.push(row(
        "peak memory at 10,000,000 files",
        Unit::Mib,
        largest(&["scale-first-10000000", "scale-unchanged-10000000"]),
        "1 GiB",
        Some(1024.0 * MIB),
    ));
    rows
}

fn curve(figures: &Figures) -> Vec<Row> {
    let measured: Vec<u64> =
        CURVE_SIZES.into_iter().filter(|files| !figures.of(&format!("scale-first-{files}"), SELF).is_empty()).collect();
    let (Some(&small), Some(&large)) = (measured.iter().min(), measured.iter().max()) else {
        return Vec::new();
    };
    let each = |case: &str, files: u64| {
        let wall = figures.wall_s(&format!("{case}-{files}"), SELF);
        wall.map(|wall| wall * 1e6 / files as f64)
    };
    let (small_text, large_text) = (thousands(small as f64), thousands(large as f64));
    [("scale-first", "first checkpoint"), ("scale-unchanged", "unchanged checkpoint")]
        .iter()
        .map(|(case, what)| {
            row(
                format!("{what}, per file at {large_text} files"),
                Unit::Micros,
                each(case, large),
                format!("1.25 × that at {small_text} files"),
                times(1.25, each(case, small)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::launch::Outcome;

    fn took(wall_s: f64) -> Outcome {
        Outcome { wall_s, ..Outcome::default() }
    }

    #[test]
    fn a_bar_is_met_up_to_its_limit() {
        let mut figures = Figures::default();
        figures.add("first", SELF, took(2.0));
        figures.add("first", TAR, took(2.0));
        figures.add("first", BARE, took(1.5));
        let rows = rows(&figures);
        assert_eq!(rows[0].verdict(), "yes");
        assert_eq!(rows[1].verdict(), "**no**");
    }

    #[test]
    fn the_worst_of_the_further_versions_counts() {
        let mut figures = Figures::default();
        for (case, ours) in [("version-01", 9.0), ("version-02", 0.1), ("version-03", 0.2)] {
            figures.add(case, SELF, took(ours));
            figures.add(case, RESTIC, took(1.0));
        }
        let rows = rows(&figures);
        let slowest = rows.iter().find(|row| row.what.contains("further")).unwrap();
        assert_eq!(slowest.measured, Some(0.2));
    }

    #[test]
    fn nothing_measured_gives_no_rows() {
        assert!(rows(&Figures::default()).is_empty());
    }
}
