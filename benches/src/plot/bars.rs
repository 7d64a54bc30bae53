//! Panels of horizontal bars below each other, one for each tool, with the number behind each bar.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::lines::{GREY, OURS, TEXT, canvas, text};
use crate::error::Result;

const WIDTH: u32 = 760;
const TITLE_HEIGHT: i32 = 36;
const PANEL_HEAD: i32 = 26;
const BAR_STEP: i32 = 20;
const BAR_HEIGHT: i32 = 13;
const BAR_LEFT: i32 = 100;
const BAR_WIDTH_MAX: f64 = 560.0;

/// One case: a bar for each tool that has a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    what: &'static str,
    bars: Vec<(&'static str, f64)>,
}

impl Panel {
    /// The panel of a case, with those tools that were measured.
    pub fn new(what: &'static str, tools: &[&'static str], figure: impl Fn(&str) -> Option<f64>) -> Self {
        Panel { what, bars: tools.iter().filter_map(|tool| Some((*tool, figure(tool)?))).collect() }
    }

    /// True if anything was measured.
    pub fn has_bars(&self) -> bool {
        !self.bars.is_empty()
    }

    fn height(&self) -> i32 {
        PANEL_HEAD + BAR_STEP * self.bars.len() as i32 + 10
    }
}

/// All panels as one SVG. Each has a scale of its own.
pub fn draw(title: &str, panels: &[Panel]) -> Result<Option<String>> {
    if panels.is_empty() {
        return Ok(None);
    }
    let height = TITLE_HEIGHT + panels.iter().map(Panel::height).sum::<i32>();
    canvas((WIDTH, height as u32), |area| {
        text(area, title, (12, 10), 21, TEXT)?;
        let mut top = TITLE_HEIGHT;
        for panel in panels {
            draw_panel(area, panel, top)?;
            top += panel.height();
        }
        Ok(())
    })
    .map(Some)
}

fn draw_panel(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel, top: i32) -> Result<()> {
    text(area, panel.what, (12, top + 5), 17, TEXT)?;
    let longest = panel.bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    for (index, (tool, value)) in panel.bars.iter().enumerate() {
        let y = top + PANEL_HEAD + BAR_STEP * index as i32;
        let right = BAR_LEFT + (BAR_WIDTH_MAX * value / longest).round().max(1.0) as i32;
        let color = if *tool == "parhelia" { OURS } else { GREY };
        super::lines::bar(area, (BAR_LEFT, y), (right, y + BAR_HEIGHT), color)?;
        text(area, tool, (12, y), 15, TEXT)?;
        text(area, &format!("{value:.2}"), (right + 6, y), 15, TEXT)?;
    }
    Ok(())
}
