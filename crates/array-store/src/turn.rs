//! Turns: one writer of a lane at a time appends, a number of segments, so that an object's segments lie together and drives stay
//! where they are. (SMORE, section V-D.)
//!
//! Where several sets are open, drives seek when a turn goes to a writer of another set. So a turn is the longer the fewer
//! wait for one, and one who waits for the same set is preferred, within bounds: those who wait for any set have had their
//! first turn, about, after as long as [`ROUND`] of the shortest. Small objects do not wait for a round: a segment of theirs
//! may go between those of a turn.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// The shortest turns that a round has: where fewer wait, theirs are longer.
const ROUND: u32 = 24;

/// Drives stay with a set for so many of the shortest turns at most.
const STAY: u32 = 5;

/// Who may append.
pub(crate) struct Turns {
    lane: usize,
    /// Segments of a turn at least.
    segments: u32,
    /// Several sets are open: who appends where matters.
    several: bool,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    ended: bool,
    taken: bool,
    waiting: VecDeque<Waiter>,
    /// Those who wait to write small objects.
    small: VecDeque<oneshot::Sender<()>>,
    /// Segments since small objects were written.
    since_small: u32,
    /// Where the last segment went.
    slot: usize,
    /// Segments that went there, one after the other.
    stayed: u32,
}

struct Waiter {
    slot: usize,
    turn: oneshot::Sender<Turn>,
}

/// A turn, until it is dropped.
pub(crate) struct Turn {
    turns: Rc<Turns>,
    left: u32,
}

impl Turns {
    /// Turns of a lane, of at least that many segments.
    pub(crate) fn new(lane: usize, segments: u32, several: bool) -> Rc<Self> {
        Rc::new(Self { lane, segments: segments.max(1), several, state: RefCell::default() })
    }

    /// Waits for a turn of somebody who will append to the set of that slot.
    ///
    /// # Errors
    /// `Stopped` once there are no more.
    pub(crate) async fn take(self: &Rc<Self>, slot: usize) -> Result<Turn> {
        let waiting = {
            let mut state = self.state.borrow_mut();
            if state.ended {
                return Err(Error::stopped());
            }
            if !state.taken {
                state.taken = true;
                let left = self.length(&state);
                return Ok(Turn { turns: self.clone(), left });
            }
            let (turn, waiting) = oneshot::channel();
            state.waiting.push_back(Waiter { slot, turn });
            waiting
        };
        waiting.await.map_err(|_| Error::stopped())
    }

    /// How many wait to write small objects.
    pub(crate) fn small(&self) -> usize {
        self.state.borrow().small.len()
    }

    /// Waits until a segment of small objects may be written: at once if nobody has a turn, or else when as many segments
    /// as the shortest turn has were written since the last such segment.
    ///
    /// # Errors
    /// `Stopped` once there are no more.
    pub(crate) async fn take_small(&self) -> Result<()> {
        let waiting = {
            let mut state = self.state.borrow_mut();
            if state.ended {
                return Err(Error::stopped());
            }
            if !state.taken || state.since_small >= self.segments {
                state.since_small = 0;
                return Ok(());
            }
            let (small, waiting) = oneshot::channel();
            state.small.push_back(small);
            waiting
        };
        waiting.await.map_err(|_| Error::stopped())
    }

    /// There are no more turns; who waits for one learns it. Whoever has one may keep it for ever: a caller that polls
    /// its future no more.
    pub(crate) fn end(&self) {
        let mut state = self.state.borrow_mut();
        state.ended = true;
        state.small.clear();
        state.waiting.clear();
    }

    /// Segments of a turn that begins now.
    fn length(&self, state: &State) -> u32 {
        if !self.several {
            return self.segments;
        }
        let others = u32::try_from(state.waiting.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.segments.saturating_mul((ROUND / others).clamp(1, STAY))
    }

    /// Segments after which drives leave a set that others wait for: the fewer sets are waited for, the later.
    fn stay(&self, state: &State) -> u32 {
        let slots: BTreeSet<usize> = state.waiting.iter().map(|waiter| waiter.slot).chain([state.slot]).collect();
        self.segments.saturating_mul(ROUND) / slots.len() as u32
    }

    /// The next one's turn.
    fn pass(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.waiting.retain(|waiter| !waiter.turn.is_closed());
        let near = |waiter: &Waiter| self.several && waiter.slot == state.slot;
        let stays = state.stayed < self.stay(&state);
        let at = state.waiting.iter().position(near).filter(|_| stays).unwrap_or(0);
        let next = state.waiting.remove(at);
        let left = self.length(&state);
        let Some(next) = next else {
            state.taken = false;
            state.since_small = 0;
            // All of them: none of those who write large objects may ever come to let them in.
            for small in state.small.drain(..) {
                let _ = small.send(());
            }
            return;
        };
        drop(state);
        // Where nobody takes it after all, it comes back here.
        let _ = next.turn.send(Turn { turns: self.clone(), left });
    }

    /// One segment of small objects may be written.
    fn let_small(state: &mut State) {
        let waiting = std::iter::from_fn(|| state.small.pop_front());
        if waiting.map(|small| small.send(())).any(|sent| sent.is_ok()) {
            state.since_small = 0;
        }
    }
}

impl Turn {
    /// The lane that it is of.
    pub(crate) fn lane(&self) -> usize {
        self.turns.lane
    }

    /// Counts a segment that went to that slot; whether the turn goes on.
    pub(crate) fn spend(&mut self, slot: usize) -> bool {
        let mut state = self.turns.state.borrow_mut();
        state.stayed = if state.slot == slot { state.stayed.saturating_add(1) } else { 1 };
        state.slot = slot;
        state.since_small = state.since_small.saturating_add(1);
        if state.since_small >= self.turns.segments {
            Turns::let_small(&mut state);
        }
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.pass();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use futures_util::FutureExt;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Result<Turn>>>>;

    fn take(turns: &Rc<Turns>, slot: usize) -> Waiting {
        let turns = turns.clone();
        Box::pin(async move { turns.take(slot).await })
    }

    /// The turn, if it is there; who asks stands in the queue from then on.
    fn now(waiting: &mut Waiting) -> Option<Turn> {
        waiting.now_or_never().map(|turn| turn.unwrap())
    }

    fn length(turn: &mut Turn, slot: usize) -> u32 {
        1 + std::iter::from_fn(|| turn.spend(slot).then_some(())).count() as u32
    }

    #[test]
    fn turns_are_the_longer_the_fewer_wait() {
        let one_set = Turns::new(0, 12, false);
        assert_eq!(length(&mut now(&mut take(&one_set, 0)).unwrap(), 0), 12);
        let turns = Turns::new(0, 12, true);
        let first = now(&mut take(&turns, 0)).unwrap();
        assert_eq!(first.left, 60);
        let mut others: Vec<Waiting> = (0..30).map(|slot| take(&turns, slot)).collect();
        assert!(others.iter_mut().all(|other| now(other).is_none()));
        drop(first);
        assert_eq!(now(&mut others[0]).unwrap().left, 12);
        // Who went away meanwhile is left out.
        others.truncate(9);
        assert!(now(&mut others[1]).is_some());
    }

    #[test]
    fn drives_stay_with_a_set_for_a_while_and_nobody_waits_for_ever() {
        let turns = Turns::new(0, 2, true);
        let mut holder = now(&mut take(&turns, 7)).unwrap();
        let mut elsewhere = take(&turns, 1);
        let mut here: Vec<Waiting> = (0..20).map(|_| take(&turns, 7)).collect();
        assert!(now(&mut elsewhere).is_none() && here.iter_mut().all(|one| now(one).is_none()));
        holder.spend(7);
        drop(holder);
        for waiting in &mut here {
            let Some(mut turn) = now(waiting) else { break };
            length(&mut turn, 7);
        }
        assert!(now(&mut elsewhere).is_some());
    }

    #[test]
    fn small_objects_go_between_the_segments_of_a_turn() {
        let turns = Turns::new(0, 3, true);
        assert!(turns.take_small().now_or_never().is_some(), "nobody has a turn");
        let mut turn = now(&mut take(&turns, 0)).unwrap();
        let mut small = Box::pin(turns.take_small());
        assert!((&mut small).now_or_never().is_none());
        turn.spend(0);
        turn.spend(0);
        assert!((&mut small).now_or_never().is_none());
        turn.spend(0);
        assert!((&mut small).now_or_never().is_some());
    }

    /// Four writers of small objects waited when the last turn ended. One was let in, and three waited for ever.
    #[test]
    fn all_small_objects_go_when_nobody_has_a_turn() {
        let turns = Turns::new(0, 3, true);
        let turn = now(&mut take(&turns, 0)).unwrap();
        let mut small: Vec<_> = (0..4).map(|_| Box::pin(turns.take_small())).collect();
        assert!(small.iter_mut().all(|one| one.now_or_never().is_none()));
        drop(turn);
        assert!(small.iter_mut().all(|one| one.now_or_never().is_some()));
    }

    #[test]
    fn who_waits_learns_of_the_end() {
        let turns = Turns::new(0, 3, true);
        let _turn = now(&mut take(&turns, 0)).unwrap();
        let mut waiting = take(&turns, 0);
        let mut small = Box::pin(turns.take_small());
        assert!(now(&mut waiting).is_none() && (&mut small).now_or_never().is_none());
        turns.end();
        assert!(waiting.now_or_never().is_some_and(|turn| turn.is_err()));
        assert!(small.now_or_never().is_some_and(|turn| turn.is_err()));
    }
}
