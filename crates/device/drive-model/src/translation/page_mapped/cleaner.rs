//! Time and steps of cleaning.

use std::ops::Range;

use crate::command::Op;
use crate::translation::managed::Inside;

use super::clean::{Cleaning, Step, ranges};
use super::layer::{PageMappedLayer, Task};
use super::map::NONE;

impl PageMappedLayer {
    /// True if rows are short, or the host has been quiet and there is more to be made free.
    fn wants_cleaning(&self, inside: &Inside) -> bool {
        let quiet = self.hosts.is_empty() && inside.now() >= self.last_busy + self.idle;
        self.rows.free() < if quiet { self.free_when_quiet } else { self.free_when_busy }
    }

    /// Begins to clean a row, if one should be, and none is.
    pub(super) fn clean(&mut self, inside: &mut Inside) {
        if self.cleaning.is_some() || !self.wants_cleaning(inside) {
            return;
        }
        match self.rows.take_victim() {
            Some(victim) => self.clean_on(inside, victim),
            None => self.all_live = true,
        }
    }

    /// Reads the next live pages of a victim, or erases it.
    fn clean_on(&mut self, inside: &mut Inside, victim: u32) {
        let places = self.rows.live(victim, self.part_pages);
        let step = if places.is_empty() {
            let first = u64::from(victim * self.row_pages);
            let row = first..first + u64::from(self.row_pages);
            self.run_cells(inside, Op::Reset, std::slice::from_ref(&row));
            Step::Erases
        } else {
            self.run_cells(inside, Op::Read, &ranges(places.iter().copied()));
            Step::Reads(places)
        };
        self.cleaning = Some(Cleaning { victim, step });
    }

    /// A step of cleaning ended.
    pub(super) fn cleaned_step(&mut self, inside: &mut Inside) {
        let Some(Cleaning { victim, step }) = self.cleaning.take() else { return };
        match step {
            Step::Reads(places) => {
                // Some may have died since.
                let alive = places.into_iter().filter(|&place| self.rows.page(place) != NONE).collect();
                self.copy(inside, victim, alive);
            }
            Step::Writes(copies) => {
                for (from, to) in copies {
                    let page = self.rows.page(from);
                    if page != NONE {
                        self.rows.let_go(from);
                        self.rows.put(to, page);
                        self.map.set(page, to);
                    }
                }
                self.clean_on(inside, victim);
            }
            Step::Erases => {
                self.rows.erased(victim);
                self.write_on(inside);
                self.clean(inside);
            }
        }
    }

    /// Writes copies of pages to the row that takes them, or to the next one, too.
    fn copy(&mut self, inside: &mut Inside, victim: u32, from: Vec<u32>) {
        let mut to: Vec<u32> = Vec::with_capacity(from.len());
        while to.len() < from.len() {
            let places = self.rows.places(&mut self.copy_front, (from.len() - to.len()) as u32, 0);
            debug_assert!(!places.is_empty(), "DM-PAGE-2");
            if places.is_empty() {
                break;
            }
            to.extend(places);
        }
        if to.is_empty() {
            self.clean_on(inside, victim);
            return;
        }
        self.run_cells(inside, Op::Write, &ranges(to.iter().copied()));
        self.cleaning = Some(Cleaning { victim, step: Step::Writes(from.into_iter().zip(to).collect()) });
    }

    fn run_cells(&mut self, inside: &mut Inside, op: Op, places: &[Range<u64>]) {
        let work = self.number(Task::Clean);
        inside.run_cells(op, places, work);
    }

    /// Power failed: the victim keeps what was not copied.
    pub(super) fn forget_cleaning(&mut self) {
        if let Some(cleaning) = self.cleaning.take() {
            self.rows.put_back(cleaning.victim);
        }
    }
}
