//! Order of a group's writers: one at a time appends, a number of segments, so that an object's segments lie together
//! and drives stay in place. (SMORE, section V-D.)
//!
//! With several open sets, drives seek when a turn goes to a writer of another set. So a turn is the longer the fewer
//! wait for one, and a writer that waits for the same set is preferred, within bounds: those that wait for any set have
//! had their first turn, about, after as long as [`ROUND`] of the shortest. Small objects do not wait for a round: a
//! segment of theirs may go between those of a turn.

use std::collections::{BTreeSet, VecDeque};

/// A client's writer.
pub(crate) type SeatId = u64;

/// The shortest turns that a round has: where fewer wait, theirs are longer.
const ROUND: u32 = 24;

/// Drives stay with a set for so many of the shortest turns at most.
const STAY: u32 = 5;

/// Writers of a group, in the order in which they came.
pub(crate) struct Queue {
    /// Segments of a turn at least.
    segments: u32,
    /// Several sets are open: who appends where matters.
    several: bool,
    /// The writer with the turn, and the segments left of it.
    holder: Option<(SeatId, u32)>,
    /// Writers waiting for one, and the slots that they write to.
    waiting: VecDeque<(SeatId, usize)>,
    /// Writers waiting to write small objects.
    small: VecDeque<SeatId>,
    /// Those of them who may.
    let_in: BTreeSet<SeatId>,
    /// Segments since small objects were written.
    since_small: u32,
    /// Slot of the last segment.
    slot: usize,
    /// Segments that went there, one after the other.
    stayed: u32,
}

impl Queue {
    /// Turns of at least that many segments.
    pub(crate) fn new(segments: u32, several: bool) -> Self {
        Self {
            segments: segments.max(1),
            several,
            holder: None,
            waiting: VecDeque::new(),
            small: VecDeque::new(),
            let_in: BTreeSet::new(),
            since_small: 0,
            slot: 0,
            stayed: 0,
        }
    }

    /// True if it is that writer's turn; if not, it waits for one from now on.
    pub(crate) fn turn(&mut self, seat: SeatId, slot: usize) -> bool {
        match self.holder {
            Some((holder, _)) if holder == seat => return true,
            Some(_) if self.waits(seat) => {}
            Some(_) => self.waiting.push_back((seat, slot)),
            None => {
                self.holder = Some((seat, self.length()));
                return true;
            }
        }
        false
    }

    /// True if a writer waits for a turn.
    pub(crate) fn waits(&self, seat: SeatId) -> bool {
        self.waiting.iter().any(|(other, _)| *other == seat)
    }

    /// Number of writers waiting to write small objects.
    pub(crate) fn small(&self) -> usize {
        self.small.len()
    }

    /// True if a segment of small objects may be written now: if no writer has a turn, or as many segments as the
    /// shortest turn has were written since the last such segment. If not, the writer waits for that from now on.
    pub(crate) fn small_turn(&mut self, seat: SeatId) -> bool {
        if self.let_in.remove(&seat) {
            return true;
        }
        if self.small.contains(&seat) {
            return false;
        }
        if self.holder.is_none() || self.since_small >= self.segments {
            self.since_small = 0;
            return true;
        }
        self.small.push_back(seat);
        false
    }

    /// Counts a segment of the turn's holder, which went to that slot. Returns true if its turn goes on.
    pub(crate) fn spend(&mut self, seat: SeatId, slot: usize) -> bool {
        let Some((_, left)) = self.holder.as_mut().filter(|(holder, _)| *holder == seat) else { return false };
        *left = left.saturating_sub(1);
        let over = *left == 0;
        self.stayed = if self.slot == slot { self.stayed.saturating_add(1) } else { 1 };
        self.slot = slot;
        self.since_small = self.since_small.saturating_add(1);
        if self.since_small >= self.segments
            && let Some(small) = self.small.pop_front()
        {
            self.let_in.insert(small);
            self.since_small = 0;
        }
        if over {
            self.pass();
        }
        !over
    }

    /// A writer waits no more; if it has the turn, that is the next one's.
    pub(crate) fn leave(&mut self, seat: SeatId) {
        self.waiting.retain(|(other, _)| *other != seat);
        self.small.retain(|other| *other != seat);
        self.let_in.remove(&seat);
        if self.holder.is_some_and(|(holder, _)| holder == seat) {
            self.pass();
        }
    }

    /// The next one's turn.
    fn pass(&mut self) {
        let near = |(_, slot): &(SeatId, usize)| self.several && *slot == self.slot;
        let stays = self.stayed < self.stay();
        let at = self.waiting.iter().position(near).filter(|_| stays).unwrap_or(0);
        let next = self.waiting.remove(at);
        let left = self.length();
        self.holder = next.map(|(seat, _)| (seat, left));
        if self.holder.is_none() {
            self.since_small = 0;
            // All of them: none of those who write large objects may ever come to let them in.
            self.let_in.extend(self.small.drain(..));
        }
    }

    /// Segments of a turn that begins now.
    fn length(&self) -> u32 {
        if !self.several {
            return self.segments;
        }
        let others = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.segments.saturating_mul((ROUND / others).clamp(1, STAY))
    }

    /// Segments after which drives leave a set that others wait for: the fewer sets are waited for, the later.
    fn stay(&self) -> u32 {
        let slots: BTreeSet<usize> = self.waiting.iter().map(|(_, slot)| *slot).chain([self.slot]).collect();
        self.segments.saturating_mul(ROUND) / slots.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of that writer's turn, as it goes on.
    fn length(queue: &mut Queue, seat: SeatId, slot: usize) -> u32 {
        1 + std::iter::from_fn(|| queue.spend(seat, slot).then_some(())).count() as u32
    }

    #[test]
    fn turns_are_the_longer_the_fewer_wait() {
        let mut one_set = Queue::new(12, false);
        assert!(one_set.turn(1, 0));
        assert_eq!(length(&mut one_set, 1, 0), 12);
        let mut queue = Queue::new(12, true);
        assert!(queue.turn(1, 0));
        assert_eq!(queue.holder, Some((1, 60)));
        assert!((100..130).all(|seat| !queue.turn(seat, seat as usize - 100)));
        queue.leave(1);
        assert_eq!(queue.holder, Some((100, 12)));
        // Writers that went away meanwhile are left out.
        (109..130).for_each(|seat| queue.leave(seat));
        queue.leave(101);
        queue.leave(100);
        assert_eq!(queue.holder.map(|(holder, _)| holder), Some(102));
    }

    #[test]
    fn drives_stay_with_a_set_for_a_while_and_nobody_waits_for_ever() {
        let mut queue = Queue::new(2, true);
        assert!(queue.turn(1, 7));
        assert!(!queue.turn(2, 1));
        assert!((10..30).all(|seat| !queue.turn(seat, 7)));
        queue.spend(1, 7);
        queue.leave(1);
        let mut served = 0;
        for seat in 10..30 {
            if !queue.turn(seat, 7) {
                break;
            }
            length(&mut queue, seat, 7);
            served += 1;
        }
        assert!(served > 0 && queue.turn(2, 1), "{served} of those who write to the same set came before");
    }

    #[test]
    fn small_objects_go_between_the_segments_of_a_turn() {
        let mut queue = Queue::new(3, true);
        assert!(queue.small_turn(50), "nobody has a turn");
        assert!(queue.turn(1, 0));
        assert!(!queue.small_turn(51));
        queue.spend(1, 0);
        queue.spend(1, 0);
        assert!(!queue.small_turn(51));
        queue.spend(1, 0);
        assert!(queue.small_turn(51));
    }

    /// Four writers of small objects waited when the last turn ended. One was let in, and three waited for ever.
    #[test]
    fn all_small_objects_go_when_nobody_has_a_turn() {
        let mut queue = Queue::new(3, true);
        assert!(queue.turn(1, 0));
        assert!((50..54).all(|seat| !queue.small_turn(seat)));
        queue.leave(1);
        assert!((50..54).all(|seat| queue.small_turn(seat)));
    }
}
