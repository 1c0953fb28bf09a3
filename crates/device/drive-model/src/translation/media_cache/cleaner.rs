//! Choice and time of cleaning: the band of the oldest extent, while the host is quiet or waits for room.

use crate::command::Nanos;
use crate::translation::extents::Extent;
use crate::translation::managed::Inside;

use super::clean::Cleaning;
use super::layer::{MediaCacheLayer, work};

impl MediaCacheLayer {
    /// True if there is something to clean, or left of a cleaning, and none of its commands is under way.
    pub(super) fn wants_cleaning(&self) -> bool {
        match &self.cleaning {
            Some(cleaning) => !cleaning.runs,
            None => !self.map.is_empty(),
        }
    }

    /// Time at which cleaning goes on, if nothing else happens.
    pub(super) fn cleans_at(&self) -> Option<Nanos> {
        let waits = self.cleaning.as_ref().and_then(Cleaning::waits_until);
        let from = if self.full { waits } else { self.idle_from().map(|from| from.max(waits.unwrap_or(0))) };
        from.filter(|_| self.wants_cleaning())
    }

    /// Sends the next command of a cleaning, if writes wait for room or the host has been quiet for long enough.
    pub(super) fn go_cleaning(&mut self, inside: &mut Inside) {
        let quiet = self.idle_from().is_some_and(|from| from <= inside.now());
        if !(self.full || quiet) || !self.wants_cleaning() {
            return;
        }
        let cleaning = match &mut self.cleaning {
            Some(cleaning) => cleaning,
            None => {
                let Some(planned) = self.plan() else { return };
                self.cleaning.insert(planned)
            }
        };
        if cleaning.begins(inside.now()).is_some() {
            return;
        }
        if let Some(step) = cleaning.next() {
            step.run(inside, work::CLEAN);
        } else if let Some(cleaning) = self.cleaning.take() {
            self.cleaned(&cleaning);
            self.full = false;
            self.go(inside);
        }
    }

    /// The band of the oldest extent in the log (Algorithm 1).
    fn plan(&self) -> Option<Cleaning> {
        let (number, entry) = self.log.oldest()?;
        let lives = entry
            .extents
            .iter()
            .find_map(|blocks| self.map.within(blocks).into_iter().find(|part| part.owner == number))?;
        let band = self.bands.of(lives.start);
        let taken = self.map.within(&band);
        Some(Cleaning::plan(&band, taken, &self.layout, self.spec.map_blocks))
    }

    /// A command of the cleaning ended.
    pub(super) fn cleaned_step(&mut self) {
        if let Some(cleaning) = &mut self.cleaning {
            cleaning.ended();
        }
    }

    /// The band has what the cache had of it, but for what was written meanwhile.
    fn cleaned(&mut self, cleaning: &Cleaning) {
        for taken in &cleaning.taken {
            let is_same = |part: &Extent| part.owner == taken.owner && part.at - taken.at == part.start - taken.start;
            for part in self.map.within(&(taken.start..taken.end())).into_iter().filter(is_same) {
                for gone in self.map.remove(&(part.start..part.end())) {
                    self.log.let_go(gone.owner, gone.blocks);
                }
            }
        }
    }
}
