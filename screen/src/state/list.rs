//! A list with one selected item.

use crate::text::Move;

/// The selected item, and the first one in sight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Number of the selected item, from 0.
    pub selected: usize,
    /// The first item in sight.
    pub top: usize,
    height: usize,
}

impl List {
    /// Fits it into a pane of so many rows, with the selected item in sight.
    pub fn fit(&mut self, count: usize, height: usize) {
        self.height = height;
        self.selected = self.selected.min(count.saturating_sub(1));
        let lowest_top = (self.selected + 1).saturating_sub(height);
        self.top = self.top.clamp(lowest_top, self.selected.max(lowest_top)).min(count.saturating_sub(height).max(lowest_top));
    }

    /// Selects another item.
    pub fn go(&mut self, to: Move, count: usize) {
        self.selected = to.from(self.selected, count.saturating_sub(1));
        self.fit(count, self.height);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_item_stays_in_sight() {
        let mut list = List::default();
        list.fit(20, 5);
        list.go(Move::By(6), 20);
        assert_eq!((list.selected, list.top), (6, 2));
        list.go(Move::By(-3), 20);
        assert_eq!((list.selected, list.top), (3, 2));
        list.go(Move::Bottom, 20);
        assert_eq!((list.selected, list.top), (19, 15));
        list.fit(20, 10);
        assert_eq!((list.selected, list.top), (19, 10));
        list.fit(3, 10);
        assert_eq!((list.selected, list.top), (2, 0));
        list.fit(0, 10);
        list.go(Move::By(1), 0);
        assert_eq!((list.selected, list.top), (0, 0));
    }
}
