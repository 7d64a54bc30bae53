//! The places of the panes.

use ratatui::layout::Rect;

/// The screen needs so many columns and rows.
pub const SIZE_MIN: (u16, u16) = (50, 12);
/// From so many columns on, the three panes stand side by side.
pub const SIDE_BY_SIDE_COLUMNS: u16 = 110;
/// Rows of the header.
const HEADER_ROWS: u16 = 3;

/// A part of the screen that has the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The list of files that changed.
    #[default]
    Files,
    /// The diff of the selected one.
    Diff,
    /// The conversation beside the diff.
    Conversation,
}

impl Pane {
    const ALL: [Pane; 3] = [Pane::Files, Pane::Diff, Pane::Conversation];

    /// The next one, or the one before, going round.
    pub fn next(self, forward: bool) -> Pane {
        Pane::ALL[(self as usize + if forward { 1 } else { 2 }) % 3]
    }

    /// Its title on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Pane::Files => "Files",
            Pane::Diff => "Diff",
            Pane::Conversation => "Conversation",
        }
    }
}

/// Places of what is on the screen. The first row of a pane is its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The rows at the top, about session and checkpoint.
    pub header: Rect,
    /// The list of files; none where another pane has all of the width.
    pub files: Option<Rect>,
    /// The diff; none where another pane has all of the width.
    pub diff: Option<Rect>,
    /// The conversation; none where it has no room or another pane has all of it.
    pub conversation: Option<Rect>,
    /// The last row.
    pub footer: Rect,
    /// Everything between header and footer.
    pub body: Rect,
}

impl Areas {
    /// Of a terminal of this size; none if it is too small. A pane that is `wide` is alone.
    pub fn of((columns, rows): (u16, u16), focus: Pane, is_wide: bool, files: usize) -> Option<Self> {
        if columns < SIZE_MIN.0 || rows < SIZE_MIN.1 {
            return None;
        }
        let header = Rect::new(0, 0, columns, HEADER_ROWS);
        let footer = Rect::new(0, rows - 1, columns, 1);
        let body = Rect::new(0, HEADER_ROWS, columns, rows - HEADER_ROWS - 1);
        let mut areas = Areas { header, files: None, diff: None, conversation: None, footer, body };
        match (is_wide, columns >= SIDE_BY_SIDE_COLUMNS, focus) {
            (true, _, Pane::Conversation) | (false, false, Pane::Conversation) => areas.conversation = Some(body),
            (true, ..) => areas.diff = Some(body),
            (false, true, _) => areas.side_by_side(),
            (false, false, _) => areas.stacked(files),
        }
        Some(areas)
    }

    /// A column between two panes stays free for a line.
    fn side_by_side(&mut self) {
        let Rect { x, y, width, height } = self.body;
        let files = (width / 4).min(50);
        let conversation = width * 3 / 10;
        let diff = width - files - conversation - 2;
        self.files = Some(Rect::new(x, y, files, height));
        self.diff = Some(Rect::new(x + files + 1, y, diff, height));
        self.conversation = Some(Rect::new(x + files + diff + 2, y, conversation, height));
    }

    fn stacked(&mut self, files: usize) {
        let Rect { x, y, width, height } = self.body;
        let wanted = u16::try_from(files).unwrap_or(u16::MAX).saturating_add(1);
        let upper = wanted.clamp(2, (height * 2 / 5).max(4));
        self.files = Some(Rect::new(x, y, width, upper));
        self.diff = Some(Rect::new(x, y + upper, width, height - upper));
    }

    /// The place of a pane's content, below its title.
    pub fn content(&self, pane: Pane) -> Option<Rect> {
        let area = match pane {
            Pane::Files => self.files,
            Pane::Diff => self.diff,
            Pane::Conversation => self.conversation,
        }?;
        Some(Rect::new(area.x, area.y + 1, area.width, area.height.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_stand_side_by_side_where_there_is_room() {
        let areas = Areas::of((110, 30), Pane::Files, false, 5).unwrap();
        let (files, diff, said) = (areas.files.unwrap(), areas.diff.unwrap(), areas.conversation.unwrap());
        assert!(files.right() < diff.x && diff.right() < said.x && said.right() == 110);
        assert_eq!((files.height, diff.height, said.height), (26, 26, 26));
        let areas = Areas::of((110, 30), Pane::Diff, true, 5).unwrap();
        assert_eq!((areas.files, areas.diff, areas.conversation), (None, Some(areas.body), None));
    }

    #[test]
    fn a_narrow_terminal_has_files_above_the_diff_and_the_conversation_alone() {
        let areas = Areas::of((60, 15), Pane::Diff, false, 100).unwrap();
        let (files, diff) = (areas.files.unwrap(), areas.diff.unwrap());
        assert!(files.height >= 4 && diff.height >= 6 && files.bottom() == diff.y && diff.bottom() == 14);
        assert_eq!(Areas::of((60, 15), Pane::Conversation, false, 1).unwrap().conversation, Some(areas.body));
        assert_eq!(Areas::of((60, 11), Pane::Diff, false, 1), None);
        assert_eq!(Areas::of((49, 50), Pane::Diff, false, 1), None);
    }
}
