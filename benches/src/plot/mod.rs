//! Plots of a run's figures, as SVG. Fonts are the viewer's own: nothing is read from this machine but the figures.

mod bars;
mod lines;

use std::path::Path;

use serde::Deserialize;

use crate::error::{Context, Error, Result};
use crate::side::cases::CURVE_SIZES;
use crate::side::figures::Figures;
use bars::Panel;
use lines::Line;

/// The files that [`draw`] makes, with what each shows.
pub const PLOTS: [(&str, &str); 4] = [
    ("times.svg", "Seconds for a checkpoint or a restore of node_modules"),
    ("sizes.svg", "MiB on the disk"),
    ("scale.svg", "Microseconds per file"),
    ("mounts.svg", "Seconds in a mounted checkpoint"),
];

const MIB: f64 = 1048576.0;
/// Tools of the plots of times and sizes, in their order from above.
const TOOLS: [&str; 5] = ["parhelia", "tar --zstd", "restic", "borg", "shadow git"];
const MOUNTS: [&str; 4] = ["native", "parhelia", "restic", "borg"];

/// The part of a run's raw figures that plots need.
#[derive(Deserialize)]
struct Raw {
    figures: Figures,
}

/// Reads the raw figures of several runs; of a case that is in several, the last file counts.
pub fn read(files: &[impl AsRef<Path>]) -> Result<Figures> {
    let mut all = Figures::default();
    for file in files {
        let file = file.as_ref();
        let text = std::fs::read(file).context(|| format!("read {}", file.display()))?;
        let raw: Raw = serde_json::from_slice(&text).context(|| format!("understand the figures in {}", file.display()))?;
        all.samples.extend(raw.figures.samples);
        all.values.extend(raw.figures.values);
    }
    Ok(all)
}

/// A plot as SVG; nothing if none of its figures was measured.
pub fn draw(name: &str, figures: &Figures) -> Result<Option<String>> {
    let title = PLOTS.iter().find(|(file, _)| *file == name).map_or("", |(_, title)| title);
    match name {
        "times.svg" => bars::draw(title, &times(figures)),
        "sizes.svg" => bars::draw(title, &sizes(figures)),
        "mounts.svg" => bars::draw(title, &mounts(figures)),
        "scale.svg" => lines::draw(title, &scale(figures)),
        _ => Err(Error::new(format!("no plot is called {name}"))),
    }
}

fn times(figures: &Figures) -> Vec<Panel> {
    let cases = [
        ("first", "first checkpoint"),
        ("unchanged", "unchanged checkpoint"),
        ("edits", "ten files edited"),
        ("restore", "restore into a new folder"),
        ("in-place", "restore in place, ten files differ"),
    ];
    let panels = cases.map(|(case, what)| Panel::new(what, &TOOLS, |tool| figures.wall_s(case, tool)));
    panels.into_iter().filter(Panel::has_bars).collect()
}

fn sizes(figures: &Figures) -> Vec<Panel> {
    let kinds = [
        ("first/store_bytes", "first checkpoint of node_modules"),
        ("versions/store_bytes", "twelve releases of a project at one path"),
        ("transcript/final_bytes", "a transcript of 40 MiB after twenty growths"),
    ];
    let size = |kind: &str, tool: &str| figures.value(&format!("{kind}/{tool}")).map(|bytes| bytes / MIB);
    let panels = kinds.map(|(kind, what)| Panel::new(what, &TOOLS, |tool| size(kind, tool)));
    panels.into_iter().filter(Panel::has_bars).collect()
}

fn mounts(figures: &Figures) -> Vec<Panel> {
    let acts = [
        ("find-warm", "find -ls, warm"),
        ("cat-cold", "cat of all small files, cold"),
        ("cat-warm", "cat of all small files, warm"),
        ("grep-cold", "grep -r, cold"),
        ("grep-warm", "grep -r, warm"),
        ("copy-cold", "cp -a out of it, cold"),
    ];
    let panels = acts.map(|(act, what)| Panel::new(what, &MOUNTS, |tool| figures.wall_s(&format!("mount-{act}"), tool)));
    panels.into_iter().filter(Panel::has_bars).collect()
}

fn scale(figures: &Figures) -> Vec<Line> {
    let lines = [
        ("scale-first", "parhelia", "first checkpoint"),
        ("scale-first", "bare loop", "bare loop"),
        ("scale-unchanged", "parhelia", "unchanged checkpoint"),
        ("scale-unchanged", "bare walk", "bare walk"),
    ];
    let points = |case: &str, tool: &str| -> Vec<(f64, f64)> {
        let point = |files: u64| Some((files as f64, figures.wall_s(&format!("{case}-{files}"), tool)? * 1e6 / files as f64));
        CURVE_SIZES.into_iter().filter_map(point).collect()
    };
    let lines = lines.map(|(case, tool, name)| Line { name, is_ours: tool == "parhelia", points: points(case, tool) });
    lines.into_iter().filter(|line| !line.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plots_of_the_documents_are_drawn_from_their_figures() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks");
        let figures = read(&[folder.join("figures.json")]).unwrap();
        for (name, _) in PLOTS {
            let kept = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let drawn = draw(name, &figures).unwrap().unwrap();
            assert!(
                kept == drawn,
                "docs/benchmarks/{name} is out of date: run `plots docs/benchmarks/figures.json --to docs/benchmarks`"
            );
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        for (name, _) in PLOTS {
            assert_eq!(draw(name, &Figures::default()).unwrap(), None);
        }
    }
}
