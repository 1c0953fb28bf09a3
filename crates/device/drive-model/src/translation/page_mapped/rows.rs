//! Rows of erase blocks: which pages live in each, which are free, and which is cleaned next.

use std::collections::VecDeque;
use std::ops::Range;

use super::map::NONE;

/// A row: one erase block of each die, written in order and erased as one.
#[derive(Clone, Debug, Default)]
struct Row {
    /// The host's page in each place; nothing while the row is erased.
    pages: Box<[u32]>,
    live: u32,
    /// It is full, and nobody cleans it.
    full: bool,
}

/// All rows.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    row_pages: u32,
    rows: Vec<Row>,
    free: VecDeque<u32>,
}

/// A row that takes writes, and its next place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Front(Option<(u32, u32)>);

impl Rows {
    pub(super) fn new(count: u32, row_pages: u32) -> Self {
        Self { row_pages, rows: vec![Row::default(); count as usize], free: (0..count).collect() }
    }

    /// Rows without anything in them.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// At most `pages` places at a front, which takes another row if more than `keep` are free; none if there is no room.
    pub(super) fn places(&mut self, front: &mut Front, pages: u32, keep: usize) -> Range<u32> {
        if front.0.is_none() && self.free.len() > keep {
            front.0 = self.free.pop_front().map(|row| (row, 0));
            if let Some((row, _)) = front.0 {
                self.rows[row as usize].pages = vec![NONE; self.row_pages as usize].into_boxed_slice();
            }
        }
        let Some((row, filled)) = front.0 else { return 0..0 };
        let end = (filled + pages).min(self.row_pages);
        front.0 = Some((row, end));
        if end == self.row_pages {
            front.0 = None;
            self.rows[row as usize].full = true;
        }
        row * self.row_pages + filled..row * self.row_pages + end
    }

    /// A place has the live copy of a page.
    pub(super) fn put(&mut self, place: u32, page: u32) {
        let row = &mut self.rows[(place / self.row_pages) as usize];
        row.pages[(place % self.row_pages) as usize] = page;
        row.live += 1;
    }

    /// It has it no more.
    pub(super) fn let_go(&mut self, place: u32) {
        let row = &mut self.rows[(place / self.row_pages) as usize];
        row.pages[(place % self.row_pages) as usize] = NONE;
        row.live -= 1;
    }

    /// The page that lives in a place, or [`NONE`].
    pub(super) fn page(&self, place: u32) -> u32 {
        self.rows[(place / self.row_pages) as usize].pages[(place % self.row_pages) as usize]
    }

    /// Takes the full row with the fewest live pages, if anything in it is dead.
    pub(super) fn take_victim(&mut self) -> Option<u32> {
        let full = self.rows.iter().enumerate().filter(|(_, row)| row.full);
        let (number, row) = full.min_by_key(|&(number, row)| (row.live, number))?;
        if row.live == self.row_pages {
            return None;
        }
        self.rows[number].full = false;
        Some(number as u32)
    }

    /// A victim is left as it is.
    pub(super) fn put_back(&mut self, row: u32) {
        self.rows[row as usize].full = true;
    }

    /// Pages that live, in all rows.
    #[cfg(test)]
    pub(super) fn live_pages(&self) -> u32 {
        self.rows.iter().map(|row| row.live).sum()
    }

    /// The first `most` live places of a row.
    pub(super) fn live(&self, row: u32, most: usize) -> Vec<u32> {
        let live = self.rows[row as usize].pages.iter().enumerate().filter(|&(_, &page)| page != NONE);
        live.take(most).map(|(at, _)| row * self.row_pages + at as u32).collect()
    }

    /// A row is erased (DM-PAGE-1).
    pub(super) fn erased(&mut self, row: u32) {
        debug_assert_eq!(self.rows[row as usize].live, 0, "DM-PAGE-1");
        self.rows[row as usize] = Row::default();
        self.free.push_back(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DM-PAGE-2.
    #[test]
    fn the_last_free_row_is_kept_and_the_row_with_the_fewest_live_pages_is_the_victim() {
        let mut rows = Rows::new(4, 8);
        let mut front = Front::default();
        assert_eq!(rows.places(&mut front, 5, 1), 0..5);
        assert_eq!(rows.places(&mut front, 5, 1), 5..8, "to the row's end");
        assert_eq!([rows.places(&mut front, 8, 1), rows.places(&mut front, 9, 1)], [8..16, 16..24]);
        assert_eq!(rows.places(&mut front, 1, 1), 0..0, "one is kept");
        (0..24).for_each(|place| rows.put(place, 100 + place));
        assert_eq!(rows.take_victim(), None, "all of them live");
        [3, 9, 10, 17].into_iter().for_each(|place| rows.let_go(place));
        assert_eq!(rows.take_victim(), Some(1));
        assert_eq!(rows.live(1, 3), [8, 11, 12]);
        assert_eq!(rows.take_victim(), Some(0));
        rows.put_back(1);
        (8..16).filter(|place| ![9, 10].contains(place)).for_each(|place| rows.let_go(place));
        assert_eq!(rows.take_victim(), Some(1));
        rows.erased(1);
        assert_eq!((rows.free(), rows.places(&mut front, 4, 1)), (2, 24..28));
    }
}
