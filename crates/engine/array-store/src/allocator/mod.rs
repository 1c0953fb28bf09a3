//! The allocator: "where does the next item go?"
//!
//! A writer asks once for each item ([`Engine::start`]), with all that is known of it, and waits once. The [`Plan`]
//! decides the reason to wait, at once and without a clock:
//!
//! 1. *Which group?* A group is some drives, the sets that are open on them, and one queue. The one with the fewest
//!    writers.
//! 2. *Which of its open sets?* That which the rest of the object fills best: room there is reserved ([`slots`]).
//! 3. *Who is next?* One writer at a time, for a turn of 12 to 60 segments; small things go between them ([`queue`]).
//! 4. *May it go now?* Not before the drives have landed what is on its way to another set, and not too much at once
//!    ([`flow`]).
//!
//! Then the item is launched in the same step: nothing is awaited between the answer and its stamp. If the set has no
//! room for it, the next one is opened ([`open`]); if there is none, space is won, or the item goes to any set that it
//! fits ([`place`]). Cleaners' and snapshots' items have sets of their own and no turns: for them only the last
//! question is asked.
//!
//! **Owns** the open sets. **Knows nothing of** objects and the index.
//!
//! # Invariants
//! - AS-SHELF-2: no call fails for space while an open set has room for what it writes, and none is closed for want of
//!   room unless another one takes its place, cleaning wins something of it, or more are available than clients may
//!   have open.
//! - AS-ALLOC-1: who asks is in the queue only while it waits: a writer that goes away, and one that opens a set or
//!   waits for space, keeps no drive from others; nor does one that waits for space keep its group's turn.
//!   `small_objects_do_not_wait_for_a_large_one_that_waits_for_space`.

mod fit;
mod flow;
mod groups;
mod open;
mod place;
mod plan;
mod queue;
mod slots;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tokio::sync::Notify;

use crate::append::open_set::{OpenSet, Stream};
use crate::error::Result;
use crate::types::{DriveId, DriveSet, SetId};

pub(crate) use place::Who;
pub(crate) use plan::{Want, shape, zones_beside};
pub(crate) use queue::SeatId;
pub use slots::PutHints;

use flow::{Flow, Target};
use plan::Plan;

/// Groups, their open sets, and those who wait.
pub(crate) struct Allocator {
    plan: RefCell<Plan>,
    /// The open set of each stream.
    open: RefCell<BTreeMap<Stream, OpenSet>>,
    /// Streams for which a set is being opened.
    opening: RefCell<BTreeSet<Stream>>,
    /// Waiting writers ask again.
    changed: Notify,
}

/// Somebody who writes for clients: the room that it reserved, and its turn, until this is dropped.
pub(crate) struct Seat {
    allocator: Rc<Allocator>,
    pub(crate) id: SeatId,
}

/// An item that is on its way, until this is dropped.
pub(crate) struct Pass {
    allocator: Rc<Allocator>,
    launch: u64,
}

/// Layout of an array's open sets.
pub(crate) struct Layout {
    pub(crate) groups: usize,
    /// Sets that are open for clients in each.
    pub(crate) slots: usize,
    /// Groups that whoever wrote before may have had.
    pub(crate) side_by_side: usize,
    pub(crate) segment: u32,
    pub(crate) turn_segments: u32,
}

impl Allocator {
    pub(crate) fn new(layout: &Layout) -> Rc<Self> {
        let &Layout { groups, slots, side_by_side, segment, turn_segments } = layout;
        let plan = Plan::new(groups, slots, segment, turn_segments, Flow::new(side_by_side));
        Rc::new(Self {
            plan: RefCell::new(plan),
            open: RefCell::default(),
            opening: RefCell::default(),
            changed: Notify::new(),
        })
    }

    /// Asks or tells the plan; whoever may go on because of that does.
    fn plan<R>(&self, ask: impl FnOnce(&mut Plan) -> R) -> R {
        let mut plan = self.plan.borrow_mut();
        let answer = ask(&mut plan);
        if std::mem::take(&mut plan.moved) {
            self.changed.notify_waiters();
        }
        answer
    }

    pub(crate) fn groups(&self) -> usize {
        self.plan.borrow().groups.len()
    }

    /// Sets that clients have open at most.
    pub(crate) fn slots(&self) -> usize {
        self.plan.borrow().slots()
    }

    /// The open sets of a group.
    #[cfg(test)]
    pub(crate) fn sets_of(&self, group: usize) -> impl Iterator<Item = SetId> {
        let of_it = |slot: &usize| self.plan.borrow().group_of(*slot) == group;
        let open = self.open.borrow();
        let slots = (0..self.slots()).filter(of_it);
        let sets: Vec<SetId> = slots.filter_map(|slot| Some(open.get(&Stream::User(slot as u8))?.id)).collect();
        sets.into_iter()
    }

    /// The drives of each group.
    fn drives(&self) -> Vec<DriveSet> {
        self.plan.borrow().groups.iter().map(|group| group.drives).collect()
    }

    /// Items between the oldest that is not settled and the newest. (AS-WINDOW-1)
    pub(crate) fn most(&self) -> usize {
        self.plan.borrow().flow.most()
    }

    /// The stamp from which on items may be torn, of all that were found without proof. (AS-WINDOW-1)
    pub(crate) fn torn_from(&self, stamps: Vec<u64>) -> u64 {
        self.plan.borrow().flow.torn_from(stamps)
    }

    /// A seat for somebody who writes for clients.
    pub(crate) fn seat(self: &Rc<Self>) -> Seat {
        Seat { allocator: self.clone(), id: self.plan(Plan::sit) }
    }

    /// A set has room for so much data now.
    pub(crate) fn written(&self, set: SetId, free: u64) {
        self.plan(|plan| plan.written(set, free));
    }

    /// A set is closed.
    pub(crate) fn closed(&self, set: SetId) {
        self.plan(|plan| plan.closed(set));
    }

    /// Nothing more comes of a group of objects.
    pub(crate) fn end_group(&self, group: u64) {
        self.plan(|plan| plan.end_group(group));
    }

    /// Everybody who waits looks whether the array is still open.
    pub(crate) fn end(&self) {
        self.changed.notify_waiters();
    }

    /// From now on new data keeps away from these drives, as far as it can.
    pub(crate) fn avoid(&self, drives: DriveSet) {
        self.plan(|plan| plan.avoid(drives));
    }

    /// True if drives are avoided, and clients have no others.
    pub(crate) fn is_cornered(&self) -> bool {
        self.plan(|plan| plan.is_cornered())
    }

    /// True if a stream keeps away from its open set, as others have none of the drives that are avoided.
    fn keeps_away_from(&self, stream: Stream, open: &OpenSet) -> bool {
        let Stream::User(slot) = stream else { return false };
        self.plan(|plan| open.set.drives().meets(&plan.avoided) && plan.keeps_away(plan.group_of(slot.into())))
    }

    /// The first slot of a group that clients keep away from for that drive.
    pub(crate) fn slot_beside(&self, drive: DriveId) -> Option<Stream> {
        self.plan(|plan| plan.slot_beside(drive)).map(|slot| Stream::User(slot as u8))
    }

    /// The stream of a client's set that is open on that drive.
    pub(crate) fn stream_on(&self, drive: DriveId) -> Option<Stream> {
        let open = self.open.borrow();
        let on_it = |(stream, open): &(&Stream, &OpenSet)| {
            matches!(stream, Stream::User(_)) && open.set.drives().has(drive) && !open.flights.failed.get()
        };
        open.iter().find(on_it).map(|(stream, _)| *stream)
    }

    /// True if nobody has to keep away from a stream's group. (AS-LANE-2)
    fn is_able(&self, stream: Stream) -> bool {
        let Stream::User(slot) = stream else { return true };
        self.plan(|plan| plan.is_able(plan.group_of(slot.into())))
    }

    /// Takes the open set of a stream, if it has one.
    pub(crate) fn take(&self, stream: Stream) -> Option<OpenSet> {
        self.open.borrow_mut().remove(&stream)
    }

    /// Gives a stream an open set.
    pub(crate) fn put(&self, stream: Stream, open: OpenSet) {
        self.open.borrow_mut().insert(stream, open);
    }

    /// Takes the open sets that are of that kind.
    pub(crate) fn take_all(&self, which: impl Fn(&OpenSet) -> bool) -> Vec<OpenSet> {
        self.open.borrow_mut().extract_if(.., |_, open| which(open)).map(|(_, open)| open).collect()
    }

    /// Looks at every open set.
    pub(crate) fn look<R>(&self, look: impl FnMut(&OpenSet) -> R) -> Vec<R> {
        self.open.borrow().values().map(look).collect()
    }

    /// Looks at the open set of a stream, if it has one.
    pub(crate) fn look_at<R>(&self, stream: Stream, look: impl FnOnce(&OpenSet) -> R) -> Option<R> {
        self.open.borrow().get(&stream).map(look)
    }

    /// Drives to which cleaners write, but for that one.
    fn drives_of_other_cleaners(&self, one: Stream) -> DriveSet {
        let open = self.open.borrow();
        let others = open.iter().filter(|(stream, _)| matches!(stream, Stream::Clean(_)) && **stream != one);
        others.fold(DriveSet::EMPTY, |all, (_, open)| all.with(&open.set.drives()))
    }
}

impl Seat {
    /// Gives the turn back: nothing is ready, and the drives would wait.
    pub(crate) fn rest(&self) {
        self.allocator.plan(|plan| plan.rest(self.id));
    }

    /// Waits until a segment of small objects may be written: at once if nobody has a turn, or else between its
    /// segments.
    ///
    /// # Errors
    /// The error of `running` once the array is closed.
    pub(crate) async fn small_turn(&self, running: impl Fn() -> Result<()>) -> Result<()> {
        loop {
            let changed = self.allocator.changed.notified();
            running()?;
            if self.allocator.plan(|plan| plan.small_turn(self.id)) {
                return Ok(());
            }
            changed.await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.allocator.plan(|plan| plan.leave(self.id));
        self.allocator.changed.notify_waiters();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.allocator.plan(|plan| plan.flow.settled(self.launch));
        self.allocator.changed.notify_waiters();
    }
}
