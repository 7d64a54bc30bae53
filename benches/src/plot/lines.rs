//! Lines over the number of files, and what all plots share: the canvas, its colours and texts.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::{Context, Result};
use crate::side::tables::thousands;

/// The colour of parhelia.
pub const OURS: RGBColor = RGBColor(31, 99, 181);
/// The colour of everything that it is compared with.
pub const GREY: RGBColor = RGBColor(160, 166, 173);
/// The colour of texts: readable on white, which every plot has as its ground.
pub const TEXT: RGBColor = RGBColor(36, 41, 47);

const SIZE: (u32, u32) = (760, 380);

/// One line of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its label.
    pub name: &'static str,
    /// True if it is parhelia's.
    pub is_ours: bool,
    /// Files and microseconds.
    pub points: Vec<(f64, f64)>,
}

/// An area that is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on a white ground, and returns the SVG.
pub fn canvas(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).context(|| "draw the ground")?;
        draw(&area)?;
        area.present().context(|| "finish a plot")?;
    }
    Ok(svg)
}

/// A text, whose upper left corner is at a point.
pub fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, color: RGBColor) -> Result<()> {
    let style = TextStyle::from(("sans-serif", size)).color(&color);
    area.draw_text(text, &style, at).context(|| format!("write {text:?} into a plot"))
}

/// A filled rectangle.
pub fn bar(area: &Area<'_>, from: (i32, i32), to: (i32, i32), color: RGBColor) -> Result<()> {
    area.draw(&Rectangle::new([from, to], color.filled())).context(|| "draw a bar")
}

/// All lines as one SVG, over the number of files in powers of ten.
pub fn draw(title: &str, lines: &[Line]) -> Result<Option<String>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (least, most) = points().fold((f64::MAX, 0.0_f64), |(least, most), (files, _)| (least.min(*files), most.max(*files)));
    if least >= most {
        return Ok(None);
    }
    let highest = points().map(|(_, micros)| *micros).fold(0.0, f64::max) * 1.1;
    canvas(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, TextStyle::from(("sans-serif", 21)).color(&TEXT))
            .margin(12)
            .margin_right(160)
            .x_label_area_size(40)
            .y_label_area_size(40)
            .build_cartesian_2d((least..most).log_scale(), 0.0..highest)
            .context(|| "draw the axes")?;
        let mut mesh = chart.configure_mesh();
        let files = |value: &f64| thousands(*value);
        mesh.disable_x_mesh()
            .label_style(TextStyle::from(("sans-serif", 15)).color(&TEXT))
            .light_line_style(WHITE)
            .x_labels(3)
            .x_label_formatter(&files)
            .y_label_formatter(&|micros| format!("{micros:.0}"))
            .x_desc("files")
            .axis_style(GREY);
        mesh.draw().context(|| "draw the axes")?;
        for line in lines {
            let color = if line.is_ours { OURS } else { GREY };
            chart.draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2))).context(|| "draw a line")?;
            let Some(last) = line.points.last() else { continue };
            let (x, y) = chart.backend_coord(last);
            // Two lines that end close to each other keep their labels apart.
            let above = if line.is_ours { 14 } else { 1 };
            text(area, line.name, (x + 8, y - above), 16, color)?;
        }
        Ok(())
    })
    .map(Some)
}
